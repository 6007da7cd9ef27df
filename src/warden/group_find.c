// Questions about cgroups that are answered by the kernel alone: which exist, which process is a
// box's pid 1, whether a box is frozen. A warden that has just started has no other source.
//
// syscalls: openat read close getdents64 lseek fstat newfstatat fcntl
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/str.h"
#include "os/fd.h"
#include "warden/group.h"

#define PATH_ROOM (ID_BOX_LEN + 64)
#define PIDS_ROOM 1024

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}
#define auto_dir on_exit_call(close_dir) DIR *

static DIR *group_find_list(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		fd_drop(&fd);
	return dir;
}

void groups_each(struct groups *groups, void (*each)(void *arg, const char *box), void *arg)
{
	for (int i = 0; i < groups->count; i++) {
		auto_dir dir = groups->trees[i].shared ? NULL
						       : group_find_list(groups->trees[i].dir, ".");
		struct dirent *entry;

		while (dir && (entry = readdir(dir)))
			if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
				each(arg, entry->d_name);
	}
}

// The hierarchy where a box's cgroup holds pid 1 alone, and exec cgroups hold the commands.
static const struct group_tree *exec_cgroup_tree(const struct groups *groups)
{
	for (int i = 0; i < groups->count; i++)
		if (groups->trees[i].leafy && (groups->trees[i].version == 2 ||
					       groups->trees[i].holds & 1u << CGROUP_FREEZER))
			return &groups->trees[i];
	return NULL;
}

// True if errno says that the object does not exist. Any other error says nothing about it.
static bool is_gone(int errnum)
{
	return errnum == ENOENT || errnum == ESRCH || errnum == ENODEV;
}

