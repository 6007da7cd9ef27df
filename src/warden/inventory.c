// Kills and removes the cgroups that an earlier warden left. A mount namespace dies with its last
// process, so cgroups and their processes are all that can be left of a box, besides its disk.
// Rounds repeat until every cgroup is removed: a process forked during a round is killed in the
// next.
//
// syscalls: openat close getdents64 unlinkat kill read write newfstatat fcntl
#include "warden/inventory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/str.h"
#include "os/fd.h"

#define PAUSE_NS 500000 // between rounds

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}
#define auto_dir on_exit_call(close_dir) DIR *

static DIR *inventory_open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		fd_drop(&fd);
	return dir;
}

static void kill_listed(int group)
{
	char text[2048];
	ssize_t len = fd_get(group, "cgroup.procs", text, sizeof(text));
	struct str rest = {text, len > 0 ? (size_t)len : 0}, line;
	uint64_t pid;

	if (len <= 0)
		return;
	while (str_cut(&rest, '\n', &line))
		if (str_to_u64(line, 2, INT32_MAX, &pid) && (rest.at || len < 2047))
			kill((pid_t)pid, SIGKILL);
}

// Kills what is in the cgroup `name` and its exec cgroups, and removes those that are empty. By pid
// only where there is no v2 cgroup: a pid may be reused between the read and the signal.
static bool inventory_sweep(const struct group_tree *tree, bool by_number, int at, const char *name)
{
	auto_dir dir = inventory_open_dir(at, name);
	struct dirent *entry;

	if (!dir)
		return true;
	fd_put(dirfd(dir), "freezer.state", "THAWED");
	if (tree->holds & 1u << CGROUP_CPU)
		fd_put(dirfd(dir), tree->version == 2 ? "cpu.max" : "cpu.cfs_quota_us",
		       tree->version == 2 ? "max" : "-1");
	if (tree->version == 2)
		fd_put(dirfd(dir), "cgroup.kill", "1"); // exec cgroups included
	if (by_number)
		kill_listed(dirfd(dir));
	while ((entry = readdir(dir))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		auto_fd exec_cgroup = openat(dirfd(dir), entry->d_name,
					     O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (exec_cgroup >= 0 && by_number)
			kill_listed(exec_cgroup);
		unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
	return unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

// One round over all cgroups: how many boxes are left, and how many were seen.
static int round_of_all(struct groups *groups, const struct map *known, int *seen)
{
	int left = 0;

	*seen = 0;
	for (int i = 0; i < groups->count; i++) {
		auto_dir dir = groups->trees[i].shared
				       ? NULL
				       : inventory_open_dir(groups->trees[i].dir, ".");
		struct dirent *entry;
		int here = 0;

		while (dir && (entry = readdir(dir))) {
			if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
			    map_get(known, str_of(entry->d_name)))
				continue;
			here++;
			left += !inventory_sweep(&groups->trees[i], !groups->unified, dirfd(dir),
						 entry->d_name);
		}
		*seen = here > *seen ? here : *seen;
	}
	return left;
}

fallible inventory_destroy(struct groups *groups, const struct map *known, int *out_destroyed)
{
	int64_t deadline = clock_ms() + INVENTORY_MS;
	int first, seen, left = round_of_all(groups, known, &first);

	while (left > 0 && clock_ms() < deadline) {
		struct timespec pause = {.tv_nsec = PAUSE_NS};

		nanosleep(&pause, NULL);
		left = round_of_all(groups, known, &seen);
	}
	if (left > 0)
		return err_hint(err_new(UNAVAILABLE, "stuck_leftover",
					"%d cgroups of an earlier warden do not become empty",
					left),
				"look for processes in state D beneath the cgroup cove/%s",
				groups->instance);
	*out_destroyed = first;
	return OK;
}

bool inventory_destroy_one(struct groups *groups, const char *box)
{
	bool gone = true;

	for (int i = 0; i < groups->count; i++)
		if (!groups->trees[i].shared)
			gone &= inventory_sweep(&groups->trees[i], !groups->unified,
						groups->trees[i].dir, box);
	return gone;
}
