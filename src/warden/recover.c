// Rebuilds the table at start (docs/ISOLATION.md END-3, END-4) from state files, cgroups and disks:
//	state file and its process           the box lives, and is in the table again
//	state file without a pid             was being built for nobody: destroyed, with a new disk
//	state file, process gone or another  the box has ended: its disk stays unless ephemeral
//	state file of another boot           the same, but the daemon decides on ephemeral disks
//	no or a bad state file               a pid 1 in the box's cgroup is the box's; its uid_map
//	                                     names the slot
//	a disk alone                         kept; the daemon has it destroyed if not wanted
// Nothing is signalled here: other cgroups are destroyed by groups.c. A box that cannot be
// examined is neither living nor gone: then the start fails, and the boxes run on.
//
// syscalls: faccessat faccessat2
#include "warden/recover.h"

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
#include "os/path.h"
#include "os/thread.h"
#include "warden/teardown.h"

struct recover {
	struct warden *warden;
	struct map *lost;    // boxes whose disk is removed
	struct map *guessed; // boxes without a usable state file: their limits are unknown
	struct err *err;     // the first one
	size_t adopted;
};

// A failure to look is not an absence: then the warden does not start.
static fallible recover_unseen(const char *box_id)
{
	return err_hint(err_sys(errno, "look at the processes of %s", box_id),
			"the boxes run on; look at the limit on open files");
}

static bool has_ended(int pidfd)
{
	struct pollfd one = {.fd = pidfd, .events = POLLIN};

	return poll(&one, 1, 0) > 0;
}

// By its pidfd; -1: no such process. The fd is opened before the checks, so that the pid cannot be
// reused meanwhile.
static fallible open_process(const char *box_id, int pid, uint64_t *out_started, int *out)
{
	auto_fd fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct thread_look look;

	if (fd < 0)
		return errno == ESRCH || errno == EINVAL ? OK : recover_unseen(box_id);
	if (!thread_look_process(pid, &look))
		return has_ended(fd) ? OK : recover_unseen(box_id);
	*out_started = look.started;
	*out = take_fd(&fd);
	return OK;
}

// The process of the state file, by its pidfd; -1: gone, or another process has its pid.
static fallible find_process(struct warden *warden, const char *box_id,
			     const struct box_state *state_file, int *out)
{
	auto_fd fd = -1;
	uint64_t started = 0;
	int first;

	if (state_file->pid <= 1 || !state_file->started)
		return OK;
	TRY(open_process(box_id, state_file->pid, &started, &fd));
	if (fd < 0 || started != state_file->started)
		return OK;
	first = group_first(warden->groups, box_id);
	if (first < 0)
		return recover_unseen(box_id);
	if (first == state_file->pid)
		*out = take_fd(&fd);
	return OK;
}

static fallible recover_take_up(struct recover *recover, const char *box_id,
				const struct box_state *state_file, int pidfd)
{
	struct warden *warden = recover->warden;
	struct warden_box *box = warden_box_new(warden, box_id, WARDEN_BOX_ALIVE);

	box->state_file = *state_file;
	box->pid = state_file->pid;
	box->pidfd = pidfd;
	if (teardown_watch(warden, box))
		return err_sys(errno, "watch the end of %s", box_id);
	box->has.state = box->has.listener = box->has.groups = true;
	box->exec_cgroups = group_cgroups(warden->groups, box_id);
	box->has.slot = ids_claim(warden->ids, state_file->slot);
	if (!box->has.slot)
		log_event(LOG_WARN, "box.no_slot", "sandbox", box_id, NULL);
	// An interrupted kill of the last warden may have left an exec cgroup frozen.
	for (uint32_t exec_cgroup = 0; exec_cgroup < box->exec_cgroups; exec_cgroup++)
		group_thaw(warden->groups, box_id, exec_cgroup);
	recover->adopted++;
	kill_point("warden.box_recovered", NULL);
	return OK;
}

