// A census looks at everything anew: nothing that it compares with the table comes from the table.
//
// syscalls: openat read close getdents64 newfstatat fstat ioctl faccessat faccessat2 fcntl lseek
#include "warden/tally.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "os/loopdev.h"
#include "warden/bury.h"
#include "warden/jail.h"
#include "warden/post.h"
#include "warden/strays.h"

#define FRESH_US 2000000

static enum order_cell_state state_of(struct warden *warden, const struct cell *cell)
{
	switch (cell->state) {
	case CELL_KEPT:
		return ORDER_CELL_KEPT;
	case CELL_ALIVE:
		if (bury_has_ended(cell))
			return ORDER_CELL_DEAD;
		return group_pulse(warden->groups, cell->id) == GROUP_RUNS ? ORDER_CELL_ALIVE
									   : ORDER_CELL_FROZEN;
	default:
		return ORDER_CELL_GOING;
	}
}

// Keeps the page sorted, and the first ids behind `after` on it.
static void add_to_page(struct answer *answer, const char *after, const struct cell *cell)
{
	struct order_cell *page = answer->cells;
	uint32_t count = answer->cell_count, at = count;

	if (strcmp(cell->id, after) <= 0)
		return;
	while (at > 0 && strcmp(page[at - 1].box, cell->id) > 0)
		at--;
	if (at == ORDER_CELLS_PAGE)
		return;
	if (count == ORDER_CELLS_PAGE)
		count--;
	memmove(page + at + 1, page + at, (count - at) * sizeof(*page));
	page[at] = (struct order_cell){.pid = cell->pidfd >= 0 ? (uint32_t)cell->pid : 0};
	memcpy(page[at].box, cell->id, sizeof(page[at].box));
	answer->cell_count = count + 1;
}

fallible tally_cells(struct warden *warden, const struct order *order)
{
	struct answer *answer = &warden->answer;
	struct str key;
	size_t at = 0;
	void *value;

	*answer = (struct answer){.kind = ANSWER_DONE, .to = ORDER_CELLS, .id = order->id};
	while (map_next(warden->boxes, &at, &key, &value))
		if (!((const struct cell *)value)->ahead)
			add_to_page(answer, order->box, value);
	// The state of those on the page alone: it is asked of the kernel.
	for (uint32_t i = 0; i < answer->cell_count; i++)
		answer->cells[i].state = state_of(
			warden, map_get(warden->boxes, str_of(answer->cells[i].box)));
	post_answer(warden, answer, NULL, 0);
	return OK;
}

