// Finds leaks that names do not show: foreign processes in boxes' cgroups, loop devices without a
// box, id ranges in use without a box. A process of a box, even of one being built, is at least one
// pid namespace below ours. A process that is not was moved there by somebody else, and would be
// killed with the box.
//
// syscalls: openat read close getdents64 lseek fstat newfstatat fcntl ioctl faccessat faccessat2
#include "warden/leaked.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/loopdev.h"
#include "warden/teardown.h"

#define PIDS_ROOM 1536
#define PATH_ROOM (ID_BOX_LEN + 300)
#define IMAGE ".img" // of a box's disk

// False: the process is gone, or belongs to a box.
static bool is_from_outside(uint64_t pid)
{
	char path[32], text[1536]; // the line is well within this
	const char *at, *end;

	snprintf(path, sizeof(path), "/proc/%llu/status", (unsigned long long)pid);
	if (fd_get(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	at = strstr(text, "\nNSpid:\t");
	if (!at)
		return false;
	at += strlen("\nNSpid:\t");
	end = strchr(at, '\n');
	return end && !memchr(at, '\t', (size_t)(end - at));
}

static bool has_outsider(int dir, const char *group)
{
	char path[PATH_ROOM], text[PIDS_ROOM];
	struct str rest, line;
	uint64_t pid;
	ssize_t len;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	len = fd_get(dir, path, text, sizeof(text));
	rest = (struct str){text, len > 0 ? (size_t)len : 0};
	while (len > 0 && str_cut(&rest, '\n', &line))
		if (str_to_u64(line, 2, INT32_MAX, &pid) && is_from_outside(pid))
			return true;
	return false;
}

// Looks at a box's cgroup and its exec cgroups.
static bool tree_has_outsider(const struct group_tree *tree, const char *box_id)
{
	auto_fd dir = openat(tree->dir, box_id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = dir < 0 ? NULL : fdopendir(dir);
	struct dirent *entry;
	bool found;

	if (!entries)
		return false;
	found = has_outsider(take_fd(&dir), ".");
	while (!found && tree->leafy && (entry = readdir(entries)))
		found = entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
			has_outsider(dirfd(entries), entry->d_name);
	closedir(entries);
	return found;
}

static void find_processes(struct warden *warden, leaked_fn *odd)
{
	struct str key;
	size_t at = 0;
	void *value;

	while (map_next(warden->boxes, &at, &key, &value)) {
		const struct warden_box *box = value;
		bool found = false;

		for (int i = 0; box->has.groups && !found && i < warden->groups->count; i++)
			found = !warden->groups->trees[i].shared &&
				tree_has_outsider(&warden->groups->trees[i], box->id);
		if (found)
			odd(&warden->answer, "process_not_of_cell", box->id);
	}
}

struct loops {
	struct warden *warden;
	leaked_fn *odd;
};

// Names with a dot are the drivers' own: templates, images that are ready.
static void see_loop(void *arg, int fd, const char *name)
{
	struct loops *loops = arg;
	struct str box_id = str_of(name);
	const struct warden_box *box;

	(void)fd;
	if (name[0] == '.')
		return;
	if (str_ends(box_id, IMAGE))
		box_id.len -= strlen(IMAGE);
	box = map_get(loops->warden->boxes, box_id);
	if (!box || (!warden_box_is_building(box) && !box->has.disk))
		loops->odd(&loops->warden->answer, "loop_without_box", name);
}

static void find_loops(struct warden *warden, leaked_fn *odd)
{
	static const char *const places[] = {"boxes", "trash"};
	struct loops loops = {warden, odd};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		auto_fd dir = openat(warden->data, places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (dir >= 0)
			loopdev_each(dir, see_loop, &loops);
	}
	if (loopdev_count(warden->data, "pool.img") > 1)
		odd(&warden->answer, "loop_without_box", "pool.img");
}

// Two boxes with the same ids could access each other's files.
static void find_slots(struct warden *warden, leaked_fn *odd)
{
	uint32_t held = 1; // the slot of the jail
	struct str key;
	size_t at = 0;
	void *value;

	while (map_next(warden->boxes, &at, &key, &value)) {
		const struct warden_box *box = value;

		held += box->has.slot;
		if (box->state == WARDEN_BOX_ALIVE && !box->has.slot)
			odd(&warden->answer, "box_without_slot", box->id);
	}
	if (ids_taken(warden->ids) > held)
		odd(&warden->answer, "slot_without_box", "");
}

void leaked_find(struct warden *warden, leaked_fn *odd)
{
	find_processes(warden, odd);
	find_loops(warden, odd);
	find_slots(warden, odd);
}