static fallible recover_state(struct recover *recover, const char *box_id)
{
	struct warden *warden = recover->warden;
	struct box_state state_file;
	int pidfd = -1;

	switch (box_state_read(warden->state_dir, box_id, &state_file)) {
	case BOX_STATE_TOO_NEW:
		return err_hint(err_new(INVALID, "state_too_new",
					"the state file of %s was written by a newer cove", box_id),
				"start that version again; it can read it");
	case BOX_STATE_GOOD:
		break;
	case BOX_STATE_UNREAD:
		return recover_unseen(box_id);
	default:
		log_event(LOG_ERROR, "box_state.unreadable", "sandbox", box_id, NULL);
		return OK; // the kernel is asked next
	}
	if (strcmp(state_file.boot, warden->boot) != 0) {
		box_state_drop(warden->state_dir, box_id);
		return OK;
	}
	TRY(find_process(warden, box_id, &state_file, &pidfd));
	if (pidfd >= 0)
		return recover_take_up(recover, box_id, &state_file, pidfd);
	if (state_file.ephemeral || (!state_file.pid && !state_file.again))
		map_put(recover->lost, str_of(box_id), recover);
	return OK;
}

// The id range of a process, by its uid_map: "0 BASE 65536".
static fallible find_slot(const char *box_id, int pid, uint32_t *out_slot, bool *out_has)
{
	char path[32], text[128], *end;
	unsigned long inside, base;

	*out_has = false;
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	if (fd_get(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return errno == ENOENT || errno == ESRCH ? OK : recover_unseen(box_id);
	inside = strtoul(text, &end, 10);
	base = strtoul(end, &end, 10);
	*out_has = *end == ' ' && inside == 0 && ids_slot((uint32_t)base, out_slot);
	return OK;
}

// The pid 1 in a box's cgroup, as a state file would describe it. -1: none that a box could have.
static fallible recover_guess(struct warden *warden, const char *box_id, struct box_state *out,
			      int *out_pidfd)
{
	auto_fd fd = -1;
	bool has_slot = false;
	int again;

	out->pid = group_first(warden->groups, box_id);
	if (out->pid < 0)
		return recover_unseen(box_id);
	if (!out->pid)
		return OK;
	TRY(open_process(box_id, out->pid, &out->started, &fd));
	if (fd < 0)
		return OK;
	TRY(find_slot(box_id, out->pid, &out->slot, &has_slot));
	again = group_first(warden->groups, box_id);
	if (again < 0)
		return recover_unseen(box_id);
	if (has_slot && again == out->pid)
		*out_pidfd = take_fd(&fd);
	return OK;
}

// A cgroup whose box has no state file.
static void recover_group(void *arg, const char *box_id)
{
	struct recover *recover = arg;
	struct warden *warden = recover->warden;
	struct box_state state_file = {0};
	auto_fd pidfd = -1;
	enum box_state_state state;
	struct box_state known;

	if (recover->err || !id_is_box(str_of(box_id)) || map_get(warden->boxes, str_of(box_id)))
		return;
	state = box_state_read(warden->state_dir, box_id, &known);
	if (state == BOX_STATE_UNREAD)
		recover->err = recover_unseen(box_id);
	if (state == BOX_STATE_UNREAD || state == BOX_STATE_GOOD)
		return;
	recover->err = recover_guess(warden, box_id, &state_file, &pidfd);
	if (recover->err || pidfd < 0)
		return;
	memcpy(state_file.boot, warden->boot, sizeof(state_file.boot));
	memset(state_file.killed, 0xff,
	       sizeof(state_file.killed)); // any of them may have been killed
	log_event(LOG_WARN, "box.recovered", "sandbox", box_id, NULL);
	recover->err = box_state_write(warden->state_dir, box_id, &state_file);
	if (!recover->err)
		recover->err = recover_take_up(recover, box_id, &state_file, take_fd(&pidfd));
	map_put(recover->guessed, str_of(box_id), recover);
}

// Calls `each` for every name in a directory that can be a box's.
static fallible each_name(int dir, fallible (*each)(struct recover *recover, const char *name),
			  struct recover *recover)
{
	auto_dir list = path_list(dir, ".");
	struct dirent *entry;

	if (!list)
		return err_sys(errno, "list the files of an earlier warden");
	while ((entry = path_next(list)))
		if (id_is_box(str_of(entry->d_name)))
			TRY(each(recover, entry->d_name));
	return OK;
}

void recover_drop(struct recover **held)
{
	struct recover *recover = *held;

	if (!recover)
		return;
	map_free(recover->lost);
	map_free(recover->guessed);
	err_free(recover->err);
	free(recover);
}

fallible recover_boxes(struct warden *warden, struct recover **out)
{
	auto_recover recover = mem_new_of(struct recover);

	recover->warden = warden;
	recover->lost = map_new();
	recover->guessed = map_new();
	TRY(each_name(warden->state_dir, recover_state, recover));
	groups_each(warden->groups, recover_group, recover);
	if (recover->err)
		return take_ptr(recover->err);
	*out = take_ptr(recover);
	return OK;
}

static void recover_disk(void *arg, const char *box_id)
{
	struct recover *recover = arg;
	struct warden *warden = recover->warden;
	struct warden_box *box = map_get(warden->boxes, str_of(box_id));
	struct limits limits = {0};

	if (box) {
		box->has.disk = true;
		limits.disk = box->state_file.disk;
		limits.inodes = box->state_file.inodes;
		if (box->state == WARDEN_BOX_ALIVE && !map_get(recover->guessed, str_of(box_id)))
			disk_adopt(warden->disk, box_id, &limits);
		return;
	}
	if (map_get(recover->lost, str_of(box_id)))
		return;
	warden_box_new(warden, box_id, WARDEN_BOX_KEPT)->has.disk = true;
}

static fallible drop_stale_state(struct recover *recover, const char *box_id)
{
	const struct warden_box *box = map_get(recover->warden->boxes, str_of(box_id));

	if (!box || !box->has.state)
		box_state_drop(recover->warden->state_dir, box_id);
	return OK;
}

static fallible drop_stale_listener(struct recover *recover, const char *box_id)
{
	const struct warden_box *box = map_get(recover->warden->boxes, str_of(box_id));

	if (!box || !box->has.listener)
		box_listener_drop(recover->warden->listeners, box_id);
	return OK;
}

fallible recover_disks(struct warden *warden, struct recover *recover)
{
	char adopted[24], kept[24];
	struct str key;
	size_t at = 0;
	void *value;

	TRY(disk_each(warden->disk, recover_disk, recover));
	while (map_next(recover->lost, &at, &key, &value)) {
		char box_id[ID_BOX_LEN + 1];

		snprintf(box_id, sizeof(box_id), STR_FMT, STR_ARG(key));
		TRY(disk_drop(warden->disk, box_id));
	}
	// State files last: until here they say what remains to be done.
	TRY(each_name(warden->listeners, drop_stale_listener, recover));
	TRY(each_name(warden->state_dir, drop_stale_state, recover));
	snprintf(adopted, sizeof(adopted), "%zu", recover->adopted);
	snprintf(kept, sizeof(kept), "%zu", warden->kept);
	if (recover->adopted || warden->kept)
		log_event(LOG_INFO, "boxes.recovered", "alive", adopted, "kept", kept, NULL);
	return OK;
}

static fallible orphan_busy(const char *what)
{
	return err_new(UNAVAILABLE, "leaked_busy", "%s without a box cannot be removed yet", what);
}

// Cgroups come first: processes in them keep the files busy.
fallible recover_remove_orphan(struct warden *warden, const char *box_id)
{
	if (!group_destroy(warden->groups, box_id))
		return orphan_busy("a control group");
	box_listener_drop(warden->listeners, box_id);
	box_state_drop(warden->state_dir, box_id);
	if (faccessat(warden->listeners, box_id, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    faccessat(warden->state_dir, box_id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return orphan_busy("a run file");
	return disk_remove_orphan(warden->disk, box_id);
}
