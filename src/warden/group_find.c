// Groups as the kernel shows them: a warden that has only begun knows no other truth, and the same
// questions tell what a frozen box does.
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

static DIR *list(int at, const char *name)
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
		auto_dir dir = groups->trees[i].shared ? NULL : list(groups->trees[i].dir, ".");
		struct dirent *entry;

		while (dir && (entry = readdir(dir)))
			if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
				each(arg, entry->d_name);
	}
}

// The hierarchy whose groups hold pid 1 alone, and the execs in leaves.
static const struct group_tree *leafy(const struct groups *groups)
{
	for (int i = 0; i < groups->count; i++)
		if (groups->trees[i].leafy && (groups->trees[i].version == 2 ||
					       groups->trees[i].holds & 1u << CGROUP_FREEZER))
			return &groups->trees[i];
	return NULL;
}

// Whether it is the first process of its own pid namespace.
static bool is_first(uint64_t pid)
{
	char path[32], text[1536]; // it stands well before the end
	const char *at, *end, *last;

	snprintf(path, sizeof(path), "/proc/%llu/status", (unsigned long long)pid);
	if (fd_get(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	at = strstr(text, "\nNSpid:");
	end = at ? strchr(at + 1, '\n') : NULL;
	if (!end)
		return false;
	last = end;
	while (last > at && last[-1] != '\t')
		last--;
	return end - last == 1 && *last == '1' && memchr(at, '\t', (size_t)(last - 1 - at));
}

int group_first(struct groups *groups, const char *box)
{
	const struct group_tree *tree = leafy(groups);
	char path[PATH_ROOM], text[PIDS_ROOM];
	struct str rest, line;
	uint64_t pid;
	ssize_t len;

	if (!tree)
		return 0;
	snprintf(path, sizeof(path), "%s/cgroup.procs", box);
	len = fd_get(tree->dir, path, text, sizeof(text));
	rest = (struct str){text, len > 0 ? (size_t)len : 0};
	while (len > 0 && str_cut(&rest, '\n', &line))
		if (str_to_u64(line, 2, INT32_MAX, &pid) && is_first(pid))
			return (int)pid;
	return 0;
}

uint32_t group_leaves(struct groups *groups, const char *box)
{
	uint32_t most = 0;

	for (int i = 0; i < groups->count; i++) {
		auto_dir dir = groups->trees[i].leafy ? list(groups->trees[i].dir, box) : NULL;
		struct dirent *entry;
		uint64_t number;

		while (dir && (entry = readdir(dir)))
			if (str_starts(str_of(entry->d_name), "x-") &&
			    str_to_u64(str_of(entry->d_name + 2), 0, UINT16_MAX, &number) &&
			    number >= most)
				most = (uint32_t)number + 1;
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
	const struct group_tree *tree = leafy(groups);
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
	const struct group_tree *tree = leafy(groups);
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
