// docs/ISOLATION.md STEP-2 to STEP-5. The order of the steps is the security. The builder is pid 1
// of new pid, mount, network, ipc and uts namespaces that the outer user namespace owns, in a
// clone of the zygote's mount namespace: a read-only tmpfs with empty directories to attach to, and
// a /dev.
//	/h/dev /h/proc           the box's own, made here and moved later
//	/dev                     a mount of its own, read-only, shared by all boxes
//	/e /sys /loadavg /blank  an empty directory, static files
// The builder then executes pid 1's program, which waits for its rootfs mounts
// (init/setup_rootfs.c). Nothing of an image is visible before that. The warden's seccomp filter
// does not apply here: the zygote was forked before it was installed.
#include "warden/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/net.h"
#include "os/set_ids.h"
#include "protocol/talk.h"

#define P "/h/proc/" // where the builder masks it

// Names that reveal or change state of the host. /proc/pressure can be opened for writing too.
// clang-format off
static const char *const still[] = {
	P "sys", P "irq", P "bus", P "driver", P "sysrq-trigger",
};
static const char *const blank[] = {
	P "kcore", P "keys", P "key-users", P "kallsyms", P "kmsg",
	P "kpagecount", P "kpageflags", P "kpagecgroup", P "vmallocinfo",
	P "slabinfo", P "zoneinfo", P "pagetypeinfo", P "timer_list",
	P "sched_debug", P "latency_stats", P "config.gz", P "iomem",
	P "ioports", P "modules", P "cmdline", P "partitions", P "diskstats",
	P "interrupts", P "consoles", P "cgroups",
};
// /proc/fs names every mounted device of the host, other boxes' disks included.
static const char *const empty[] = {
	P "acpi", P "scsi", P "asound", P "pressure", P "fs",
};
// clang-format on

