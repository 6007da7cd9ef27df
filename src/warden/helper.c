// Helper processes of the warden. Those that execute the host's mkfs.btrfs, mke2fs and e2fsck have
// a fixed environment, stdio and fd 3. They inherit the warden's seccomp filter, so their system
// calls are listed here too.
//
// syscalls: clone execve dup2 dup3 fcntl close_range wait4 pipe2 read close exit_group openat
// syscalls: prctl rt_sigprocmask rt_sigaction kill
//
// mkfs.btrfs, mke2fs and e2fsck, as Debian 12 has them:
// syscalls: access arch_prctl brk clone3 exit faccessat faccessat2 fadvise64 fallocate fsync
// syscalls: futex getcwd getegid geteuid getgid getpid getppid getrandom gettid getuid ioctl
// syscalls: lseek madvise mmap mprotect mremap munmap newfstatat fstat stat lstat open pread64
// syscalls: prlimit64 pwrite64 readlink readlinkat rseq set_robust_list set_tid_address statx
// syscalls: sysinfo uname write fdatasync fstatfs ftruncate clock_gettime sched_getaffinity
// syscalls: restart_syscall getrusage gettimeofday time
#include "warden/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fd.h"
#include "os/ns.h"

#define NOT_THERE 127

int helper_keep(int *fds, int count)
{
	// First to numbers above the targets, then to the targets.
	for (int i = 0; i < count; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD, HELPER_KEEP_FIRST + count);
		if (fds[i] < 0)
			return -1;
	}
	for (int i = 0; i < count; i++)
		if (dup2(fds[i], HELPER_KEEP_FIRST + i) < 0)
			return -1;
	for (int i = 0; i < count; i++)
		fds[i] = HELPER_KEEP_FIRST + i;
	return close_range(HELPER_KEEP_FIRST + (unsigned)count, ~0u, 0);
}

void helper_end(int pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static _Noreturn void helper_exec(const char *const *argv, int file, int report)
{
	// A configuration of the host must not change the result.
	static char *const env[] = {(char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
				    (char *)"LC_ALL=C", (char *)"MKE2FS_CONFIG=/dev/null", NULL};
	static const char *const places[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin"};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int held = file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 10);
	sigset_t none;
	char path[64];

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	report = fcntl(report, F_DUPFD_CLOEXEC, 10);
	if (null < 0 || report < 0 || dup2(null, 0) < 0 || dup2(report, 1) < 0 ||
	    dup2(report, 2) < 0 || (held >= 0 && dup2(held, 3) < 0) ||
	    close_range(held >= 0 ? 4 : 3, ~0u, 0))
		_exit(NOT_THERE - 1);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(path, sizeof(path), "%s/%s", places[i], argv[0]);
		execve(path, (char *const *)argv, env);
	}
	_exit(NOT_THERE);
}

fallible helper_start(const char *const *argv, int file, int *out_pid)
{
	auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int pid;

	if (null < 0)
		return err_sys(errno, "open /dev/null for %s", argv[0]);
	pid = fork();
	if (pid < 0)
		return err_sys(errno, "fork for %s", argv[0]);
	if (pid == 0)
		helper_exec(argv, file, null);
	*out_pid = pid;
	return OK;
}

fallible helper_run(const char *const *argv, int file)
{
	char said[512] = "";
	int pipes[2], status, pid;
	ssize_t got;

	if (pipe2(pipes, O_CLOEXEC))
		return err_sys(errno, "make a pipe for %s", argv[0]);
	auto_fd in = pipes[0];
	auto_fd out = pipes[1];

	pid = fork();
	if (pid < 0)
		return err_sys(errno, "fork for %s", argv[0]);
	if (pid == 0)
		helper_exec(argv, file, out);
	fd_drop(&out);
	got = fd_read_all(in, said, sizeof(said) - 1);
	said[got < 0 ? 0 : got] = 0;
	while (got > 0) {
		char rest[512];

		got = fd_read_all(in, rest, sizeof(rest));
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(errno, "wait for %s", argv[0]);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_THERE)
		return err_new(NOT_OFFERED, "no_tool", "%s is not installed", argv[0]);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return err_new(UNAVAILABLE, NS_HELPER_LOST, "%s was killed", argv[0]);
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 0)
		return err_sys(EIO, "run %s: status %d: %s", argv[0], status, said);
	return OK;
}
