// docs/ISOLATION.md END-3, END-4. Four things can be known of a box: its note, its groups, its
// process, its disk.
//
//	a note, and the process it names    the box lives: it is a cell again
//	a note without a process            it was being built, and promised to nobody: buried, and
//	                                    its disk unless that was there before
//	a note, the process gone or other   the box has ended: its disk stays, unless it ends with
//	                                    its run
//	a note of another boot              the same, but what ends with its run the daemon knows
//	none, or one that makes no sense    asked of the kernel: a pid 1 in the box's group is the
//	                                    box's, and its id range is in its map
//	a disk alone                        kept; the daemon has it buried if nobody wants it
//
// Nothing is signalled here. What is no cell is buried by its groups (warden/census.c). What could
// not be looked at is neither a cell nor none: then there is no beginning, and the boxes run on.
#include "warden/recall.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fault.h"
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

// What cannot be looked at is not gone: without an answer there is no next life.
static fallible unseen(const char *box)
{
	return err_hint(err_sys(errno, "look at the processes of %s", box),
			"the boxes run on; look at the limit on open files");
}

static bool has_ended(int pidfd)
{
	struct pollfd one = {.fd = pidfd, .events = POLLIN};

	return poll(&one, 1, 0) > 0;
}

// By its pidfd; -1: there is none of that number. First the fd, then the questions: from here on
// the number cannot come to mean another.
static fallible open_process(const char *box, int pid, uint64_t *out_started, int *out)
{
	auto_fd fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return errno == ESRCH || errno == EINVAL ? OK : unseen(box);
	*out_started = note_started(pid);
	if (!*out_started)
		return has_ended(fd) ? OK : unseen(box);
	*out = take_fd(&fd);
	return OK;
}

// The process that the note means, by its pidfd; -1: it is gone, or another has its number.
static fallible find_process(struct warden *warden, const char *box, const struct note *note,
			     int *out)
{
	auto_fd fd = -1;
	uint64_t started = 0;
	int first;

	if (note->pid <= 1 || !note->started)
		return OK;
	TRY(open_process(box, note->pid, &started, &fd));
	if (fd < 0 || started != note->started)
		return OK;
	first = group_first(warden->groups, box);
	if (first < 0)
		return unseen(box);
	if (first == note->pid)
		*out = take_fd(&fd);
	return OK;
}

static fallible recall_take_up(struct recall *recall, const char *box, const struct note *note,
			       int pidfd)
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
	kill_point("warden.box_recalled", NULL);
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
	int pidfd = -1;

	switch (note_read(warden->cells, box, &note)) {
	case NOTE_TOO_NEW:
		return too_new(box);
	case NOTE_GOOD:
		break;
	case NOTE_UNREAD:
		return unseen(box);
	default:
		log_event(LOG_ERROR, "note.unreadable", "sandbox", box, NULL);
		return OK; // the kernel is asked next
	}
	if (strcmp(note.boot, warden->boot) != 0) {
		note_drop(warden->cells, box);
		return OK;
	}
	TRY(find_process(warden, box, &note, &pidfd));
	if (pidfd >= 0)
		return recall_take_up(recall, box, &note, pidfd);
	if (note.ephemeral || (!note.pid && !note.again))
		map_put(recall->lost, str_of(box), recall);
	return OK;
}

// The id range of a process, by the map of its user namespace: "0 BASE 65536".
static fallible find_slot(const char *box, int pid, uint32_t *out_slot, bool *out_has)
{
	char path[32], text[128], *end;
	unsigned long inside, base;

	*out_has = false;
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	if (fd_get(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return errno == ENOENT || errno == ESRCH ? OK : unseen(box);
	inside = strtoul(text, &end, 10);
	base = strtoul(end, &end, 10);
	*out_has = *end == ' ' && inside == 0 && ids_slot((uint32_t)base, out_slot);
	return OK;
}

// The pid 1 in a box's group, as a note would tell of it. -1: there is none that a box could have.
static fallible guess(struct warden *warden, const char *box, struct note *out, int *out_pidfd)
{
	auto_fd fd = -1;
	bool has_slot = false;
	int again;

	out->pid = group_first(warden->groups, box);
	if (out->pid < 0)
		return unseen(box);
	if (!out->pid)
		return OK;
	TRY(open_process(box, out->pid, &out->started, &fd));
	if (fd < 0)
		return OK;
	TRY(find_slot(box, out->pid, &out->slot, &has_slot));
	again = group_first(warden->groups, box);
	if (again < 0)
		return unseen(box);
	if (has_slot && again == out->pid)
		*out_pidfd = take_fd(&fd);
	return OK;
}

// A group whose box no note has told of.
static void recall_group(void *arg, const char *box)
{
	struct recall *recall = arg;
	struct warden *warden = recall->warden;
	struct note note = {0};
	auto_fd pidfd = -1;
	enum note_state state;
	struct note known;

	if (recall->err || !id_is_box(str_of(box)) || map_get(warden->boxes, str_of(box)))
		return;
	state = note_read(warden->cells, box, &known);
	if (state == NOTE_UNREAD)
		recall->err = unseen(box);
	if (state == NOTE_UNREAD || state == NOTE_GOOD)
		return;
	recall->err = guess(warden, box, &note, &pidfd);
	if (recall->err || pidfd < 0)
		return;
	memcpy(note.boot, warden->boot, sizeof(note.boot));
	memset(note.killed, 0xff, sizeof(note.killed)); // any of them may have been
	log_event(LOG_WARN, "box.recalled", "sandbox", box, NULL);
	recall->err = note_write(warden->cells, box, &note);
	if (!recall->err)
		recall->err = recall_take_up(recall, box, &note, take_fd(&pidfd));
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

static fallible recall_settle(struct recall *recall)
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

	TRY(recall_settle(recall));

	snprintf(adopted, sizeof(adopted), "%zu", recall->adopted);
	snprintf(kept, sizeof(kept), "%zu", warden->kept);
	if (recall->adopted || warden->kept)
		log_event(LOG_INFO, "boxes.recalled", "alive", adopted, "kept", kept, NULL);
	return OK;
}
