// A box has one directory in every hierarchy in use, all of the same name. On cgroup v2 one
// hierarchy does everything. On a hybrid host memory, pids and cpu are v1 and limit, while a v2
// cgroup kills, meters and is cloned into. On a pure v1 host cpuacct and freezer do that. Processes
// join by themselves, through fds opened here: "0" written to a v1 `tasks` costs 20 us, a
// `cgroup.procs` waits for an RCU grace period of several ms. Only `cgroup.procs` of v2 cgroups is
// chowned to the box's root, so that pid 1 can clone into an exec cgroup. Fds of exec cgroups go to
// daemon and pid 1. A directory is opened through a detached mount of the box's cgroup, so ".."
// ends there. `tasks` is opened as the box's root: the kernel checks the opener's uid, and an fd
// opened by root could move any process of the host into a cgroup that is then killed.
//
// syscalls: mkdirat unlinkat openat read write close fchownat kill faccessat open_tree setresuid
// syscalls: capget capset prctl getppid getpid exit_group
#include "warden/group.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/set_ids.h"

#define NAME_ROOM (ID_BOX_LEN + 2 + GROUP_CGROUP_ROOM)
#define PATH_ROOM (NAME_ROOM + 48)
#define PERIOD_US 100000
#define TCP_MIN (16ull << 20)
#define KILL_BATCH 2048 // bytes of `tasks` read at once

static int group_put(const struct group_tree *tree, const char *box, const char *file,
		     const char *text)
{
	char path[PATH_ROOM];

	snprintf(path, sizeof(path), "%s/%s", box, file);
	return fd_put(tree->dir, path, text);
}

static int group_put_number(const struct group_tree *tree, const char *box, const char *file,
			    uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return group_put(tree, box, file, text);
}

// Swap accounting may be off; then there is nothing to set.
static int put_if_there(const struct group_tree *tree, const char *box, const char *file,
			uint64_t value)
{
	int result = group_put_number(tree, box, file, value);

	return result && errno == ENOENT ? 0 : result;
}

// On v1 the limit of memory with swap is never below that of memory: raise it first, lower it last.
static int limit_both(const struct group_tree *tree, const char *box, uint64_t memory)
{
	bool is_set = group_put_number(tree, box, "memory.limit_in_bytes", memory) == 0;

	if (put_if_there(tree, box, "memory.memsw.limit_in_bytes", memory))
		return -1;
	return is_set ? 0 : group_put_number(tree, box, "memory.limit_in_bytes", memory);
}

static int limit_memory(const struct group_tree *tree, const char *box, uint64_t memory)
{
	uint64_t tcp = memory / 16 > TCP_MIN ? memory / 16 : TCP_MIN;

	if (tree->version == 2)
		return group_put_number(tree, box, "memory.max", memory) ||
		       put_if_there(tree, box, "memory.swap.max", 0);
	// Socket buffers are not charged to memory on v1, and have a counter of their own
	// (docs/ISOLATION.md CG-3).
	return limit_both(tree, box, memory) ||
	       group_put_number(tree, box, "memory.swappiness", 0) ||
	       group_put_number(tree, box, "memory.kmem.tcp.limit_in_bytes", tcp);
}

// In proportion to the limit: 1 CPU and more get the kernel's default. The default is written as
// well, because the cgroup may have served another box.
static int put_cpu_weight(const struct group_tree *tree, const char *box, uint32_t milli)
{
	uint64_t share = milli < 1000 ? milli : 1000;
	uint64_t weight = share * (tree->version == 2 ? 100 : 1024) / 1000;

	return put_if_there(tree, box, tree->version == 2 ? "cpu.weight" : "cpu.shares",
			    weight > 2 ? weight : 2);
}

static int limit_cpu(const struct group_tree *tree, const char *box, uint32_t milli)
{
	uint64_t quota = (uint64_t)milli * PERIOD_US / 1000;
	char text[48];

	// The quota is used in bursts on all processors. The weight decides who runs meanwhile.
	if (put_cpu_weight(tree, box, milli))
		return -1;
	if (tree->version == 1)
		return group_put_number(tree, box, "cpu.cfs_quota_us", quota);
	snprintf(text, sizeof(text), "%llu %d", (unsigned long long)quota, PERIOD_US);
	return group_put(tree, box, "cpu.max", text);
}