static void keep_existing(int proc, const char *const *names, size_t count, bool directories,
			  const char **out)
{
	size_t kept = 0;

	for (size_t i = 0; i < count && kept + 1 < BUILDER_MASKS_MAX; i++) {
		struct stat st;

		if (fstatat(proc, names[i] + strlen(P), &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISLNK(st.st_mode) || (directories && !S_ISDIR(st.st_mode)))
			continue;
		out[kept++] = names[i];
	}
	out[kept] = NULL;
}

void builder_find_masks(struct builder_init_config *init_config, int proc)
{
	keep_existing(proc, still, sizeof(still) / sizeof(*still), false, init_config->still);
	keep_existing(proc, blank, sizeof(blank) / sizeof(*blank), false, init_config->blank);
	keep_existing(proc, empty, sizeof(empty) / sizeof(*empty), true, init_config->empty);
}

int builder_pack(const struct builder_plan *plan, const struct builder_fds *fds, int *out)
{
	int n = 0;

	out[n++] = fds->control;
	out[n++] = fds->listen;
	out[n++] = fds->userns;
	if (plan->has_into)
		out[n++] = fds->into;
	for (int i = 0; i < plan->task_count; i++)
		out[n++] = fds->tasks[i];
	for (int i = 0; i < plan->cgroup_count; i++)
		out[n++] = fds->exec_cgroup[i];
	return n;
}

bool builder_unpack(const struct builder_plan *plan, const int *flat, int count,
		    struct builder_fds *out)
{
	int n = 0;

	if (plan->task_count > GROUP_JOINS_MAX || plan->cgroup_count > GROUP_CGROUP_JOINS ||
	    count != 3 + plan->has_into + plan->task_count + plan->cgroup_count)
		return false;
	memset(out, -1, sizeof(*out));
	out->control = flat[n++];
	out->listen = flat[n++];
	out->userns = flat[n++];
	if (plan->has_into)
		out->into = flat[n++];
	for (int i = 0; i < plan->task_count; i++)
		out->tasks[i] = flat[n++];
	for (int i = 0; i < plan->cgroup_count; i++)
		out->exec_cgroup[i] = flat[n++];
	return true;
}

struct build {
	const struct builder_init_config *init_config;
	const struct builder_plan *plan;
	const struct builder_fds *fds;
};

static int builder_join(struct build *b)
{
	for (int i = 0; i < b->plan->task_count; i++)
		if (write(b->fds->tasks[i], "0", 1) != 1)
			return -1;
	return 0;
}

static int join_network(struct build *b)
{
	if (weak(NETNS))
		return 0;
	if (b->fds->net >= 0)
		return setns(b->fds->net, CLONE_NEWNET);
	return net_loopback(b->init_config->proc);
}

// Files that are made here belong to the box's root.
static int become_box_root(struct build *b)
{
	return set_ids_files(b->plan->base);
}

static int copy_to(const char *from, const char *to)
{
	int tree = mount_copy(AT_FDCWD, from);

	return tree < 0 ? -1 : mount_attach(tree, AT_FDCWD, to);
}

static int lay_dev(struct build *b)
{
	char uid[16], gid[16];
	const struct mount_option options[] = {
		{"source", "devpts"}, {"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"},
		{"uid", uid},	      {"gid", gid},	     {"max", "64"},	   {NULL, NULL},
	};
	int pts;

	snprintf(uid, sizeof(uid), "%u", b->plan->base);
	snprintf(gid, sizeof(gid), "%u", b->plan->base + 5);
	pts = mount_new("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (pts < 0 || copy_to("/dev", "/h/dev"))
		return -1;
	return mount_attach(pts, AT_FDCWD, "/h/dev/pts");
}

// A name that this /proc lacks needs no mask.
static int bind_over(const char *from, const char *to)
{
	if (mount(from, to, NULL, MS_BIND, NULL) && errno != ENOENT)
		return -1;
	return 0;
}

static int copy_over(const char *from, const char *to)
{
	return copy_to(from, to) && errno != ENOENT ? -1 : 0;
}

// An empty read-only file over each name, one attached and the others bound from it. Not a null
// device: it can be opened for writing on any mount, and then /proc seems writable.
static int blank_proc(const struct builder_init_config *init_config)
{
	const char *first = NULL;

	for (int i = 0; init_config->blank[i]; i++) {
		const char *name = init_config->blank[i];

		if (first ? bind_over(first, name) : copy_over("/blank", name))
			return -1;
		if (!first && !access(name, F_OK))
			first = name;
	}
	return 0;
}

static int mask_proc(const struct builder_init_config *init_config)
{
	if (weak(MASKS))
		return 0;
	if (blank_proc(init_config))
		return -1;
	for (int i = 0; init_config->empty[i]; i++)
		if (copy_over("/e", init_config->empty[i]))
			return -1;
	return copy_to("/loadavg", "/h/proc/loadavg");
}

// Read-only first, so that a bind out of it is read-only from its first moment.
static int lay_proc(struct build *b)
{
	static const struct mount_option options[] = {{"source", "proc"}, {NULL, NULL}};
	const struct builder_init_config *init_config = b->init_config;
	int proc = mount_new("proc", options, MOUNT_STILL);

	if (proc < 0 || mount_attach(proc, AT_FDCWD, "/h/proc"))
		return -1;
	for (int i = 0; init_config->still[i] && !weak(READONLY); i++)
		if (bind_over(init_config->still[i], init_config->still[i]))
			return -1;
	return mount_change(proc, 0, MOUNT_ATTR_RDONLY, -1) ? -1 : mask_proc(init_config);
}

// Our own cgroups become the root of the new cgroup namespace; hence not at the clone.
static int builder_settle(struct build *b)
{
	(void)b;
	if (unshare(CLONE_NEWCGROUP))
		return -1;
	return setsid() < 0 ? -1 : 0;
}

// The zygote keeps fds 3 to 9 occupied, so ours have higher numbers and no dup2 here overwrites
// one. All other fds are close-on-exec.
static int arrange_fds(struct build *b)
{
	// The exec cgroup's detached mount is unmounted by our exec, here, and not when pid 1 ends.
	int cgroup_dir = b->plan->has_into && !weak(CGROUP_DIR)
				 ? openat(b->fds->exec_cgroup[0], ".",
					  O_PATH | O_DIRECTORY | O_CLOEXEC)
				 : b->fds->exec_cgroup[0];
	const int places[][2] = {
		{b->init_config->null, 0},
		{b->init_config->null, 1},
		{b->init_config->null, 2},
		{b->init_config->init_config, TALK_FD_INIT_CONFIG},
		{b->fds->userns, TALK_FD_USERNS},
		{cgroup_dir, TALK_FD_CGROUP},
		{b->fds->exec_cgroup[1], TALK_FD_CGROUP_2},
		{b->fds->listen, TALK_FD_LISTEN},
		{b->init_config->sock, TALK_FD_WITNESS},
		{b->fds->control, TALK_FD_CONTROL},
	};

	if (cgroup_dir < 0)
		return -1;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (places[i][0] >= 0 && dup2(places[i][0], places[i][1]) < 0)
			return -1;
	return close_range(TALK_FD_END, ~0u, CLOSE_RANGE_CLOEXEC);
}

static int execute_pid1(struct build *b)
{
	char *const argv[] = {(char *)"cove-init", NULL};
	char *const env[] = {(char *)weak_note(), NULL};

	return (int)syscall(SYS_execveat, b->init_config->program, "", argv, env, AT_EMPTY_PATH);
}

static const struct {
	const char *note; // the daemon reads this when the step fails
	int (*run)(struct build *b);
} steps[] = {
	{"join the cgroups", builder_join},
	{"bring up the loopback", join_network},
	{"take the box's ids", become_box_root},
	{"lay out /dev", lay_dev},
	{"lay out /proc", lay_proc},
	{"settle in", builder_settle},
	{"arrange the descriptors", arrange_fds},
	{"execute pid 1", execute_pid1},
};

static void tell_broken(int control, const char *state_file, int errnum)
{
	struct talk talk = {.kind = TALK_BROKEN};
	char room[256];
	size_t len;

	talk.failed.step = TALK_STEP_SETUP;
	talk.failed.errnum = errnum;
	snprintf(talk.failed.note, sizeof(talk.failed.note), "%s", state_file);
	len = talk_encode(&talk, room, sizeof(room));
	fd_send(control, room, len, NULL, 0, 0);
}

void builder_run(const struct builder_init_config *init_config, const struct builder_plan *plan,
		 const struct builder_fds *fds)
{
	struct build build = {.init_config = init_config, .plan = plan, .fds = fds};

	umask(0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		kill_point("builder.step", i == 0			  ? "first"
					   : steps[i].run == execute_pid1 ? "last"
									  : "more");
		if (steps[i].run(&build) == 0)
			continue;
		tell_broken(fds->control, steps[i].note, errno);
		break;
	}
	_exit(1);
}
