// Lists boxes for the daemon, and compares the table with cgroups, disks, sockets and state files.
// All that is compared with the table is read anew from the kernel and the disk. Leaks that names
// do not show are found too: foreign processes in boxes' cgroups, loop devices without a box, id
// ranges in use without a box.
//
// syscalls: openat read close getdents64 newfstatat fstat ioctl faccessat faccessat2 fcntl lseek
#include "warden/reconcile.h"

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
#include "os/path.h"
#include "warden/jail.h"
#include "warden/reply_queue.h"
#include "warden/teardown.h"
#include "warden/template.h"
#include "warden/volumes.h"

#define FRESH_US 2000000
#define IMAGE ".img" // of a box's disk

static enum order_box_state state_of(struct warden *warden, const struct warden_box *box)
{
	switch (box->state) {
	case WARDEN_BOX_KEPT:
		return box->has.archive ? ORDER_BOX_ARCHIVED : ORDER_BOX_KEPT;
	case WARDEN_BOX_ALIVE:
		if (teardown_has_ended(box))
			return ORDER_BOX_DEAD;
		return group_pulse(warden->groups, box->id) == GROUP_RUNS ? ORDER_BOX_ALIVE
									  : ORDER_BOX_FROZEN;
	default:
		return ORDER_BOX_GOING;
	}
}

// Keeps the page sorted, with the first ids after `after`.
static void add_to_page(struct answer *answer, const char *after, const struct warden_box *box)
{
	struct order_box *page = answer->cells;
	uint32_t count = answer->cell_count, at = count;

	if (strcmp(box->id, after) <= 0)
		return;
	while (at > 0 && strcmp(page[at - 1].box, box->id) > 0)
		at--;
	if (at == ORDER_BOXES_PAGE)
		return;
	if (count == ORDER_BOXES_PAGE)
		count--;
	memmove(page + at + 1, page + at, (count - at) * sizeof(*page));
	page[at] = (struct order_box){.pid = box->pidfd >= 0 ? (uint32_t)box->pid : 0};
	memcpy(page[at].box, box->id, sizeof(page[at].box));
	answer->cell_count = count + 1;
}

fallible warden_reconcile_boxes(struct warden *warden, const struct order *order)
{
	struct answer *answer = &warden->answer;
	const struct warden_box *box;

	*answer = (struct answer){.kind = ANSWER_DONE, .to = ORDER_BOXES, .id = order->id};
	for (size_t at = 0; (box = warden_box_next(warden, &at));)
		if (box != warden->prebuilt)
			add_to_page(answer, order->box, box);
	// The state of boxes on the page alone: it is read from the kernel.
	for (uint32_t i = 0; i < answer->cell_count; i++)
		answer->cells[i].state = state_of(
			warden, map_get(warden->boxes, str_of(answer->cells[i].box)));
	reply_queue_answer(warden, answer, NULL, 0);
	return OK;
}

