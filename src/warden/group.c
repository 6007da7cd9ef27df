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
// syscalls: capget capset prctl getppid getpid exit_group getdents64 lseek fstat newfstatat fcntl
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
#include "os/path.h"
#include "os/set_ids.h"

#define GROUP_CGROUP_ROOM (16 + GROUP_MARK_ROOM) // x-<n>.<mark>
#define NAME_ROOM (ID_BOX_LEN + 2 + GROUP_CGROUP_ROOM)
#define PATH_ROOM (NAME_ROOM + 48)
#define PERIOD_US 100000
#define TCP_MIN (16ull << 20)
#define KILL_BATCH 2048 // bytes of `tasks` read at once
#define PIDS_ROOM 1536	// bytes of `cgroup.procs` that are read
#define PIDS_NESTED 320 // of one process, in the most namespaces that the kernel nests

static bool tree_holds(const struct group_tree *tree, enum cgroup_controller controller)
{
	return tree->holds & 1u << controller;
}

// The hierarchy of a controller; NULL: none.
static const struct group_tree *tree_of(const struct groups *groups,
					enum cgroup_controller controller)
{
	each_tree (tree, groups)
		if (tree_holds(tree, controller))
			return tree;
	return NULL;
}

// The hierarchy where a box's cgroup holds pid 1 alone, and exec cgroups hold the commands.
static const struct group_tree *exec_cgroup_tree(const struct groups *groups)
{
	each_tree (tree, groups)
		if (tree->leafy && (tree->version == 2 || tree_holds(tree, CGROUP_FREEZER)))
			return tree;
	return NULL;
}

static int group_put(const struct group_tree *tree, const char *box, const char *file,
		     const char *text)
{
	char path[PATH_ROOM];

	snprintf(path, sizeof(path), "%s/%s", box, file);
	return fd_put(tree->dir, path, text);
}

static ssize_t group_get(const struct group_tree *tree, const char *box, const char *file,
			 char *room, size_t size)
{
	char path[PATH_ROOM];

	snprintf(path, sizeof(path), "%s/%s", box, file);
	return fd_get(tree->dir, path, room, size);
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
	if (tree_holds(tree, CGROUP_MEMORY) && !weak(MEMORY) &&
	    limit_memory(tree, box, limits->memory))
		return err_sys(errno, "limit the memory of %s", box);
	if (tree_holds(tree, CGROUP_PIDS) && !weak(PIDS) &&
	    group_put_number(tree, box, "pids.max", limits->pids))
		return err_sys(errno, "limit the processes of %s", box);
	if (tree_holds(tree, CGROUP_CPU) && !weak(CPU) && limit_cpu(tree, box, limits->cpu_milli))
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
	const struct group_tree *tree = tree_of(groups, CGROUP_MEMORY);

	if (!tree)
		return OK;
	*out_oom = group_open_in(
		tree, box, tree->version == 2 ? "memory.events" : "memory.oom_control", O_RDONLY);
	return *out_oom < 0 ? err_sys(errno, "open the OOM counter of %s", box) : OK;
}

