// The instance's own cgroups, cove/<instance>, in every hierarchy that a box needs. They are found
// or made at start, held open, and removed at the end. Cgroups that an earlier warden left are
// killed and removed: a mount namespace dies with its last process, so cgroups and their processes
// are all that can be left of a box, besides its disk.
//
// syscalls: mkdirat unlinkat openat read write close getdents64 fstat fcntl lseek faccessat
// syscalls: faccessat2 kill newfstatat
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/path.h"
#include "warden/group.h"

#define SWEEP_PAUSE_NS 500000 // between rounds
#define WEIGHT_DEFAULT 100
#define WEIGHT_MAX 1000 // of bfq; io.cost accepts ten times as much

static const unsigned limiting = 1u << CGROUP_MEMORY | 1u << CGROUP_PIDS | 1u << CGROUP_CPU;

// v1 devices: the nodes that a box may open, if it ever gets one. Ptys are among them.
static const char *const devices[] = {
	"c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm",
	"c 1:9 rwm", "c 5:0 rwm", "c 5:2 rwm", "c 136:* rwm",
};

static int make_dir(int at, const char *name)
{
	if (mkdirat(at, name, 0755) && errno != EEXIST)
		return -1;
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// On v2 a controller works in a cgroup once its parent enables it in cgroup.subtree_control.
static fallible hand_down(const struct group_tree *tree)
{
	const int dirs[] = {tree->top, tree->cove, tree->dir};

	for (int c = 0; c < CGROUP_COUNT; c++) {
		char word[32];

		if (!(tree->holds & limiting & 1u << c))
			continue;
		snprintf(word, sizeof(word), "+%s", cgroup_controller_word(c));
		for (int i = 0; i < 3; i++) {
			if (fd_put(dirs[i], "cgroup.subtree_control", word) == 0)
				continue;
			return err_hint(
				err_while(err_new(UNAVAILABLE, "no_controller",
						  "the %s controller cannot be had here",
						  cgroup_controller_word(c)),
					  "write %s to cgroup.subtree_control, level %d: %s", word,
					  i, strerror(errno)),
				"run cove where it may use the root of the cgroup file system");
		}
	}
	return OK;
}

// No huge pages for any box. The seccomp filter of boxes refuses them already; where the controller
// exists one cgroup for all boxes does so too. It is not enabled further down: no box pays for it.
static void refuse_huge_pages(const struct group_tree *tree)
{
	auto_dir files = NULL;
	struct dirent *entry;

	if (weak(HUGETLB) || !(tree->holds & limiting) || // a hybrid host has its limits on v1
	    fd_put(tree->top, "cgroup.subtree_control", "+hugetlb") ||
	    fd_put(tree->cove, "cgroup.subtree_control", "+hugetlb"))
		return;
	files = path_list(tree->dir, ".");
	while (files && (entry = path_next(files))) {
		size_t len = strlen(entry->d_name);

		if (strncmp(entry->d_name, "hugetlb.", 8) == 0 && len > 4 &&
		    strcmp(entry->d_name + len - 4, ".max") == 0)
			(void)fd_put(tree->dir, entry->d_name, "0");
	}
}

static fallible set_policy(const struct group_tree *tree)
{
	if (fd_put(tree->dir, "devices.deny", "a"))
		return err_sys(errno, "deny all devices");
	for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++)
		if (fd_put(tree->dir, "devices.allow", devices[i]))
			return err_sys(errno, "allow the device %s", devices[i]);
	return OK;
}

static fallible open_tree_at(const struct cgroup_mount *mount, const char *instance,
			     struct group_tree *tree)
{
	tree->version = mount->version;
	tree->top = open(mount->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tree->top < 0)
		return err_sys(errno, "open %s", mount->path);
	tree->cove = make_dir(tree->top, "cove");
	if (tree->cove < 0)
		return err_sys(errno, "make the cgroup cove in %s", mount->path);
	tree->dir = make_dir(tree->cove, instance);
	if (tree->dir < 0)
		return err_sys(errno, "make the cgroup cove/%s in %s", instance, mount->path);
	if (tree->version == 2) {
		refuse_huge_pages(tree);
		return hand_down(tree);
	}
	return tree->shared ? set_policy(tree) : OK;
}

