// wraps: openat read write pread pwrite pipe2 socket socketpair accept4 sendmsg recvmsg
// wraps: epoll_ctl mkdirat mmap memfd_create fcntl syscall mount
//
// The fault build is linked with --wrap for each name above: the linker sends every call of our
// objects to __wrap_NAME here, and __real_NAME is libc's. Cleanup never fails (close is not
// wrapped, EPOLL_CTL_DEL and kill calls pass), because no kernel fails it so, and a leak found that
// way would be none. Errors that mean "again" are not injected either.
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

// Shared with the test driver, and with the children that this process forks.
struct dial {
	_Atomic int64_t left;	// this many calls until one fails; 0: none does
	_Atomic uint64_t asked; // since the driver last set it to 0
};

static struct {
	struct dial *dial;
	int spared;
} fault = {.spared = STDERR_FILENO};

bool fault_here(void)
{
	static const int errors[] = {ENOMEM, EIO, EMFILE, ENOSPC};
	uint64_t asked;

	if (!fault.dial)
		return false;
	asked = atomic_fetch_add(&fault.dial->asked, 1);
	if (atomic_load(&fault.dial->left) <= 0 || atomic_fetch_sub(&fault.dial->left, 1) != 1)
		return false;
	errno = errors[asked % 4];
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

// Early: a confined process could not open it. argv[1] is the role.
__attribute__((constructor)) static void open_dial(int argc, char **argv)
{
	const char *dir = getenv("COVE_FAULT_DIR");
	char path[512];
	void *at;
	int fd;

	if (!dir || argc < 2)
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, argv[1]);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(struct dial), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at != MAP_FAILED)
		fault.dial = at;
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

// Variadic calls pass on every possible argument; absent ones are never read.
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

#ifdef COVE_WEAK

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME_SIZE 64
#define NAMES_MAX (KILL_POINTS_SIZE / NAME_SIZE - 3)

static struct {
	_Atomic uint32_t left, then_left, fired;
	char rest[NAME_SIZE - 12];
	char armed[NAME_SIZE], then[NAME_SIZE];
	struct {
		char name[NAME_SIZE - 4];
		_Atomic uint32_t times;
	} met[NAMES_MAX];
} * points;

// Early: a confined process could not open it.
__attribute__((constructor)) static void kill_points_open(void)
{
	const char *path = getenv("COVE_KILL_POINTS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *at;

	if (fd < 0)
		return;
	at = mmap(NULL, KILL_POINTS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at != MAP_FAILED)
		points = at;
}

// Two processes that reach a new point at the same time may both record it.
static void kill_point_note(const char *name)
{
	for (size_t i = 0; i < NAMES_MAX; i++) {
		if (!points->met[i].name[0])
			memcpy(points->met[i].name, name, sizeof(points->met[i].name) - 1);
		if (strcmp(points->met[i].name, name) == 0) {
			atomic_fetch_add(&points->met[i].times, 1);
			return;
		}
	}
}

void kill_point(const char *place, const char *what)
{
	char name[NAME_SIZE] = "";

	if (!points)
		return;
	snprintf(name, sizeof(name), what ? "%s.%s" : "%s", place, what);
	kill_point_note(name);
	if (!atomic_load(&points->left) || strcmp(points->armed, name) != 0 ||
	    atomic_fetch_sub(&points->left, 1) != 1)
		return;
	memcpy(points->armed, points->then, NAME_SIZE);
	atomic_store(&points->left, atomic_exchange(&points->then_left, 0));
	for (size_t i = 0; i < NAMES_MAX; i++)
		atomic_store(&points->met[i].times, 0);
	atomic_fetch_add(&points->fired, 1);
	raise(SIGKILL);
	abort(); // a filter may forbid it
}

#endif