static fallible make_in_all(struct groups *groups, const char *box, uint32_t root,
			    struct group_door *door)
{
	each_tree (tree, groups) {
		int fd = -1;

		if (tree->shared) {
			fd = openat(tree->dir, "tasks", O_WRONLY | O_CLOEXEC);
			if (fd < 0)
				return err_sys(errno, "open the shared devices group");
		} else {
			TRY(warden_group_make(tree, box, root));
			// For the zygote and the builder alone.
			fd = tree->version == 2 ? open_dir(tree, box)
						: group_open_in(tree, box, "tasks", O_WRONLY);
			if (fd < 0)
				return err_sys(errno, "open the cgroup %s", box);
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
	each_tree (tree, groups)
		if (!tree->shared)
			TRY(set_limits(tree, box, limits));
	if (groups->weighs_io)
		group_weigh_io(groups, box, limits->cpu_milli);
	return group_oom(groups, box, out_oom);
}

// The number in a controller's file of a box; UINT64_MAX: there is none.
static uint64_t group_number(struct groups *groups, const char *box, int controller,
			     const char *v2_file, const char *v1_file)
{
	const struct group_tree *tree = tree_of(groups, controller);
	char text[32], *end;
	uint64_t number;

	if (!tree ||
	    group_get(tree, box, tree->version == 2 ? v2_file : v1_file, text, sizeof(text)) <= 0)
		return UINT64_MAX;
	number = strtoull(text, &end, 10);
	return end == text ? UINT64_MAX : number;
}

uint64_t group_memory_limit(struct groups *groups, const char *box)
{
	return group_number(groups, box, CGROUP_MEMORY, "memory.max", "memory.limit_in_bytes");
}

fallible group_memory_open(struct groups *groups, const char *box, int *out_dir)
{
	const struct group_tree *tree = tree_of(groups, CGROUP_MEMORY);
	int dir = tree ? open_dir(tree, box) : -1;

	if (dir < 0)
		return tree ? err_sys(errno, "open the memory cgroup of %s", box)
			    : err_new(INVALID, "no_controller", "no cgroup limits memory here");
	*out_dir = dir;
	return OK;
}

static fallible group_refuse_memory(int dir, const char *file)
{
	char text[32] = "";

	(void)fd_get(dir, file, text, sizeof(text));
	return err_hint(err_new(CONFLICT, "below_use", "the sandbox uses %llu MB of memory",
				strtoull(text, NULL, 10) >> 20),
			"end processes or remove files in /dev/shm, or choose a larger limit");
}

// A write below the use makes cgroup v2 kill processes, so memory.high frees pages first.
static fallible group_shrink_v2(int dir, const char *bytes, uint64_t limit)
{
	char used[32] = "";
	bool fits;

	if (fd_put(dir, "memory.high", bytes))
		return err_sys(errno, "free memory");
	fits = fd_get(dir, "memory.current", used, sizeof(used)) > 0 &&
	       strtoull(used, NULL, 10) <= limit;
	if (fits && fd_put(dir, "memory.max", bytes))
		return err_sys(errno, "limit memory");
	return fits ? OK : group_refuse_memory(dir, "memory.current");
}

fallible group_shrink(int dir, uint64_t bytes)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	if (faccessat(dir, "memory.high", F_OK, 0) == 0)
		return group_shrink_v2(dir, text, bytes);
	// The limit with swap stays above this one: group_limit() lowers it.
	if (fd_put(dir, "memory.limit_in_bytes", text) == 0)
		return OK;
	return errno == EBUSY ? group_refuse_memory(dir, "memory.usage_in_bytes")
			      : err_sys(errno, "limit memory");
}

void group_unthrottle(struct groups *groups, const char *box)
{
	const struct group_tree *tree = tree_of(groups, CGROUP_MEMORY);

	if (tree && tree->version == 2)
		(void)group_put(tree, box, "memory.high", "max");
}

static fallible open_cgroup_meter(const struct group_tree *tree, const char *name, int *meter)
{
	if (tree->version == 1 && !tree_holds(tree, CGROUP_CPUACCT))
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

	each_tree (tree, groups)
		if (tree->leafy && meter < 0)
			err_free(open_cgroup_meter(tree, box, &meter));
	len = meter < 0 ? -1 : read(meter, text, sizeof(text) - 1);
	text[len > 0 ? len : 0] = 0;
	at = strstr(text, word);
	return at ? strtoull(at + sizeof(word) - 1, NULL, 10) : strtoull(text, NULL, 10) / 1000;
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
	each_tree (tree, groups) {

		int door;

		if (!tree->leafy)
			continue;
		TRY(warden_group_make(tree, name, root));
		door = tree->version == 2 ? open_cgroup_dir(tree, name, mount)
					  : open_cgroup_tasks(tree, name, root);
		if (door < 0)
			return err_sys(errno, "open the cgroup %s", name);
		exec_cgroup->joins[exec_cgroup->join_count++] = door;
		TRY(open_cgroup_meter(tree, name, &exec_cgroup->meter));
	}
	return OK;
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

// The name of an exec cgroup's directory in that hierarchy: "x-3", "x-3.mark"; false: there is
// none.
static bool group_exec_find(const struct group_tree *tree, const char *box, uint32_t exec_cgroup,
			    char out[GROUP_CGROUP_ROOM])
{
	auto_dir list = path_list(tree->dir, box);
	struct dirent *entry;
	uint32_t number;
	bool marked;

	while (list && (entry = path_next(list))) {
		size_t len = strlen(entry->d_name);

		if (!is_cgroup(entry->d_name, &number, &marked) || number != exec_cgroup ||
		    len >= GROUP_CGROUP_ROOM)
			continue;
		memcpy(out, entry->d_name, len + 1);
		return true;
	}
	return false;
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
	each_tree (tree, groups) {
		char name[NAME_ROOM];

		if (!tree->leafy)
			continue;
		name_cgroup(tree, box, exec_cgroup, name);
		if (faccessat(tree->dir, name, F_OK, 0) && errno == ENOENT)
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

	each_tree (tree, groups) {
		char name[NAME_ROOM];

		if (!tree->leafy)
			continue;
		name_cgroup(tree, box, exec_cgroup, name);
		all &= cgroup_is_gone(tree->dir, name);
	}
	return all;
}

bool group_exec_retire(struct groups *groups, const char *box, uint32_t exec_cgroup)
{
	const struct group_tree *tree = exec_cgroup_tree(groups);
	char name[NAME_ROOM];

	if (!tree)
		return false;
	name_cgroup(tree, box, exec_cgroup, name);
	return strchr(name, '.') && group_exec_drop(groups, box, exec_cgroup);
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
	each_tree (tree, groups) {
		char name[NAME_ROOM];

		if (!tree->leafy || *out_meter >= 0)
			continue;
		name_cgroup(tree, box, exec_cgroup, name);
		*out_marked = strchr(name, '.') != NULL;
		TRY(open_cgroup_meter(tree, name, out_meter));
	}
	return OK;
}

void group_lift(struct groups *groups, const char *box)
{
	const struct group_tree *tree = tree_of(groups, CGROUP_CPU);

	if (tree && tree->version == 2)
		group_put(tree, box, "cpu.max", "max");
	else if (tree)
		group_put(tree, box, "cpu.cfs_quota_us", "-1");
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
	char state[32];
	bool none;

	if (group_put(tree, group, "freezer.state", "FROZEN"))
		return errno == ENOENT || errno == ENODEV;
	if (group_get(tree, group, "freezer.state", state, sizeof(state)) < 0)
		return errno == ENOENT || errno == ENODEV;
	if (strcmp(state, "FROZEN\n") != 0)
		return false;
	none = signal_all(tree, group);
	group_put(tree, group, "freezer.state", "THAWED");
	return none;
}

bool group_kill(struct groups *groups, const char *box, uint32_t exec_cgroup)
{
	const struct group_tree *tree = exec_cgroup_tree(groups);
	char name[NAME_ROOM];

	if (!tree)
		return true;
	name_cgroup(tree, box, exec_cgroup, name);
	if (tree->version == 2)
		return group_put(tree, name, "cgroup.kill", "1") == 0 || errno == ENOENT;
	return kill_v1(tree, name);
}

void group_thaw(struct groups *groups, const char *box, uint32_t exec_cgroup)
{
	const struct group_tree *tree = exec_cgroup_tree(groups);
	char name[NAME_ROOM];

	if (!tree || tree->version == 2)
		return;
	name_cgroup(tree, box, exec_cgroup, name);
	group_put(tree, name, "freezer.state", "THAWED");
}

static void drop_marked(const struct group_tree *tree, const char *box)
{
	auto_dir list = path_list(tree->dir, box);
	struct dirent *entry;
	uint32_t number;
	bool marked;

	while (list && (entry = path_next(list)))
		if (is_cgroup(entry->d_name, &number, &marked) && marked)
			unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
}

bool group_drop(struct groups *groups, const char *box, uint32_t exec_cgroups)
{
	bool all = true;

	each_tree (tree, groups) {
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
			drop_marked(tree, box);
		all &= cgroup_is_gone(tree->dir, box);
	}
	return all;
}

uint32_t group_cgroups(struct groups *groups, const char *box)
{
	uint32_t most = 0;

	each_tree (tree, groups) {
		auto_dir list = tree->leafy ? path_list(tree->dir, box) : NULL;
		struct dirent *entry;
		uint32_t number;
		bool marked;

		while (list && (entry = path_next(list)))
			if (is_cgroup(entry->d_name, &number, &marked) && number >= most)
				most = number + 1;
	}
	return most;
}

// True if errno says that the object does not exist. Any other error says nothing about it.
static bool is_gone(int errnum)
{
	return errnum == ENOENT || errnum == ESRCH || errnum == ENODEV;
}

// The pids of a process by namespace, from ours to its own: "NSpid:", each behind a tab. -1 with
// errno: unknown; 0: the kernel does not tell.
static ssize_t process_nspid(uint64_t pid, char *out, size_t size)
{
	char path[32], text[1536]; // the line is well within this
	char *at, *end;

	snprintf(path, sizeof(path), "/proc/%llu/status", (unsigned long long)pid);
	if (fd_get(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return -1;
	at = strstr(text, "\nNSpid:");
	end = at ? strchr(at + 1, '\n') : NULL;
	if (!end)
		return 0;
	*end = 0;
	return snprintf(out, size, "%s", at + strlen("\nNSpid:"));
}

// Whether it is pid 1 of its pid namespace, which is below ours; -1: unknown.
static int process_is_first(uint64_t pid)
{
	char pids[PIDS_NESTED];
	ssize_t len = process_nspid(pid, pids, sizeof(pids));

	if (len <= 0)
		return len < 0 && !is_gone(errno) ? -1 : 0;
	return strchr(pids, '\t') != strrchr(pids, '\t') && !strcmp(strrchr(pids, '\t'), "\t1");
}

int group_first(struct groups *groups, const char *box)
{
	const struct group_tree *tree = exec_cgroup_tree(groups);
	char text[PIDS_ROOM];
	struct str rest, line;
	uint64_t pid;
	ssize_t len;

	if (!tree)
		return 0;
	len = group_get(tree, box, "cgroup.procs", text, sizeof(text));
	if (len < 0)
		return is_gone(errno) ? 0 : -1;
	rest = (struct str){text, (size_t)len};
	while (rest.len && str_cut(&rest, '\n', &line)) {
		int first = str_to_u64(line, 2, INT32_MAX, &pid) ? process_is_first(pid) : 0;

		if (first)
			return first < 0 ? -1 : (int)pid;
	}
	return 0;
}

// A process of a box, even of one being built, is at least one pid namespace below ours.
static bool has_outsider(const struct group_tree *tree, const char *group)
{
	char text[PIDS_ROOM], pids[PIDS_NESTED];
	ssize_t len = group_get(tree, group, "cgroup.procs", text, sizeof(text));
	struct str rest = {text, len > 0 ? (size_t)len : 0}, line;
	uint64_t pid;

	while (len > 0 && str_cut(&rest, '\n', &line))
		if (str_to_u64(line, 2, INT32_MAX, &pid) &&
		    process_nspid(pid, pids, sizeof(pids)) > 0 &&
		    strchr(pids, '\t') == strrchr(pids, '\t'))
			return true;
	return false;
}

bool group_has_outsider(struct groups *groups, const char *box)
{
	each_tree (tree, groups) {
		auto_dir list = tree->shared ? NULL : path_list(tree->dir, box);
		struct dirent *entry;
		char name[PATH_ROOM];

		if (list && has_outsider(tree, box))
			return true;
		while (list && tree->leafy && (entry = path_next(list))) {
			snprintf(name, sizeof(name), "%s/%.*s", box, GROUP_CGROUP_ROOM,
				 entry->d_name);
			if (entry->d_type == DT_DIR && has_outsider(tree, name))
				return true;
		}
	}
	return false;
}

int group_pause(struct groups *groups, const char *box, bool frozen)
{
	const struct group_tree *tree = exec_cgroup_tree(groups);

	if (!tree) {
		errno = ENOTSUP;
		return -1;
	}
	if (tree->version == 2)
		return group_put(tree, box, "cgroup.freeze", frozen ? "1" : "0");
	return group_put(tree, box, "freezer.state", frozen ? "FROZEN" : "THAWED");
}

enum group_pulse group_pulse(struct groups *groups, const char *box)
{
	const struct group_tree *tree = exec_cgroup_tree(groups);
	char text[256];

	if (!tree || group_get(tree, box, tree->version == 2 ? "cgroup.freeze" : "freezer.state",
			       text, sizeof(text)) <= 0)
		return GROUP_UNKNOWN;
	if (tree->version == 1)
		return !strcmp(text, "THAWED\n")   ? GROUP_RUNS
		       : !strcmp(text, "FROZEN\n") ? GROUP_FROZEN
						   : GROUP_FREEZING;
	if (text[0] != '1')
		return GROUP_RUNS;
	if (group_get(tree, box, "cgroup.events", text, sizeof(text)) <= 0)
		return GROUP_UNKNOWN;
	return strstr(text, "frozen 1") ? GROUP_FROZEN : GROUP_FREEZING;
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
