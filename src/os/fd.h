// File descriptors: close-on-exec everywhere; whole reads and writes; passing. pid 1 links this: no
// allocation, errors as errno.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// 0, or -1 with errno. EINTR is retried.
int fd_write_all(int fd, const void *bytes, size_t len);
// Wakes the reader of a non-blocking pipe or eventfd. A full one wakes it as well. Any other
// failure, such as ENOMEM of a pipe, is retried: a lost wake-up would leave the reader waiting for
// ever.
void fd_wake(int fd);
ssize_t fd_read_all(int fd, void *room, size_t size); // until the end or `size`
// Opens beneath `dir`, writes `text`, closes: for kernel files.
int fd_put(int dir, const char *path, const char *text);
// Reads a small kernel file as text with a NUL; -1 with errno.
ssize_t fd_get(int dir, const char *path, char *room, size_t size);
int fd_nonblock(int fd, bool on);

// One message with fds. recv: *count is the room in `fds` on entry, how many came on return; more,
// or a truncated message, is EPROTO and closes them all. Returns bytes, 0 at end. EMFILE: the
// message was received, but this process is at its fd limit.
ssize_t fd_send(int sock, const void *bytes, size_t len, const int *fds, int count, int flags);
// The same with the bytes of several parts.
struct iovec;
ssize_t fd_send_parts(int sock, struct iovec *parts, int part_count, const int *fds, int count,
		      int flags);
ssize_t fd_recv(int sock, void *room, size_t size, int *fds, int *count, int flags);
// The same, but instead of EMFILE the bytes are returned, with *count = FD_LOST and no fd.
#define FD_LOST (-1)
ssize_t fd_recv_any(int sock, void *room, size_t size, int *fds, int *count, int flags);
// Bytes of a socket on which no descriptors may be passed: such a message is EPROTO. *sender, if
// not NULL, is the pid of the writer in our pid namespace, if fd_ask_sender() was called before:
// bytes of two processes are never returned together.
ssize_t fd_recv_bytes(int sock, void *room, size_t size, int *sender, int flags);
// Enables SO_PASSCRED on `sock`, a Unix socket, and refuses descriptors where the kernel can. 0, or
// -1 with errno.
int fd_ask_sender(int sock);
// How an unexpected descriptor is closed; NULL: at once.
void fd_on_leaked(void (*drop)(int fd));
// Closes *fd and sets it to -1. errno stays.
void fd_drop(int *fd);
// An fd that is closed at the end of its scope; errno stays, unlike with auto_fd.
#define auto_fd_errno __attribute__((cleanup(fd_drop))) int
