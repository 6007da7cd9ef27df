// Tests each kernel feature in a child, in a mount namespace of its own if it mounts anything;
// everything is gone with the child. A probe exits with 0 or an errno, and may write a few words to
// a pipe.
#include "os/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "os/caps.h"
#include "os/cgroup.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/net.h"
#include "os/ns.h"
#include "os/path.h"
#include "os/seccomp.h"
#include "os/set_ids.h"
#include "os/steer.h"

#define PROBE_BASE (1u << 20)
#define AGAIN_MAX 3 // how often a killed probe is repeated
#define SCRATCH ".probe"

// A probe under way: the state directory, a pipe for words of the table, and what the row says.
struct probe_at {
	int data, say, which;
};
// 0, or an errno.
typedef int probe_fn(const struct probe_at *at);

static int userns(int *out)
{
	auto_err err = ns_user(PROBE_BASE, out);

	return err ? EPERM : 0;
}

static int try_namespaces(const struct probe_at *at)
{
	struct clone_args args = {
		.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
		.exit_signal = SIGCHLD,
	};
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	int status;

	(void)at;
	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(sethostname("probe", 5) ? 1 : 0);
	waitpid((pid_t)pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EPERM;
}

static int try_userns(const struct probe_at *at)
{
	auto_fd fd = -1;

	(void)at;
	return userns(&fd);
}

static int try_idmap(const struct probe_at *at)
{
	auto_fd ns = -1;
	auto_fd tree = mount_copy(at->data, "");

	if (tree < 0)
		return errno;
	if (userns(&ns))
		return EPERM;
	return mount_change(tree, MOUNT_SAFE, 0, ns) ? errno : 0;
}

static int probe_lay_over(int tree)
{
	// Volatile: unmounting another overlay waits for a sync of the host's file system.
	static const struct mount_option options[] = {
		{"source", "overlay"}, {"lowerdir", "l"},  {"upperdir", "u"},
		{"workdir", "w"},      {"volatile", NULL}, {NULL, NULL},
	};
	int overlay, fd;

	if (fchdir(tree) || set_ids_files(PROBE_BASE))
		return errno;
	overlay = mount_new("overlay", options, MOUNT_SAFE);
	if (overlay < 0)
		return errno;
	// An overlay whose mounter has no mapping is read-only: writing is the proof.
	fd = openat(overlay, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? errno : 0;
}

static int over_dirs(int scratch)
{
	static const char *const dirs[] = {"l", "u", "w"};
	auto_fd ns = -1;
	auto_fd tree = -1;

	for (int i = 0; i < 3; i++)
		if (mkdirat(scratch, dirs[i], 0755) && errno != EEXIST)
			return errno;
	tree = mount_copy(scratch, "");
	if (tree < 0)
		return errno;
	if (userns(&ns) || mount_change(tree, MOUNT_SAFE, 0, ns))
		return EPERM;
	// Attached over our own root, in our own namespace: overlay needs an attached mount.
	if (mount_attach(tree, AT_FDCWD, "/"))
		return errno;
	return probe_lay_over(tree);
}

static void clear_scratch(int data)
{
	err_free(path_remove(data, SCRATCH)); // leftovers are reported by the next use
}

static int try_overlay(const struct probe_at *at)
{
	auto_fd scratch = -1;

	clear_scratch(at->data);
	if (mkdirat(at->data, SCRATCH, 0700))
		return errno;
	scratch = openat(at->data, SCRATCH, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return scratch < 0 ? errno : over_dirs(scratch);
}

static int try_seccomp(const struct probe_at *at)
{
	static const char *const calls[] = {
		"exit_group",	  "exit",	 "write", "close",   "munmap",
		"mmap",		  "futex",	 "brk",	  "madvise", "mprotect",
		"rt_sigprocmask", "sigaltstack", NULL};
	auto_err nnp = caps_no_new_privs();
	auto_err err = seccomp_confine(SECCOMP_THREADS, calls);

	(void)at;
	return nnp || err ? EPERM : 0;
}

static int try_listener(const struct probe_at *at)
{
	(void)at;
	return seccomp_can_listen() ? 0 : EBUSY;
}

static int try_controller(const struct probe_at *at)
{
	auto_free struct cgroup_host *host = mem_new_of(struct cgroup_host);
	auto_err err = cgroup_discover(host);

	if (err || host->where[at->which] < 0)
		return ENOENT;
	dprintf(at->say, "cgroup v%d, host is %s", host->mounts[host->where[at->which]].version,
		cgroup_word(host));
	return 0;
}

static int try_memfd(const struct probe_at *at)
{
	char *const argv[] = {(char *)"probe", NULL};
	auto_fd fd = memfd_create("probe", MFD_CLOEXEC | 0x10u);

	(void)at;
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("probe", MFD_CLOEXEC);
	if (fd < 0)
		return errno;
	// Not a program: the kernel must read it and answer ENOEXEC.
	if (write(fd, "no program", 10) != 10 || fchmod(fd, 0700))
		return errno;
	syscall(SYS_execveat, fd, "", argv, argv + 1, AT_EMPTY_PATH);
	return errno == ENOEXEC ? 0 : errno;
}

static int try_pidfd(const struct probe_at *at)
{
	auto_fd fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	(void)at;
	return fd < 0 ? errno : 0;
}

static int try_loop(const struct probe_at *at)
{
	auto_fd fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	(void)at;
	if (fd < 0)
		return errno;
	return ioctl(fd, LOOP_CTL_GET_FREE) < 0 ? errno : 0;
}

// With 1, a process that changed its ids stays dumpable to others with the new ids: between setns
// and PR_SET_DUMPABLE, pid 1's memory would be readable by the box.
static int try_undumpable(const struct probe_at *at)
{
	char value[8];

	if (fd_get(AT_FDCWD, "/proc/sys/fs/suid_dumpable", value, sizeof(value)) < 0)
		return errno;
	dprintf(at->say, "fs.suid_dumpable is %c", value[0]);
	return value[0] == '0' || value[0] == '2' ? 0 : EPERM;
}

static int try_landlock(const struct probe_at *at)
{
	int version = caps_landlock_version();

	if (version)
		dprintf(at->say, "version %d", version);
	return version ? 0 : ENOSYS;
}

// A complete egress network, in a network namespace of its own.
enum { BY_SK_LOOKUP, BY_NFT };
static int try_steering(const struct probe_at *at)
{
	auto_fd proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_fd own = -1;
	int listener, udp;

	if (unshare(CLONE_NEWNET) || net_loopback(proc) || net_anyip() ||
	    net_listen(at->which == BY_NFT, &listener, &udp))
		return errno;
	if (at->which == BY_NFT)
		return steer_nft(net_port(listener)) ? errno : 0;
	own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	return own < 0 || steer_sk_lookup(own, listener) < 0 ? errno : 0;
}

#define KERNEL "run Linux 6.1 or newer, as root, outside of other containers"
static const struct {
	const char *feature;
	bool required;
	enum { MAKES, ASKS } how;
	probe_fn *run;
	const char *without, *fix;
	int which;
} probes[] = {
	{"user namespaces", true, MAKES, try_userns, "cove does not start",
	 "set sysctl user.max_user_namespaces above 0, and run as root", 0},
	{"pid, mount, net, ipc and uts namespaces", true, MAKES, try_namespaces,
	 "cove does not start", KERNEL, 0},
	{"seccomp filters", true, MAKES, try_seccomp, "cove does not start", KERNEL, 0},
	{"listeners of filters", false, MAKES, try_listener,
	 "sync and syncfs of sandboxes are not paced", "run cove outside of containers", 0},
	{"idmapped mounts of the data directory", true, MAKES, try_idmap, "cove does not start",
	 "put the data directory on ext4, xfs or btrfs: --data DIR", 0},
	{"overlay on idmapped layers", true, MAKES, try_overlay, "cove does not start",
	 "load the module overlay, and put the data directory on ext4, xfs or btrfs", 0},
	{"memory controller", true, ASKS, try_controller, "cove does not start",
	 "boot with cgroup_enable=memory, and mount the cgroup file system", CGROUP_MEMORY},
	{"pids controller", true, ASKS, try_controller, "cove does not start",
	 "mount the cgroup file system with the pids controller", CGROUP_PIDS},
	{"cpu controller", true, ASKS, try_controller, "cove does not start",
	 "mount the cgroup file system with the cpu controller", CGROUP_CPU},
	{"programs from memory", true, MAKES, try_memfd, "cove does not start",
	 "set sysctl vm.memfd_noexec to 0 or 1", 0},
	{"pidfds", true, ASKS, try_pidfd, "cove does not start", KERNEL, 0},
	{"closed memory after a change of ids", true, ASKS, try_undumpable, "cove does not start",
	 "sysctl fs.suid_dumpable=0, or =2 to keep cores that only root can read", 0},
	{"loop devices", false, ASKS, try_loop, "disk limits are refused", "load the module loop",
	 0},
	{"Landlock", false, ASKS, try_landlock, "the daemon runs without this second fence",
	 "boot with lsm=landlock,...", 0},
	{PROBE_SK_LOOKUP, false, MAKES, try_steering, "sandboxes get their network by nft",
	 "run a kernel with CONFIG_BPF_SYSCALL and CONFIG_INET", BY_SK_LOOKUP},
	{PROBE_NFT, false, MAKES, try_steering, "sandboxes get their network by sk_lookup alone",
	 "load the modules nf_tables and nft_tproxy", BY_NFT},
};

#define PROBES (sizeof(probes) / sizeof(*probes))

// A probe under way. All are started before the first is waited for.
struct trial {
	pid_t pid; // 0: it has answered
	int said, errnum;
};

static pid_t in_child(probe_fn *run, struct probe_at at)
{
	pid_t pid = fork();

	if (pid == 0) {
		// A directory can be copied only in the mount namespace where it was opened.
		if (fchdir(at.data) || unshare(CLONE_NEWNS) || mount_private())
			_exit(errno);
		at.data = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		_exit(at.data < 0 ? errno : run(&at));
	}
	return pid;
}

// Its words fit into the pipe.
static struct trial probe_begin(size_t which, int data)
{
	struct trial trial = {.said = -1};
	struct probe_at at;
	int pipe_fds[2];

	if (pipe2(pipe_fds, O_CLOEXEC)) {
		trial.errnum = errno;
		return trial;
	}
	at = (struct probe_at){data, pipe_fds[1], probes[which].which};
	trial.said = pipe_fds[0];
	if (probes[which].how == ASKS)
		trial.errnum = probes[which].run(&at);
	else
		trial.pid = in_child(probes[which].run, at);
	close(pipe_fds[1]);
	return trial;
}

static int probe_finish(struct trial *trial, char *found, size_t size)
{
	ssize_t len = trial->said < 0 ? 0 : fd_read_all(trial->said, found, size - 1);
	int status = 0;

	found[len > 0 ? len : 0] = 0;
	fd_drop(&trial->said);
	if (trial->pid < 0)
		return EAGAIN;
	if (!trial->pid)
		return trial->errnum;
	while (waitpid(trial->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return EINTR;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

bool probe_is_chroot(void)
{
	struct stat here, first;
	int status = 0;
	pid_t pid;

	// The root of pid 1 is usually no chroot. Another root may be by pivot_root.
	if (stat("/", &here) == 0 && stat("/proc/1/root", &first) == 0 &&
	    here.st_dev == first.st_dev && here.st_ino == first.st_ino)
		return false;
	pid = fork();
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) && errno == EPERM ? 1 : 0);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

size_t probe_all(int data, struct probe_row *rows, size_t max)
{
	size_t count = PROBES < max ? PROBES : max;
	struct trial trials[PROBES];

	for (size_t i = 0; i < count; i++)
		trials[i] = probe_begin(i, data);
	for (size_t i = 0; i < count; i++) {
		struct probe_row *row = &rows[i];
		int errnum;

		*row = (struct probe_row){
			.feature = probes[i].feature,
			.required = probes[i].required,
			.without = probes[i].without,
			.fix = probes[i].fix,
		};
		errnum = probe_finish(&trials[i], row->found, sizeof(row->found));
		for (int more = 0; errnum == EINTR && more < AGAIN_MAX; more++) {
			trials[i] = probe_begin(i, data); // killed: nothing is known
			errnum = probe_finish(&trials[i], row->found, sizeof(row->found));
		}
		row->ok = errnum == 0;
		if (!row->found[0])
			snprintf(row->found, sizeof(row->found), "%s",
				 row->ok ? "yes" : strerror(errnum));
	}
	clear_scratch(data);
	return count;
}
