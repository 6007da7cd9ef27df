// A user namespace lives by its fd alone: a child is cloned into a new one, we map its ids, it
// lowers the namespace's own ceilings and ends. The ceilings of zero are the second wall behind
// seccomp: whatever call a box finds, ENOSPC answers. The inotify ones keep a box from using up
// what root of the host has, for the kernel counts in every parent as well.
#include "os/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fd.h"

static const struct {
	const char *path, *value;
} ceilings[] = {
	{"/proc/sys/user/max_user_namespaces", "0"},
	{"/proc/sys/user/max_mnt_namespaces", "0"},
	{"/proc/sys/user/max_net_namespaces", "0"},
	{"/proc/sys/user/max_pid_namespaces", "0"},
	{"/proc/sys/user/max_ipc_namespaces", "0"},
	{"/proc/sys/user/max_uts_namespaces", "0"},
	{"/proc/sys/user/max_cgroup_namespaces", "0"},
	{"/proc/sys/user/max_time_namespaces", "0"},
	{"/proc/sys/user/max_inotify_instances", "128"},
	{"/proc/sys/user/max_inotify_watches", "65536"},
};

static _Noreturn void child(int gate)
{
	char byte;

	if (read(gate, &byte, 1) != 1)
		_exit(1);
	for (size_t i = 0; i < sizeof(ceilings) / sizeof(*ceilings); i++)
		if (fd_put(AT_FDCWD, ceilings[i].path, ceilings[i].value) && errno != ENOENT)
			_exit(2);
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

static fallible enter(int pid, uint32_t base, int gate, int *out_fd)
{
	char path[64];
	auto_fd fd = -1;

	TRY(map(pid, "uid_map", base));
	TRY(map(pid, "gid_map", base));
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(errno, "open %s", path);
	if (write(gate, "g", 1) != 1)
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

fallible ns_user(uint32_t base, int *out_fd)
{
	struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_PIDFD, .exit_signal = SIGCHLD};
	int pipe_fds[2], pidfd_number = -1;
	siginfo_t info;
	struct err *err;
	long pid;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return err_sys(errno, "make a pipe");
	auto_fd gate_in = pipe_fds[0];
	auto_fd gate_out = pipe_fds[1];

	args.pidfd = (uint64_t)(uintptr_t)&pidfd_number;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		return err_sys(errno, "clone into a user namespace");
	if (pid == 0) {
		close(gate_out);
		child(gate_in);
	}
	auto_fd pidfd = pidfd_number;
	auto_fd fd = -1;

	fd_drop(&gate_in);
	err = enter((int)pid, base, gate_out, &fd);
	fd_drop(&gate_out); // a child that was not let in sees the end and goes
	reap(pidfd, &info);
	if (err)
		return err_while(err, "make the user namespace at %u", base);
	if (info.si_code != CLD_EXITED || info.si_status != 0)
		return err_sys(EPERM, "lower the ceilings of the user namespace at %u", base);
	*out_fd = take_fd(&fd);
	return OK;
}

int ns_files_as(uint32_t id)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	setfsgid(id);
	setfsuid(id);
	// Leaving fsuid 0 takes the file capabilities out of the effective set.
	if (syscall(SYS_capget, &head, caps))
		return -1;
	caps[0].effective = caps[0].permitted;
	caps[1].effective = caps[1].permitted;
	return (int)syscall(SYS_capset, &head, caps);
}