static fallible set_limits(const struct group_tree *tree, const char *box,
			   const struct limits *limits)
{
	if (tree->holds & 1u << CGROUP_MEMORY && !weak(MEMORY) &&
	    limit_memory(tree, box, limits->memory))
		return err_sys(errno, "limit the memory of %s", box);
	if (tree->holds & 1u << CGROUP_PIDS && !weak(PIDS) &&
	    group_put_number(tree, box, "pids.max", limits->pids))
		return err_sys(errno, "limit the processes of %s", box);
	if (tree->holds & 1u << CGROUP_CPU && !weak(CPU) && limit_cpu(tree, box, limits->cpu_milli))
		return err_sys(errno, "limit the processors of %s", box);
	return OK;
}

static int group_open_in(const struct group_tree *tree, const char *group, const char *file,
			 int flags)
{
	char path[PATH_ROOM];

	snprintf(path, sizeof(path), "%s/%s", group, file);
	return openat(tree->dir, path, flags | O_CLOEXEC);
}

static int open_dir(const struct group_tree *tree, const char *group)
{
	return openat(tree->dir, group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// For the zygote and the builder alone. The directory itself on v2, `tasks` on v1.
static fallible open_door(const struct group_tree *tree, const char *group, int *out_door)
{
	*out_door = tree->version == 2 ? open_dir(tree, group)
				       : group_open_in(tree, group, "tasks", O_WRONLY);
	return *out_door < 0 ? err_sys(errno, "open the cgroup %s", group) : OK;
}

// `exec_cgroup` is BOX/NAME. `mount`: see group_exec().
static int open_cgroup_dir(const struct group_tree *tree, const char *exec_cgroup, int *mount)
{
	const char *name = strchr(exec_cgroup, '/') + 1;
	char box[NAME_ROOM];

	if (weak(CGROUP_DIR))
		return open_dir(tree, exec_cgroup);
	if (!mount)
		return mount_copy(tree->dir, exec_cgroup);
	snprintf(box, sizeof(box), "%.*s", (int)(name - 1 - exec_cgroup), exec_cgroup);
	if (*mount < 0)
		*mount = mount_copy(tree->dir, box);
	return *mount < 0 ? -1 : openat(*mount, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int open_cgroup_tasks(const struct group_tree *tree, const char *exec_cgroup, uint32_t root)
{
	int parent = getppid(), death_signal = 0, fd = -1, kept;

	if (weak(CGROUP_TASKS))
		return group_open_in(tree, exec_cgroup, "tasks", O_WRONLY);
	prctl(PR_GET_PDEATHSIG, &death_signal);
	if (set_ids_effective(root) == 0)
		fd = group_open_in(tree, exec_cgroup, "tasks", O_WRONLY);
	kept = errno;
	if (set_ids_effective(0))
		_exit(1); // no order may be executed with a box's uid
	prctl(PR_SET_PDEATHSIG, death_signal);
	if (death_signal && getppid() != parent)
		kill(getpid(), death_signal);
	errno = kept;
	return fd;
}

static fallible open_cgroup_door(const struct group_tree *tree, const char *exec_cgroup,
				 uint32_t root, int *mount, int *out_door)
{
	*out_door = tree->version == 2 ? open_cgroup_dir(tree, exec_cgroup, mount)
				       : open_cgroup_tasks(tree, exec_cgroup, root);
	return *out_door < 0 ? err_sys(errno, "open the cgroup %s", exec_cgroup) : OK;
}

static fallible warden_group_make(const struct group_tree *tree, const char *group, uint32_t root)
{
	char path[PATH_ROOM];

	if (mkdirat(tree->dir, group, 0755))
		return err_sys(errno, "make the cgroup %s", group);
	if (tree->version == 2) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", group);
		if (fchownat(tree->dir, path, root, (gid_t)-1, 0))
			return err_sys(errno, "hand over %s", path);
	}
	return OK;
}

fallible group_oom(struct groups *groups, const char *box, int *out_oom)
{
	for (int i = 0; i < groups->count; i++) {
		const struct group_tree *tree = &groups->trees[i];

		if (!(tree->holds & 1u << CGROUP_MEMORY))
			continue;
		*out_oom = group_open_in(
			tree, box, tree->version == 2 ? "memory.events" : "memory.oom_control",
			O_RDONLY);
		return *out_oom < 0 ? err_sys(errno, "open the OOM counter of %s", box) : OK;
	}
	return OK;
}

static fallible make_in_all(struct groups *groups, const char *box, uint32_t root,
			    struct group_door *door)
{
	for (int i = 0; i < groups->count; i++) {
		const struct group_tree *tree = &groups->trees[i];
		int fd = -1;

		if (tree->shared) {
			fd = openat(tree->dir, "tasks", O_WRONLY | O_CLOEXEC);
			if (fd < 0)
				return err_sys(errno, "open the shared devices group");
		} else {
			TRY(warden_group_make(tree, box, root));
			TRY(open_door(tree, box, &fd));
		}
		if (tree->version == 2)
			door->into = fd;
		else
			door->tasks[door->task_count++] = fd;
	}
	return OK;
}

fallible group_make(struct groups *groups, const char *box, uint32_t root,
		    struct group_door *out_door)
{
	struct group_door door = {.into = -1};
	struct err *err = make_in_all(groups, box, root, &door);

	if (err) {
		group_door_close(&door);
		group_drop(groups, box, 0);
		return err;
	}
	*out_door = door;
	return OK;
}

fallible group_limit(struct groups *groups, const char *box, const struct limits *limits,
		     int *out_oom)
{
	for (int i = 0; i < groups->count; i++)
		if (!groups->trees[i].shared)
			TRY(set_limits(&groups->trees[i], box, limits));
	if (groups->weighs_io)
		group_weigh_io(groups, box, limits->cpu_milli);
	return group_oom(groups, box, out_oom);
}

static fallible open_cgroup_meter(const struct group_tree *tree, const char *name, int *meter)
{
	if (tree->version == 1 && !(tree->holds & 1u << CGROUP_CPUACCT))
		return OK;
	*meter = group_open_in(tree, name, tree->version == 2 ? "cpu.stat" : "cpuacct.usage",
			       O_RDONLY);
	return *meter < 0 ? err_sys(errno, "open the meter of %s", name) : OK;
}

uint64_t group_cpu_us(struct groups *groups, const char *box)
{
	static const char word[] = "usage_usec ";
	char text[512];
	const char *at;
	auto_fd meter = -1;
	ssize_t len;

	for (int i = 0; i < groups->count && meter < 0; i++)
		if (groups->trees[i].leafy)
			err_free(open_cgroup_meter(&groups->trees[i], box, &meter));
	len = meter < 0 ? -1 : read(meter, text, sizeof(text) - 1);
	text[len > 0 ? len : 0] = 0;
	at = strstr(text, word);
	return at ? strtoull(at + sizeof(word) - 1, NULL, 10) : strtoull(text, NULL, 10) / 1000;
}

// The number in a controller's file of a box; UINT64_MAX: there is none.
static uint64_t group_number(struct groups *groups, const char *box, int controller,
			     const char *v2_file, const char *v1_file)
{
	for (int i = 0; i < groups->count; i++) {
		const struct group_tree *tree = &groups->trees[i];
		auto_fd file = -1;
		char text[32], *end;
		uint64_t number;
		ssize_t len;

		if (!(tree->holds & 1u << controller))
			continue;
		file = group_open_in(tree, box, tree->version == 2 ? v2_file : v1_file, O_RDONLY);
		len = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
		text[len > 0 ? len : 0] = 0;
		number = strtoull(text, &end, 10);
		return end == text ? UINT64_MAX : number;
	}
	return UINT64_MAX;
}

uint64_t group_memory(struct groups *groups, const char *box)
{
	return group_number(groups, box, CGROUP_MEMORY, "memory.current", "memory.usage_in_bytes");
}

uint64_t group_pids(struct groups *groups, const char *box)
{
	return group_number(groups, box, CGROUP_PIDS, "pids.current", "pids.current");
}

static fallible group_make_exec(struct groups *groups, const char *name, uint32_t root, int *mount,
				struct group_exec *exec_cgroup)
{
	for (int i = 0; i < groups->count; i++) {
		const struct group_tree *tree = &groups->trees[i];

		if (!tree->leafy)
			continue;
		TRY(warden_group_make(tree, name, root));
		TRY(open_cgroup_door(tree, name, root, mount,
				     &exec_cgroup->joins[exec_cgroup->join_count]));
		exec_cgroup->join_count++;
		TRY(open_cgroup_meter(tree, name, &exec_cgroup->meter));
	}
	return OK;
}

// The path of an exec cgroup in that hierarchy, whether or not it exists. Most have no mark.
static void name_cgroup(const struct group_tree *tree, const char *box, uint32_t exec_cgroup,
			char out[NAME_ROOM])
{
	char marked[GROUP_CGROUP_ROOM];

	snprintf(out, NAME_ROOM, "%s/x-%u", box, exec_cgroup);
	if (faccessat(tree->dir, out, F_OK, 0) && group_exec_find(tree, box, exec_cgroup, marked))
		snprintf(out, NAME_ROOM, "%s/%s", box, marked);
}

bool group_exec_is_gone(struct groups *groups, const char *box, uint32_t exec_cgroup)
{
	for (int i = 0; i < groups->count; i++) {
		char name[NAME_ROOM];

		if (!groups->trees[i].leafy)
			continue;
		name_cgroup(&groups->trees[i], box, exec_cgroup, name);
		if (faccessat(groups->trees[i].dir, name, F_OK, 0) && errno == ENOENT)
			return true;
	}
	return false;
}

static bool cgroup_is_gone(int dir, const char *name)
{
	return unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

bool group_exec_drop(struct groups *groups, const char *box, uint32_t exec_cgroup)
{
	bool all = true;

	for (int i = 0; i < groups->count; i++) {
		char name[NAME_ROOM];

		if (!groups->trees[i].leafy)
			continue;
		name_cgroup(&groups->trees[i], box, exec_cgroup, name);
		all &= cgroup_is_gone(groups->trees[i].dir, name);
	}
	return all;
}

bool group_exec_retire(struct groups *groups, const char *box, uint32_t exec_cgroup)
{
	for (int i = 0; i < groups->count; i++) {
		char name[NAME_ROOM];

		if (!groups->trees[i].leafy)
			continue;
		name_cgroup(&groups->trees[i], box, exec_cgroup, name);
		return strchr(name, '.') && group_exec_drop(groups, box, exec_cgroup);
	}
	return false;
}

fallible group_exec(struct groups *groups, const char *box, uint32_t exec_cgroup, const char *mark,
		    uint32_t root, int *mount, struct group_exec *out)
{
	struct group_exec made = {.meter = -1};
	char name[NAME_ROOM];
	struct err *err;

	snprintf(name, sizeof(name), "%s/x-%u%s%s", box, exec_cgroup, *mark ? "." : "", mark);
	err = group_make_exec(groups, name, root, mount, &made);
	if (err) {
		group_exec_close(&made);
		group_exec_drop(groups, box, exec_cgroup);
		return err;
	}
	*out = made;
	return OK;
}

fallible group_exec_meter(struct groups *groups, const char *box, uint32_t exec_cgroup,
			  int *out_meter, bool *out_marked)
{
	*out_meter = -1;
	for (int i = 0; i < groups->count && *out_meter < 0; i++) {
		char name[NAME_ROOM];

		if (!groups->trees[i].leafy)
			continue;
		name_cgroup(&groups->trees[i], box, exec_cgroup, name);
		*out_marked = strchr(name, '.') != NULL;
		TRY(open_cgroup_meter(&groups->trees[i], name, out_meter));
	}
	return OK;
}

void group_lift(struct groups *groups, const char *box)
{
	for (int i = 0; i < groups->count; i++) {
		const struct group_tree *tree = &groups->trees[i];

		if (!(tree->holds & 1u << CGROUP_CPU))
			continue;
		if (tree->version == 2)
			group_put(tree, box, "cpu.max", "max");
		else
			group_put(tree, box, "cpu.cfs_quota_us", "-1");
	}
}

// Signals every pid in `tasks`. No frozen process can exit, so no pid is reused meanwhile. False:
// there were processes.
static bool signal_all(const struct group_tree *tree, const char *group)
{
	char text[KILL_BATCH + 1];
	auto_fd fd = group_open_in(tree, group, "tasks", O_RDONLY);
	bool none = true;
	ssize_t len;

	if (fd < 0)
		return true;
	while ((len = read(fd, text, KILL_BATCH)) > 0) {
		struct str rest = {text, (size_t)len}, word;
		uint64_t pid;

		// A pid that is cut at the end of the batch is read again in the next round.
		while (str_cut(&rest, '\n', &word)) {
			if (!rest.at && len == KILL_BATCH)
				break;
			if (str_to_u64(word, 2, INT32_MAX, &pid))
				kill((pid_t)pid, SIGKILL);
			none = false;
		}
	}
	return none;
}

// Only frozen processes are killed: a running one could exit, and its pid be reused, between the
// read and the signal. A cgroup that is still FREEZING is left so until the next round.
static bool kill_v1(const struct group_tree *tree, const char *group)
{
	char path[PATH_ROOM], state[32];
	bool none;

	if (group_put(tree, group, "freezer.state", "FROZEN"))
		return errno == ENOENT || errno == ENODEV;
	snprintf(path, sizeof(path), "%s/freezer.state", group);
	if (fd_get(tree->dir, path, state, sizeof(state)) < 0)
		return errno == ENOENT || errno == ENODEV;
	if (strcmp(state, "FROZEN\n") != 0)
		return false;
	none = signal_all(tree, group);
	group_put(tree, group, "freezer.state", "THAWED");
	return none;
}

bool group_kill(struct groups *groups, const char *box, uint32_t exec_cgroup)
{
	for (int i = 0; i < groups->count; i++) {
		const struct group_tree *tree = &groups->trees[i];
		char name[NAME_ROOM];

		if (!tree->leafy)
			continue;
		name_cgroup(tree, box, exec_cgroup, name);
		if (tree->version == 2)
			return group_put(tree, name, "cgroup.kill", "1") == 0 || errno == ENOENT;
		if (tree->holds & 1u << CGROUP_FREEZER)
			return kill_v1(tree, name);
	}
	return true;
}

void group_thaw(struct groups *groups, const char *box, uint32_t exec_cgroup)
{
	for (int i = 0; i < groups->count; i++) {
		const struct group_tree *tree = &groups->trees[i];
		char name[NAME_ROOM];

		if (!tree->leafy || !(tree->holds & 1u << CGROUP_FREEZER))
			continue;
		name_cgroup(tree, box, exec_cgroup, name);
		group_put(tree, name, "freezer.state", "THAWED");
	}
}

static void drop_marked(const struct group_tree *tree, const char *box, const char *exec_cgroup)
{
	char name[NAME_ROOM];

	snprintf(name, sizeof(name), "%s/%s", box, exec_cgroup);
	unlinkat(tree->dir, name, AT_REMOVEDIR);
}

bool group_drop(struct groups *groups, const char *box, uint32_t exec_cgroups)
{
	bool all = true;

	for (int i = 0; i < groups->count; i++) {
		const struct group_tree *tree = &groups->trees[i];
		char name[NAME_ROOM];

		if (tree->shared)
			continue;
		for (uint32_t exec_cgroup = 0; tree->leafy && exec_cgroup < exec_cgroups;
		     exec_cgroup++) {
			snprintf(name, sizeof(name), "%s/x-%u", box, exec_cgroup);
			all &= cgroup_is_gone(tree->dir, name);
		}
		if (cgroup_is_gone(tree->dir, box))
			continue;
		if (tree->leafy)
			group_marked(tree, box, drop_marked);
		all &= cgroup_is_gone(tree->dir, box);
	}
	return all;
}

void group_door_close(struct group_door *door)
{
	fd_drop(&door->into);
	while (door->task_count > 0)
		fd_drop(&door->tasks[--door->task_count]);
}

void group_exec_close(struct group_exec *exec_cgroup)
{
	while (exec_cgroup->join_count > 0)
		fd_drop(&exec_cgroup->joins[--exec_cgroup->join_count]);
	fd_drop(&exec_cgroup->meter);
}
