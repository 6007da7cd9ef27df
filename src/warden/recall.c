// Four things can be known of a box: its note, its groups, its process, its disk.
//
//	note, and the process is the one that it names   the box lives: it is a cell again
//	note without a process in it                     it was being built, and nobody was told of
//	                                                 it: buried, and its disk unless it was
// there 	note, but the process is gone or another         the box has ended: its disk stays,
// unless it 	                                                 ends with its run 	note of
// another boot                             the same, but whether it was to end with its
// run the daemon knows 	no note, or none that can be read                asked of the
// kernel: a pid 1 in the box's group 	                                                 is the
// box's, and its id range is in its map 	a disk alone kept; the daemon has it buried if
// nobody wants 	                                                 it
//
// Nothing is signalled here. What is no cell is buried by its groups (warden/census.c).
#include "warden/recall.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/fd.h"
#include "warden/build.h"
#include "warden/bury.h"
#include "warden/ear.h"

struct recall {
	struct warden *warden;
	struct map *lost;    // boxes whose disk goes
	struct map *guessed; // cells without a note to be believed: their limits are not known
	struct err *err;     // the first one
	size_t adopted;
};

// The process that the note means, by its pidfd; -1: it is gone, or another has its number.
static int find_process(struct warden *warden, const char *box, const struct note *note)
{
	auto_fd fd = -1;

	if (note->pid <= 1 || !note->started)
		return -1;
	// First the fd, then the questions: from here on the number cannot come to mean another.
	fd = (int)syscall(SYS_pidfd_open, note->pid, 0);
	if (fd < 0 || note_started(note->pid) != note->started ||
	    group_first(warden->groups, box) != note->pid)
		return -1;
	return take_fd(&fd);
}

static fallible take_up(struct recall *recall, const char *box, const struct note *note, int pidfd)
{
	struct warden *warden = recall->warden;
	struct cell *cell = cell_new(box);

	cell->note = *note;
	cell->pid = note->pid;
	cell->pidfd = pidfd;
	if (bury_watch(warden, cell)) {
		struct err *err = err_sys(errno, "watch the end of %s", box);

		fd_drop(&cell->pidfd);
		free(cell);
		return err;
	}
	cell->state = CELL_ALIVE;
	cell->has_note = cell->has_ear = cell->has_groups = true;
	cell->leaves = group_leaves(warden->groups, box);
	cell->has_slot = ids_claim(warden->ids, note->slot);
	if (!cell->has_slot)
		log_event(LOG_WARN, "box.no_slot", "sandbox", box, NULL);
	// A kill that the last life had begun may have left a leaf frozen.
	for (uint32_t leaf = 0; leaf < cell->leaves; leaf++)
		group_thaw(warden->groups, box, leaf);
	map_put(warden->boxes, str_of(cell->id), cell);
	recall->adopted++;
	return OK;
}

static fallible too_new(const char *box)
{
	return err_hint(err_new(INVALID, "state_too_new",
				"the note of %s was written by a newer cove", box),
			"start that version again; it knows what is running");
}

static fallible recall_note(struct recall *recall, const char *box)
{
	struct warden *warden = recall->warden;
	struct note note;
	int pidfd;

	switch (note_read(warden->cells, box, &note)) {
	case NOTE_TOO_NEW:
		return too_new(box);
	case NOTE_GOOD:
		break;
	default:
		log_event(LOG_ERROR, "note.unreadable", "sandbox", box, NULL);
		return OK; // the kernel is asked next
	}
	if (strcmp(note.boot, warden->boot) != 0) {
		note_drop(warden->cells, box);
		return OK;
	}
	pidfd = find_process(warden, box, &note);
	if (pidfd >= 0)
		return take_up(recall, box, &note, pidfd);
	if (note.ephemeral || (!note.pid && !note.again))
		map_put(recall->lost, str_of(box), recall);
	return OK;
}

