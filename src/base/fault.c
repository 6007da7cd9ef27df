// wraps: openat read write pread pwrite pipe2 socket socketpair accept4 sendmsg recvmsg
// wraps: epoll_ctl mkdirat mmap memfd_create fcntl syscall mount
//
// The torture build is linked with --wrap for each name above: the linker then sends every call of
// our own objects to __wrap_NAME here, and __real_NAME is libc's. Undoing is never made to fail
// (close is not wrapped, EPOLL_CTL_DEL and the calls that kill are let pass), for no kernel fails
// it that way, and a leak found so would be none. Errors that mean "again" are not given either.
#include "base/fault.h"

#ifdef COVE_FAULT

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// Weak, so that a test may link this file without --wrap.
#define REAL(type, name, ...) extern __attribute__((weak)) type __real_##name(__VA_ARGS__)

static struct {
	atomic_long asked;
	long at; // 0: none
	int count_fd;
	char role[32];
	int spared;
} fault = {.count_fd = -1, .spared = STDERR_FILENO};

bool fault_here(void)
{
	static const int errors[] = {ENOMEM, EIO, EMFILE, ENOSPC};
	long n = atomic_fetch_add(&fault.asked, 1) + 1;

	if (n != fault.at)
		return false;
	errno = errors[n % 4];
	return true;
}

void fault_spare(int fd)
{
	fault.spared = fd;
}

static bool is_spared(int fd)
{
	return fd == STDERR_FILENO || fd == fault.spared;
}

// The file is opened early: a confined process could not. High up, where close_range(3, ...) of a
// child is the only thing that reaches it.
__attribute__((constructor)) static void open_count(int argc, char **argv)
{
	const char *in = getenv("COVE_FAULT_IN"), *at = getenv("COVE_FAULT_AT"),
		   *count = getenv("COVE_FAULT_COUNT");

	snprintf(fault.role, sizeof(fault.role), "%s", argc > 1 ? argv[1] : "-");
	if (in && strcmp(in, fault.role) != 0)
		return;
	if (at)
		fault.at = strtol(at, NULL, 10);
	if (count) {
		int fd = open(count, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

		if (fd >= 0) {
			fault.count_fd = fcntl(fd, F_DUPFD_CLOEXEC, 900);
			close(fd);
		}
		atomic_store(&fault.asked, 0);
	}
}

__attribute__((destructor)) static void write_count(void)
{
	if (fault.count_fd >= 0)
		dprintf(fault.count_fd, "%ld %s %d\n", atomic_load(&fault.asked), fault.role,
			(int)getpid());
}

// A call of fixed form: WRAP(type, failure, spare it when, name, (parameters), (arguments)).
#define WRAP(type, failure, spare, name, parameters, arguments)                                    \
	REAL(type, name, PARAMETERS parameters);                                                   \
	type __wrap_##name(PARAMETERS parameters);                                                 \
	type __wrap_##name(PARAMETERS parameters)                                                  \
	{                                                                                          \
		if (!(spare) && fault_here())                                                      \
			return failure;                                                            \
		return __real_##name arguments;                                                    \
	}
#define PARAMETERS(...) __VA_ARGS__

// clang-format off
WRAP(ssize_t, -1, is_spared(fd), read, (int fd, void *at, size_t len), (fd, at, len))
WRAP(ssize_t, -1, is_spared(fd), write, (int fd, const void *at, size_t len), (fd, at, len))
WRAP(ssize_t, -1, false, pread, (int fd, void *at, size_t len, off_t from), (fd, at, len, from))
WRAP(ssize_t, -1, false, pwrite, (int fd, const void *at, size_t len, off_t to), (fd, at, len, to))
WRAP(int, -1, false, pipe2, (int fds[2], int flags), (fds, flags))
WRAP(int, -1, false, socket, (int family, int type, int protocol), (family, type, protocol))
WRAP(int, -1, false, socketpair, (int family, int type, int protocol, int fds[2]),
     (family, type, protocol, fds))
WRAP(int, -1, false, accept4, (int fd, struct sockaddr *from, socklen_t *len, int flags),
     (fd, from, len, flags))
WRAP(ssize_t, -1, false, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
WRAP(ssize_t, -1, false, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
WRAP(int, -1, op == EPOLL_CTL_DEL, epoll_ctl, (int ep, int op, int fd, struct epoll_event *event),
     (ep, op, fd, event))
WRAP(int, -1, false, mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
WRAP(void *, MAP_FAILED, false, mmap,
     (void *at, size_t len, int prot, int flags, int fd, off_t from),
     (at, len, prot, flags, fd, from))
WRAP(int, -1, false, memfd_create, (const char *name, unsigned int flags), (name, flags))
WRAP(int, -1, false, mount, (const char *source, const char *target, const char *type,
     unsigned long flags, const void *data), (source, target, type, flags, data))
// clang-format on

// The calls with an ellipsis pass on what could have been given; what was not is never read.
REAL(int, openat, int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode = 0;

	if (fault_here())
		return -1;
	if (__OPEN_NEEDS_MODE(flags)) {
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	return __real_openat(dir, path, flags, mode);
}

REAL(int, fcntl, int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...);
int __wrap_fcntl(int fd, int cmd, ...)
{
	unsigned long arg;
	va_list args;

	if (fault_here())
		return -1;
	va_start(args, cmd);
	arg = va_arg(args, unsigned long);
	va_end(args);
	return __real_fcntl(fd, cmd, arg);
}

REAL(long, syscall, long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	bool undoes = number == SYS_close_range || number == SYS_pidfd_send_signal ||
		      number == SYS_futex || number == SYS_gettid || number == SYS_exit_group;
	va_list args;
	long a[6];

	if (!undoes && fault_here())
		return -1;
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#endif