// Which mounts are used for which controllers: indexed like host->mounts.
static fallible plan(const struct cgroup_host *host, struct group_tree *use)
{
	bool pure_v1 = host->unified < 0;

	for (int c = 0; c < CGROUP_COUNT; c++) {
		int at = host->where[c];
		bool limits = limiting & 1u << c;
		bool exec_cgroups = c == CGROUP_CPUACCT || c == CGROUP_FREEZER;

		if (at < 0 && (limits || (exec_cgroups && pure_v1)))
			return err_hint(err_new(UNAVAILABLE, "no_controller",
						"this host has no %s controller",
						cgroup_controller_word(c)),
					"enable it in the kernel: cgroup_enable=%s",
					cgroup_controller_word(c));
		if (at < 0 || !(limits || (exec_cgroups && pure_v1)))
			continue;
		use[at].holds |= 1u << c;
		use[at].leafy |= exec_cgroups && pure_v1;
	}
	if (!pure_v1)
		use[host->unified].leafy = true;
	// The device policy needs a hierarchy that is not shared with limits.
	if (host->where[CGROUP_DEVICES] >= 0 && !use[host->where[CGROUP_DEVICES]].holds &&
	    host->mounts[host->where[CGROUP_DEVICES]].version == 1)
		use[host->where[CGROUP_DEVICES]].shared = true;
	return OK;
}

fallible groups_open(const struct cgroup_host *host, const char *instance, struct groups **out)
{
	struct groups *groups = mem_new_of(struct groups);
	struct group_tree use[CGROUP_MOUNTS_MAX] = {0};
	struct err *err = plan(host, use);

	snprintf(groups->instance, sizeof(groups->instance), "%s", instance);
	groups->word = cgroup_word(host);
	groups->unified = host->unified >= 0;
	for (int i = 0; !err && i < host->count; i++) {
		struct group_tree *tree = &groups->trees[groups->count];

		if (!use[i].holds && !use[i].leafy && !use[i].shared)
			continue;
		if (groups->count == GROUP_TREES_MAX) {
			err = err_sys(E2BIG, "open more than %d cgroup hierarchies",
				      GROUP_TREES_MAX);
			break;
		}
		*tree = use[i];
		tree->top = tree->cove = tree->dir = -1;
		groups->count++;
		err = open_tree_at(&host->mounts[i], instance, tree);
	}
	if (err) {
		groups_close(groups);
		return err;
	}
	*out = groups;
	return OK;
}

void groups_close(struct groups *groups)
{
	if (!groups)
		return;
	for (int i = 0; i < groups->count; i++) {
		struct group_tree *tree = &groups->trees[i];

		if (tree->cove >= 0)
			unlinkat(tree->cove, groups->instance, AT_REMOVEDIR);
		if (tree->top >= 0)
			unlinkat(tree->top, "cove",
				 AT_REMOVEDIR); // stays while other instances use it
		fd_drop(&tree->dir);
		fd_drop(&tree->cove);
		fd_drop(&tree->top);
	}
	free(groups);
}

// The io controller is enabled with the first box that needs it, or if the disk's scheduler
// supports weights: other boxes do not pay for it.
static bool hand_down_io(const struct group_tree *tree)
{
	return fd_put(tree->top, "cgroup.subtree_control", "+io") == 0 &&
	       fd_put(tree->cove, "cgroup.subtree_control", "+io") == 0 &&
	       fd_put(tree->dir, "cgroup.subtree_control", "+io") == 0;
}

// A partition uses the queue of its disk.
static dev_t whole_disk(dev_t device)
{
	char path[64], text[32], *colon;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", major(device),
		 minor(device));
	if (faccessat(AT_FDCWD, path, F_OK, 0))
		return device;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/../dev", major(device), minor(device));
	if (fd_get(AT_FDCWD, path, text, sizeof(text)) <= 0 || !(colon = strchr(text, ':')))
		return device;
	return makedev((unsigned)strtoul(text, NULL, 10), (unsigned)strtoul(colon + 1, NULL, 10));
}

static bool limits_io(const struct group_tree *tree)
{
	return tree->version == 2 && tree->holds & limiting;
}

bool groups_heeds_weight(const char *scheduler, const char *qos, dev_t disk)
{
	char line[64];
	const char *at;

	if (strstr(scheduler, "[bfq]"))
		return true;
	snprintf(line, sizeof(line), "%u:%u enable=1", major(disk), minor(disk));
	at = strstr(qos, line);
	return at && (at == qos || at[-1] == '\n');
}

void groups_share_disk(struct groups *groups, dev_t disk)
{
	char path[64], scheduler[128] = "", qos[1024];

	disk = whole_disk(disk);
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/scheduler", major(disk),
		 minor(disk));
	if (fd_get(AT_FDCWD, path, scheduler, sizeof(scheduler)) <= 0)
		scheduler[0] = '\0';
	each_tree (tree, groups) {

		if (!limits_io(tree))
			continue;
		if (fd_get(tree->top, "io.cost.qos", qos, sizeof(qos)) <= 0)
			qos[0] = '\0';
		groups->weighs_io |= groups_heeds_weight(scheduler, qos, disk) &&
				     hand_down_io(tree);
	}
}