// The id range of a process, by the map of its user namespace: "0 BASE 65536".
static bool find_slot(int pid, uint32_t *out_slot)
{
	char path[32], text[128], *end;
	unsigned long inside, base;

	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	if (fd_get(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	inside = strtoul(text, &end, 10);
	base = strtoul(end, &end, 10);
	return *end == ' ' && inside == 0 && ids_slot((uint32_t)base, out_slot);
}

// A group whose box no note has told of.
static void recall_group(void *arg, const char *box)
{
	struct recall *recall = arg;
	struct warden *warden = recall->warden;
	struct note note = {0};
	auto_fd pidfd = -1;
	struct note known;

	if (recall->err || !id_is_box(str_of(box)) || map_get(warden->boxes, str_of(box)) ||
	    note_read(warden->cells, box, &known) == NOTE_GOOD)
		return;
	note.pid = group_first(warden->groups, box);
	if (!note.pid)
		return;
	pidfd = (int)syscall(SYS_pidfd_open, note.pid, 0);
	note.started = note_started(note.pid);
	if (pidfd < 0 || !note.started || !find_slot(note.pid, &note.slot) ||
	    group_first(warden->groups, box) != note.pid)
		return;
	memcpy(note.boot, warden->boot, sizeof(note.boot));
	memset(note.killed, 0xff, sizeof(note.killed)); // any of them may have been
	log_event(LOG_WARN, "box.recalled", "sandbox", box, NULL);
	recall->err = note_write(warden->cells, box, &note);
	if (!recall->err)
		recall->err = take_up(recall, box, &note, take_fd(&pidfd));
	map_put(recall->guessed, str_of(box), recall);
}

// Every name in a directory that can be a box's.
static fallible each_name(int dir, fallible (*each)(struct recall *recall, const char *name),
			  struct recall *recall)
{
	auto_fd again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;
	struct err *err = OK;

	if (!entries)
		return err_sys(errno, "list what an earlier life left");
	take_fd(&again);
	while (!err && (entry = readdir(entries)))
		if (id_is_box(str_of(entry->d_name)))
			err = each(recall, entry->d_name);
	closedir(entries);
	return err;
}

void recall_drop(struct recall **held)
{
	struct recall *recall = *held;

	if (!recall)
		return;
	map_free(recall->lost);
	map_free(recall->guessed);
	err_free(recall->err);
	free(recall);
}

fallible recall_boxes(struct warden *warden, struct recall **out)
{
	auto_recall recall = mem_new_of(struct recall);

	recall->warden = warden;
	recall->lost = map_new();
	recall->guessed = map_new();
	TRY(each_name(warden->cells, recall_note, recall));
	groups_each(warden->groups, recall_group, recall);
	if (recall->err)
		return take_ptr(recall->err);
	*out = take_ptr(recall);
	return OK;
}

static void recall_disk(void *arg, const char *box)
{
	struct recall *recall = arg;
	struct warden *warden = recall->warden;
	struct cell *cell = map_get(warden->boxes, str_of(box));
	struct limits limits = {0};

	if (cell) {
		cell->has_disk = true;
		limits.disk = cell->note.disk;
		limits.inodes = cell->note.inodes;
		if (cell->state == CELL_ALIVE && !map_get(recall->guessed, str_of(box)))
			disk_adopt(warden->disk, box, &limits);
		return;
	}
	if (map_get(recall->lost, str_of(box)))
		return;
	cell = cell_new(box);
	cell->state = CELL_KEPT;
	cell->has_disk = true;
	map_put(warden->boxes, str_of(cell->id), cell);
	warden->kept++;
}

static fallible drop_stale_note(struct recall *recall, const char *box)
{
	const struct cell *cell = map_get(recall->warden->boxes, str_of(box));

	if (!cell || !cell->has_note)
		note_drop(recall->warden->cells, box);
	return OK;
}

static fallible drop_stale_ear(struct recall *recall, const char *box)
{
	const struct cell *cell = map_get(recall->warden->boxes, str_of(box));

	if (!cell || !cell->has_ear)
		ear_drop(recall->warden->ears, box);
	return OK;
}

static fallible settle(struct recall *recall)
{
	struct warden *warden = recall->warden;
	struct str key;
	size_t at = 0;
	void *value;

	TRY(disk_each(warden->disk, recall_disk, recall));
	while (map_next(recall->lost, &at, &key, &value)) {
		char box[ID_BOX_LEN + 1];

		snprintf(box, sizeof(box), STR_FMT, STR_ARG(key));
		TRY(disk_drop(warden->disk, box));
	}
	// The notes last: until here they say what was to be done.
	TRY(each_name(warden->ears, drop_stale_ear, recall));
	return each_name(warden->cells, drop_stale_note, recall);
}

fallible recall_disks(struct warden *warden, struct recall *recall)
{
	char adopted[24], kept[24];

	TRY(settle(recall));

	snprintf(adopted, sizeof(adopted), "%zu", recall->adopted);
	snprintf(kept, sizeof(kept), "%zu", warden->kept);
	if (recall->adopted || warden->kept)
		log_event(LOG_INFO, "boxes.recalled", "alive", adopted, "kept", kept, NULL);
	return OK;
}
