// File descriptors: close-on-exec everywhere; whole reads and writes; passing them on. pid 1 links
// this: no allocation, errors as errno.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// 0, or -1 with errno. EINTR is retried.
int fd_write_all(int fd, const void *bytes, size_t len);
ssize_t fd_read_all(int fd, void *room, size_t size); // until the end or `size`
// Opens beneath `dir`, writes `text`, closes: for kernel files.
int fd_put(int dir, const char *path, const char *text);
// Reads a small kernel file as text with a NUL; -1 with errno.
ssize_t fd_get(int dir, const char *path, char *room, size_t size);
int fd_nonblock(int fd, bool on);

// One message with fds beside it. recv: *count is the room in `fds` on entry, how many came on
// return; more than that, or a cut message, is EPROTO and closes them all. Returns bytes, 0 at end.
// EMFILE: the message was taken, but this process had no numbers left for all of its fds.
ssize_t fd_send(int sock, const void *bytes, size_t len, const int *fds, int count, int flags);
ssize_t fd_recv(int sock, void *room, size_t size, int *fds, int *count, int flags);
// The same, but instead of EMFILE the bytes are returned, with *count = FD_LOST and no fd.
#define FD_LOST (-1)
ssize_t fd_recv_any(int sock, void *room, size_t size, int *fds, int *count, int flags);
// Bytes of a socket on which nobody may pass descriptors: such a message is EPROTO. *sender, if it
// is not NULL, is the process that wrote them, as this process counts, where fd_ask_sender() came
// first: bytes of two processes are never returned together.
ssize_t fd_recv_bytes(int sock, void *room, size_t size, int *sender, int flags);
// From now on the kernel notes who writes to the other end of `sock`, a Unix socket, and refuses
// descriptors where it can. 0, or -1 with errno.
int fd_ask_sender(int sock);
// How a descriptor that came unasked is closed; NULL: at once.
void fd_on_leaked(void (*drop)(int fd));
// Closes and forgets.
void fd_drop(int *fd);