static void tally_odd(struct answer *answer, const char *what, const char *name)
{
	answer->census.odd_count++;
	if (answer->odd_count == ORDER_ODDS_MAX)
		return;
	struct order_odd *entry = &answer->odds[answer->odd_count++];

	snprintf(entry->what, sizeof(entry->what), "%s", what);
	snprintf(entry->name, sizeof(entry->name), "%.*s", ID_BOX_LEN, name);
	for (char *c = entry->name; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

static void note_name(void *arg, const char *name)
{
	struct map *names = arg;

	map_put(names, str_of(name), names);
}

static void list_dir(int dir, struct map *names)
{
	auto_fd again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;

	if (!entries)
		return;
	take_fd(&again);
	while ((entry = readdir(entries)))
		if (entry->d_name[0] != '.')
			note_name(names, entry->d_name);
	closedir(entries);
}

enum place { GROUPS, DISKS, NOTES, EARS, PLACES };

static bool belongs(const struct cell *cell, enum place place)
{
	switch (place) {
	case GROUPS:
		return cell->has_groups || cell->state == CELL_BUILDING;
	case DISKS:
		return cell->has_disk || cell->state == CELL_BUILDING;
	case NOTES:
		return cell->has_note;
	default:
		return cell->has_ear;
	}
}

// What is there and should not be, then what should be there and is not.
static void compare(struct warden *warden, struct map *names, enum place place)
{
	static const char *const stray[] = {"group_without_cell", "disk_without_cell",
					    "note_without_cell", "socket_without_cell"};
	static const char *const lost[] = {"cell_without_group", "cell_without_disk",
					   "cell_without_note", "cell_without_socket"};
	struct answer *answer = &warden->answer;
	struct str key;
	size_t at = 0;
	void *value;

	while (map_next(names, &at, &key, &value)) {
		const struct cell *cell = map_get(warden->boxes, key);
		char name[256];

		snprintf(name, sizeof(name), STR_FMT, STR_ARG(key));
		if (place == GROUPS && str_is(key, JAIL_GROUP))
			continue;
		if (!cell || !belongs(cell, place))
			tally_odd(answer, stray[place], name);
	}
	at = 0;
	while (map_next(warden->boxes, &at, &key, &value)) {
		const struct cell *cell = value;

		if (cell->state != CELL_ALIVE && cell->state != CELL_KEPT)
			continue; // on its way, one way or the other
		if (belongs(cell, place) && !map_get(names, key))
			tally_odd(answer, lost[place], cell->id);
	}
}

// On v1 a builder joins its groups by itself, a moment after its birth.
static bool is_fresh(const struct cell *cell)
{
	return clock_us() - cell->note.born_us < FRESH_US;
}

static bool is_elsewhere(struct warden *warden, const struct cell *cell)
{
	int first = group_first(warden->groups, cell->id);

	return first >= 0 && first != cell->pid;
}

static void count_cells(struct warden *warden)
{
	struct order_census *census = &warden->answer.census;
	uint32_t *const by_state[] = {
		[ORDER_CELL_ALIVE] = &census->alive, [ORDER_CELL_FROZEN] = &census->frozen,
		[ORDER_CELL_DEAD] = &census->dead,   [ORDER_CELL_KEPT] = &census->kept,
		[ORDER_CELL_GOING] = &census->going,
	};
	struct str key;
	size_t at = 0;
	void *value;

	while (map_next(warden->boxes, &at, &key, &value)) {
		const struct cell *cell = value;

		if (cell->ahead) {
			census->berths++;
			continue;
		}
		++*by_state[state_of(warden, cell)];
		if (cell->state == CELL_ALIVE && !bury_has_ended(cell) && !is_fresh(cell) &&
		    is_elsewhere(warden, cell))
			tally_odd(&warden->answer, "cell_without_process", cell->id);
	}
}

static void note_unfinished(void *arg, const char *name)
{
	tally_odd(arg, ORDER_ODD_TEMPLATE, name);
}

static uint32_t count_loops(struct warden *warden)
{
	auto_fd boxes = openat(warden->data, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t count = loopdev_count(warden->data, "pool.img");

	return boxes < 0 ? count : count + loopdev_count(boxes, NULL);
}

fallible tally_census(struct warden *warden, const struct order *order)
{
	struct answer *answer = &warden->answer;
	struct map *found[PLACES];
	struct err *err;

	for (int i = 0; i < PLACES; i++)
		found[i] = map_new();
	groups_each(warden->groups, note_name, found[GROUPS]);
	list_dir(warden->cells, found[NOTES]);
	list_dir(warden->ears, found[EARS]);
	err = disk_each(warden->disk, note_name, found[DISKS]);
	*answer = (struct answer){.kind = ANSWER_DONE, .to = ORDER_CENSUS, .id = order->id};
	if (!err)
		err = templates_unfinished(warden->templates, note_unfinished, answer);
	if (!err) {
		count_cells(warden);
		answer->census.groups = (uint32_t)map_count(found[GROUPS]);
		answer->census.disks = (uint32_t)map_count(found[DISKS]);
		answer->census.notes = (uint32_t)map_count(found[NOTES]);
		answer->census.sockets = (uint32_t)map_count(found[EARS]);
		answer->census.pids = groups_pids(warden->groups);
		answer->census.loops = count_loops(warden);
		answer->census.slots = ids_taken(warden->ids) - 1; // the jail's
		answer->census.resting = ids_resting(warden->ids);
		answer->census.trash = (uint32_t)disk_trash(warden->disk);
		for (int i = 0; i < PLACES; i++)
			compare(warden, found[i], (enum place)i);
		strays_find(warden, tally_odd);
		post_answer(warden, answer, NULL, 0);
	}
	for (int i = 0; i < PLACES; i++)
		map_free(found[i]);
	return err;
}