// Whether it is pid 1 of its pid namespace; -1: unknown.
static int group_find_is_first(uint64_t pid)
{
	char path[32], text[1536]; // the line is well within this
	const char *at, *end, *last;

	snprintf(path, sizeof(path), "/proc/%llu/status", (unsigned long long)pid);
	if (fd_get(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return is_gone(errno) ? 0 : -1;
	at = strstr(text, "\nNSpid:");
	end = at ? strchr(at + 1, '\n') : NULL;
	if (!end)
		return 0;
	last = end;
	while (last > at && last[-1] != '\t')
		last--;
	return end - last == 1 && *last == '1' && memchr(at, '\t', (size_t)(last - 1 - at));
}

int group_first(struct groups *groups, const char *box)
{
	const struct group_tree *tree = exec_cgroup_tree(groups);
	char path[PATH_ROOM], text[PIDS_ROOM];
	struct str rest, line;
	uint64_t pid;
	ssize_t len;

	if (!tree)
		return 0;
	snprintf(path, sizeof(path), "%s/cgroup.procs", box);
	len = fd_get(tree->dir, path, text, sizeof(text));
	if (len < 0)
		return is_gone(errno) ? 0 : -1;
	rest = (struct str){text, (size_t)len};
	while (rest.len && str_cut(&rest, '\n', &line)) {
		int first = str_to_u64(line, 2, INT32_MAX, &pid) ? group_find_is_first(pid) : 0;

		if (first)
			return first < 0 ? -1 : (int)pid;
	}
	return 0;
}

// "x-3" or "x-3.mark"
static bool is_cgroup(const char *name, uint32_t *out_number, bool *out_marked)
{
	struct str rest = str_of(name), number;
	uint64_t value;

	if (!str_starts(rest, "x-"))
		return false;
	rest = str_skip(rest, 2);
	str_cut(&rest, '.', &number);
	if (!str_to_u64(number, 0, UINT16_MAX, &value))
		return false;
	*out_number = (uint32_t)value;
	*out_marked = rest.at != NULL;
	return true;
}

bool group_exec_find(const struct group_tree *tree, const char *box, uint32_t exec_cgroup,
		     char out[GROUP_CGROUP_ROOM])
{
	auto_dir dir = group_find_list(tree->dir, box);
	struct dirent *entry;
	uint32_t number;
	bool marked;

	while (dir && (entry = readdir(dir))) {
		size_t len = strlen(entry->d_name);

		if (!is_cgroup(entry->d_name, &number, &marked) || number != exec_cgroup ||
		    len >= GROUP_CGROUP_ROOM)
			continue;
		memcpy(out, entry->d_name, len + 1);
		return true;
	}
	return false;
}

void group_marked(const struct group_tree *tree, const char *box,
		  void (*each)(const struct group_tree *tree, const char *box,
			       const char *exec_cgroup))
{
	auto_dir dir = group_find_list(tree->dir, box);
	struct dirent *entry;
	uint32_t number;
	bool marked;

	while (dir && (entry = readdir(dir)))
		if (is_cgroup(entry->d_name, &number, &marked) && marked)
			each(tree, box, entry->d_name);
}

uint32_t group_cgroups(struct groups *groups, const char *box)
{
	uint32_t most = 0;

	for (int i = 0; i < groups->count; i++) {
		auto_dir dir = groups->trees[i].leafy ? group_find_list(groups->trees[i].dir, box)
						      : NULL;
		struct dirent *entry;
		uint32_t number;
		bool marked;

		while (dir && (entry = readdir(dir)))
			if (is_cgroup(entry->d_name, &number, &marked) && number >= most)
				most = number + 1;
	}
	return most;
}

uint32_t groups_pids(struct groups *groups)
{
	char text[32];
	uint64_t count = 0;

	for (int i = 0; i < groups->count; i++) {
		if (!(groups->trees[i].holds & 1u << CGROUP_PIDS))
			continue;
		if (fd_get(groups->trees[i].dir, "pids.current", text, sizeof(text)) > 0)
			count = strtoull(text, NULL, 10);
	}
	return (uint32_t)count;
}

int group_pause(struct groups *groups, const char *box, bool frozen)
{
	const struct group_tree *tree = exec_cgroup_tree(groups);
	char path[PATH_ROOM];

	if (!tree) {
		errno = ENOTSUP;
		return -1;
	}
	if (tree->version == 2) {
		snprintf(path, sizeof(path), "%s/cgroup.freeze", box);
		return fd_put(tree->dir, path, frozen ? "1" : "0");
	}
	snprintf(path, sizeof(path), "%s/freezer.state", box);
	return fd_put(tree->dir, path, frozen ? "FROZEN" : "THAWED");
}

static enum group_pulse pulse_v2(const struct group_tree *tree, const char *box)
{
	char path[PATH_ROOM], text[256];

	snprintf(path, sizeof(path), "%s/cgroup.freeze", box);
	if (fd_get(tree->dir, path, text, sizeof(text)) <= 0)
		return GROUP_UNKNOWN;
	if (text[0] != '1')
		return GROUP_RUNS;
	snprintf(path, sizeof(path), "%s/cgroup.events", box);
	if (fd_get(tree->dir, path, text, sizeof(text)) <= 0)
		return GROUP_UNKNOWN;
	return strstr(text, "frozen 1") ? GROUP_FROZEN : GROUP_FREEZING;
}

enum group_pulse group_pulse(struct groups *groups, const char *box)
{
	const struct group_tree *tree = exec_cgroup_tree(groups);
	char path[PATH_ROOM], text[32];

	if (!tree)
		return GROUP_UNKNOWN;
	if (tree->version == 2)
		return pulse_v2(tree, box);
	snprintf(path, sizeof(path), "%s/freezer.state", box);
	if (fd_get(tree->dir, path, text, sizeof(text)) <= 0)
		return GROUP_UNKNOWN;
	if (!strcmp(text, "THAWED\n"))
		return GROUP_RUNS;
	return !strcmp(text, "FROZEN\n") ? GROUP_FROZEN : GROUP_FREEZING;
}