static void warden_reconcile_odd(struct answer *answer, const char *what, const char *name)
{
	answer->inventory.odd_count++;
	if (answer->odd_count == ORDER_ODDS_MAX)
		return;
	struct order_odd *entry = &answer->odds[answer->odd_count++];

	snprintf(entry->what, sizeof(entry->what), "%s", what);
	snprintf(entry->name, sizeof(entry->name), "%.*s", ID_BOX_LEN, name);
	for (char *c = entry->name; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

static void state_name(void *arg, const char *name)
{
	struct map *names = arg;

	map_put(names, str_of(name), names);
}

static void list_dir(int dir, struct map *names)
{
	auto_dir list = path_list(dir, ".");
	struct dirent *entry;

	while (list && (entry = path_next(list)))
		if (entry->d_name[0] != '.')
			state_name(names, entry->d_name);
}

enum place { GROUPS, DISKS, NOTES, EARS, PLACES };

static bool box_belongs(const struct warden_box *box, enum place place)
{
	switch (place) {
	case GROUPS:
		return box->has.groups || warden_box_is_building(box);
	case DISKS:
		return box->has.disk || warden_box_is_building(box);
	case NOTES:
		return box->has.state;
	default:
		return box->has.listener;
	}
}

// Reports names without a box, then boxes without their name.
static void reconcile_compare(struct warden *warden, struct map *names, enum place place)
{
	static const char *const leaked[] = {"group_without_box", "disk_without_box",
					     "state_file_without_box", "socket_without_box"};
	static const char *const lost[] = {"box_without_group", "box_without_disk",
					   "box_without_state_file", "box_without_socket"};
	struct answer *answer = &warden->answer;
	const struct warden_box *box;
	struct str key;
	size_t at = 0;
	void *value;

	while (map_next(names, &at, &key, &value)) {
		char name[256];

		box = map_get(warden->boxes, key);

		snprintf(name, sizeof(name), STR_FMT, STR_ARG(key));
		if (place == GROUPS && str_is(key, JAIL_GROUP))
			continue;
		if (!box || !box_belongs(box, place))
			warden_reconcile_odd(answer, leaked[place], name);
	}
	for (at = 0; (box = warden_box_next(warden, &at));) {
		if (box->state != WARDEN_BOX_ALIVE && box->state != WARDEN_BOX_KEPT)
			continue; // being built or removed
		if (box_belongs(box, place) && !map_get(names, str_of(box->id)))
			warden_reconcile_odd(answer, lost[place], box->id);
	}
}

static bool is_elsewhere(struct warden *warden, const struct warden_box *box)
{
	int first = group_first(warden->groups, box->id);

	// On v1 a builder joins its cgroups by itself, shortly after the clone.
	return first >= 0 && first != box->pid && clock_us() - box->state_file.born_us >= FRESH_US;
}

static void count_boxes(struct warden *warden)
{
	struct order_inventory *inventory = &warden->answer.inventory;
	uint32_t *const by_state[] = {
		[ORDER_BOX_ALIVE] = &inventory->alive, [ORDER_BOX_FROZEN] = &inventory->frozen,
		[ORDER_BOX_DEAD] = &inventory->dead,   [ORDER_BOX_KEPT] = &inventory->kept,
		[ORDER_BOX_GOING] = &inventory->going, [ORDER_BOX_ARCHIVED] = &inventory->archived,
	};
	const struct warden_box *box;

	for (size_t at = 0; (box = warden_box_next(warden, &at));) {
		if (box == warden->prebuilt) {
			inventory->prebuilt++;
			continue;
		}
		++*by_state[state_of(warden, box)];
		if (box->state == WARDEN_BOX_ALIVE && !teardown_has_ended(box) &&
		    is_elsewhere(warden, box))
			warden_reconcile_odd(&warden->answer, "box_without_process", box->id);
	}
}

static void state_unfinished(void *arg, const char *name)
{
	warden_reconcile_odd(arg, ORDER_ODD_TEMPLATE, name);
}

static uint32_t count_loops(struct warden *warden)
{
	auto_fd boxes = openat(warden->data, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t count = loopdev_count(warden->data, "pool.img");

	return boxes < 0 ? count : count + loopdev_count(boxes, NULL);
}

static void find_processes(struct warden *warden)
{
	const struct warden_box *box;

	for (size_t at = 0; (box = warden_box_next(warden, &at));)
		if (box->has.groups && group_has_outsider(warden->groups, box->id))
			warden_reconcile_odd(&warden->answer, "process_not_of_cell", box->id);
}

// Names with a dot are the drivers' own: templates, images that are ready.
static void see_loop(void *arg, int fd, const char *name)
{
	struct warden *warden = arg;
	struct str box_id = str_of(name);
	const struct warden_box *box;

	(void)fd;
	if (name[0] == '.')
		return;
	if (str_ends(box_id, IMAGE))
		box_id.len -= strlen(IMAGE);
	if (volumes_has(warden->volumes, box_id))
		return;
	box = map_get(warden->boxes, box_id);
	if (!box || (!warden_box_is_building(box) && !box->has.disk))
		warden_reconcile_odd(&warden->answer, "loop_without_box", name);
}

static void find_loops(struct warden *warden)
{
	static const char *const places[] = {"boxes", "trash"};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		auto_fd dir = openat(warden->data, places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (dir >= 0)
			loopdev_each(dir, see_loop, warden);
	}
	if (loopdev_count(warden->data, "pool.img") > 1)
		warden_reconcile_odd(&warden->answer, "loop_without_box", "pool.img");
}

// Two boxes with the same ids could access each other's files.
static void find_slots(struct warden *warden)
{
	uint32_t held = 1; // the slot of the jail
	const struct warden_box *box;

	for (size_t at = 0; (box = warden_box_next(warden, &at));) {
		held += box->has.slot;
		if (box->state == WARDEN_BOX_ALIVE && !box->has.slot)
			warden_reconcile_odd(&warden->answer, "box_without_slot", box->id);
	}
	if (ids_taken(warden->ids) > held)
		warden_reconcile_odd(&warden->answer, "slot_without_box", "");
}

fallible warden_reconcile_inventory(struct warden *warden, const struct order *order)
{
	struct answer *answer = &warden->answer;
	struct map *found[PLACES];
	struct err *err;

	for (int i = 0; i < PLACES; i++)
		found[i] = map_new();
	groups_each(warden->groups, state_name, found[GROUPS]);
	list_dir(warden->state_dir, found[NOTES]);
	list_dir(warden->listeners, found[EARS]);
	err = disk_each(warden->disk, state_name, found[DISKS]);
	*answer = (struct answer){.kind = ANSWER_DONE, .to = ORDER_INVENTORY, .id = order->id};
	if (!err)
		err = templates_unfinished(warden->templates, state_unfinished, answer);
	if (!err)
		err = volumes_compare(warden, warden_reconcile_odd, answer);
	if (!err) {
		count_boxes(warden);
		answer->inventory.groups = (uint32_t)map_count(found[GROUPS]);
		answer->inventory.disks = (uint32_t)map_count(found[DISKS]);
		answer->inventory.notes = (uint32_t)map_count(found[NOTES]);
		answer->inventory.sockets = (uint32_t)map_count(found[EARS]);
		answer->inventory.pids = groups_pids(warden->groups);
		answer->inventory.loops = count_loops(warden);
		answer->inventory.slots = ids_taken(warden->ids) - 1; // the jail's slot
		answer->inventory.resting = ids_resting(warden->ids);
		answer->inventory.trash = (uint32_t)disk_trash(warden->disk);
		for (int i = 0; i < PLACES; i++)
			reconcile_compare(warden, found[i], (enum place)i);
		find_processes(warden);
		find_loops(warden);
		find_slots(warden);
		reply_queue_answer(warden, answer, NULL, 0);
	}
	for (int i = 0; i < PLACES; i++)
		map_free(found[i]);
	return err;
}