void group_weigh_io(struct groups *groups, const char *box, uint32_t cpu_milli)
{
	static const char *const files[] = {"io.weight", "io.bfq.weight"};
	uint32_t weight = cpu_milli ? cpu_milli / 10 : WEIGHT_DEFAULT;
	char path[ID_BOX_LEN + 16], text[16];

	weight = weight < 1 ? 1 : weight > WEIGHT_MAX ? WEIGHT_MAX : weight;
	snprintf(text, sizeof(text), "%u", weight);
	each_tree (tree, groups)
		for (size_t f = 0; limits_io(tree) && f < sizeof(files) / sizeof(*files); f++) {
			snprintf(path, sizeof(path), "%s/%s", box, files[f]);
			(void)fd_put(tree->dir, path, text);
		}
}

fallible group_limit_io(struct groups *groups, const char *box, uint64_t bytes, const dev_t *disks,
			int count)
{
	bool limited = false;

	each_tree (tree, groups) {
		char path[ID_BOX_LEN + 16], line[128];

		if (!limits_io(tree) || !hand_down_io(tree))
			continue;
		snprintf(path, sizeof(path), "%s/io.max", box);
		for (int d = 0; d < count; d++) {
			dev_t disk = whole_disk(disks[d]);

			snprintf(line, sizeof(line), "%u:%u rbps=%llu wbps=%llu", major(disk),
				 minor(disk), (unsigned long long)bytes, (unsigned long long)bytes);
			limited |= major(disk) != 0 && fd_put(tree->dir, path, line) == 0;
		}
	}
	if (!limited)
		return err_hint(err_new(INVALID, "no_io_limit",
					"this host cannot keep a limit on disk bandwidth"),
				"leave ioMBps out; it needs the io controller of cgroup v2, and "
				"the data directory on a disk");
	return OK;
}

void groups_each(struct groups *groups, void (*each)(void *arg, const char *box), void *arg)
{
	each_tree (tree, groups) {
		auto_dir list = tree->shared ? NULL : path_list(tree->dir, ".");
		struct dirent *entry;

		while (list && (entry = path_next(list)))
			if (entry->d_type == DT_DIR)
				each(arg, entry->d_name);
	}
}

uint32_t groups_pids(struct groups *groups)
{
	char text[32];
	uint64_t count = 0;

	each_tree (tree, groups)
		if (tree->holds & 1u << CGROUP_PIDS &&
		    fd_get(tree->dir, "pids.current", text, sizeof(text)) > 0)
			count = strtoull(text, NULL, 10);
	return (uint32_t)count;
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
static bool group_sweep(const struct group_tree *tree, bool by_number, const char *name)
{
	auto_dir list = path_list(tree->dir, name);
	struct dirent *entry;

	if (!list)
		return true;
	fd_put(dirfd(list), "freezer.state", "THAWED");
	if (tree->holds & 1u << CGROUP_CPU)
		fd_put(dirfd(list), tree->version == 2 ? "cpu.max" : "cpu.cfs_quota_us",
		       tree->version == 2 ? "max" : "-1");
	if (tree->version == 2)
		fd_put(dirfd(list), "cgroup.kill", "1"); // exec cgroups included
	if (by_number)
		kill_listed(dirfd(list));
	while ((entry = path_next(list))) {
		if (entry->d_type != DT_DIR)
			continue;
		auto_fd exec_cgroup = openat(dirfd(list), entry->d_name,
					     O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (exec_cgroup >= 0 && by_number)
			kill_listed(exec_cgroup);
		unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
	}
	return unlinkat(tree->dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

// A round over all cgroups: how many boxes are left, and how many were seen.
static int groups_sweep(struct groups *groups, const struct map *known, int *seen)
{
	int left = 0;

	*seen = 0;
	each_tree (tree, groups) {
		auto_dir list = tree->shared ? NULL : path_list(tree->dir, ".");
		struct dirent *entry;
		int here = 0;

		while (list && (entry = path_next(list))) {
			if (entry->d_type != DT_DIR || map_get(known, str_of(entry->d_name)))
				continue;
			here++;
			left += !group_sweep(tree, !groups->unified, entry->d_name);
		}
		*seen = here > *seen ? here : *seen;
	}
	return left;
}

// Rounds repeat until every cgroup is removed: a process forked during a round is killed in the
// next.
fallible groups_destroy(struct groups *groups, const struct map *known, int *out_destroyed)
{
	const struct timespec pause = {.tv_nsec = SWEEP_PAUSE_NS};
	int64_t deadline = clock_ms() + GROUPS_DESTROY_MS;
	int first, seen, left = groups_sweep(groups, known, &first);

	while (left > 0 && clock_ms() < deadline) {
		nanosleep(&pause, NULL);
		left = groups_sweep(groups, known, &seen);
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

bool group_destroy(struct groups *groups, const char *box)
{
	bool gone = true;

	each_tree (tree, groups)
		if (!tree->shared)
			gone &= group_sweep(tree, !groups->unified, box);
	return gone;
}
