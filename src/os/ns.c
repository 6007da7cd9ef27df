// User namespaces, kept alive by an fd: a child makes one, we write its maps, the child sets the
// namespace's limits and exits. Limits of zero on further namespaces are a second barrier behind
// seccomp. The child takes the box's own uid first: ucounts (inotify, pending signals, timers,
// message queues) are also charged to the parent namespaces under the creator's uid, and by root
// all boxes would share one count. Copying or closing thousands of descriptors takes milliseconds,
// so the child shares our table and leaves it with close_range(CLOSE_RANGE_UNSHARE) above the slot:
// a low fd number, reserved early, that holds its end of the socket.
#include "os/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/set_ids.h"

#define CHILD_SOCK 3
#define VACANT "/"	   // open in the slot between two children
#define SHARED_OWNER 61183 // nobody's uid: owner of all namespaces if boxes share one

static int slot_fd = -1;

static const struct {
	const char *path, *value;
} ceilings[] = {
	{"sys/user/max_user_namespaces", "0"},	   {"sys/user/max_mnt_namespaces", "0"},
	{"sys/user/max_net_namespaces", "0"},	   {"sys/user/max_pid_namespaces", "0"},
	{"sys/user/max_ipc_namespaces", "0"},	   {"sys/user/max_uts_namespaces", "0"},
	{"sys/user/max_cgroup_namespaces", "0"},   {"sys/user/max_time_namespaces", "0"},
	{"sys/user/max_inotify_instances", "128"}, {"sys/user/max_inotify_watches", "65536"},
};

// Capabilities are kept: some hosts require them for making a user namespace.
static int ns_become(uint32_t base)
{
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || syscall(SYS_setresgid, base, base, base) ||
	    syscall(SYS_setresuid, base, base, base))
		return -1;
	return set_ids_raise();
}

// The exit status is the step that failed; ns_enter() names it.
static _Noreturn void ns_child(uint32_t base)
{
	const int sock = CHILD_SOCK;
	char byte = 'u';
	int fd, proc;

	// No fd of ours may be visible to the box's uid, or stay open in the child if we exit
	// first.
	if (close_range((unsigned)slot_fd + 1, ~0u, CLOSE_RANGE_UNSHARE) ||
	    dup2(slot_fd, sock) < 0 || close_range(CHILD_SOCK + 1, ~0u, 0))
		_exit(6);
	if (ns_become(weak(OWNER) ? SHARED_OWNER : base))
		_exit(1);
	proc = mount_own_proc();
	if (proc < 0 || unshare(CLONE_NEWUSER))
		_exit(2);
	// The child opens it; the parent would need CAP_SYS_PTRACE.
	fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fd_send(sock, &byte, 1, &fd, 1, 0) != 1)
		_exit(3);
	if (read(sock, &byte, 1) != 1)
		_exit(4);
	for (size_t i = 0; i < sizeof(ceilings) / sizeof(*ceilings) && !weak(CEILINGS); i++)
		if (fd_put(proc, ceilings[i].path, ceilings[i].value) && errno != ENOENT)
			_exit(5);
	_exit(0);
}

static fallible map(int pid, const char *file, uint32_t base)
{
	char path[64], line[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	snprintf(line, sizeof(line), "0 %u %d", base, NS_IDS);
	if (fd_put(AT_FDCWD, path, line))
		return err_sys(errno, "write %s", path);
	return OK;
}

static void vacate(void)
{
	auto_fd nothing = open(VACANT, O_PATH | O_CLOEXEC);

	if (nothing >= 0)
		dup3(nothing, slot_fd, O_CLOEXEC);
}

// While the child's end is open in the slot, our end shows no hangup.
static void await_word(int sock, int pidfd)
{
	struct pollfd either[] = {{.fd = sock, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};

	while (poll(either, 2, -1) < 0 && errno == EINTR)
		;
}

static fallible ns_enter(int pid, uint32_t base, int sock, int *out_fd)
{
	int number = -1, count = 1;
	char byte;

	if (fd_recv(sock, &byte, 1, &number, &count, MSG_DONTWAIT) != 1 || count != 1)
		return err_sys(EPERM, "hear from the child of a user namespace");
	auto_fd fd = number;

	TRY(map(pid, "uid_map", base));
	TRY(map(pid, "gid_map", base));
	if (fd_send(sock, &byte, 1, NULL, 0, 0) != 1)
		return err_sys(errno, "wake the child of a user namespace");
	*out_fd = take_fd(&fd);
	return OK;
}

static void reap(int pidfd, siginfo_t *info)
{
	*info = (siginfo_t){0};
	while (waitid(P_PIDFD, (id_t)pidfd, info, WEXITED) < 0 && errno == EINTR)
		;
}

void ns_prepare(void)
{
	if (slot_fd < 0)
		slot_fd = open(VACANT, O_PATH | O_CLOEXEC);
}

fallible ns_user(uint32_t base, int *out_fd)
{
	struct clone_args args = {.flags = CLONE_PIDFD | CLONE_FILES, .exit_signal = SIGCHLD};
	int pair[2], pidfd_number = -1, errnum;
	siginfo_t info;
	struct err *err;
	long pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return err_sys(errno, "make a pair of sockets");
	auto_fd ours = pair[0];
	auto_fd theirs = pair[1];

	ns_prepare();
	if (slot_fd < 0 || dup3(theirs, slot_fd, O_CLOEXEC) < 0)
		return err_sys(errno, "hand a socket to the child of a user namespace");
	args.pidfd = (uint64_t)(uintptr_t)&pidfd_number;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	errnum = errno;
	if (pid == 0)
		ns_child(base);
	fd_drop(&theirs);
	if (pid < 0) {
		vacate();
		return err_sys(errnum, "clone the child of a user namespace");
	}
	auto_fd pidfd = pidfd_number;
	auto_fd fd = -1;

	await_word(ours, pidfd);
	vacate();
	err = ns_enter((int)pid, base, ours, &fd);
	fd_drop(&ours); // a child that failed sees EOF and exits
	reap(pidfd, &info);
	if (info.si_code == CLD_KILLED && info.si_status == SIGKILL) {
		err_free(err);
		return err_new(UNAVAILABLE, NS_HELPER_LOST,
			       "the process that makes a user namespace was killed");
	}
	if (err)
		return err_while(err, "make the user namespace at %u, status %d", base,
				 info.si_status);
	if (info.si_code != CLD_EXITED || info.si_status != 0)
		return err_sys(EPERM, "lower the ceilings of the user namespace at %u, status %d",
			       base, info.si_status);
	*out_fd = take_fd(&fd);
	return OK;
}
