// Reads and writes our own descriptors, blocking or not, and returns CANCELLED after a signal. A
// closed reader is CANCELLED pipe_closed, without a message.
#include "cli/stdio.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli/interrupt.h"

#define PIECE (64 * 1024)

static fallible interrupted(void)
{
	return err_new(CANCELLED, "interrupted", "interrupted");
}

fallible stdio_write_on(int fd, struct str *rest)
{
	while (rest->len) {
		ssize_t n = write(fd, rest->at, rest->len);

		if (n >= 0) {
			*rest = str_skip(*rest, (size_t)n);
		} else if (errno ==
			   EAGAIN) { // another process made the shared terminal non-blocking
			struct pollfd wait = {.fd = fd, .events = POLLOUT};

			poll(&wait, 1, 1000);
		} else if (errno == EPIPE) {
			return err_new(CANCELLED, "pipe_closed",
				       "the reader of the output is gone");
		} else if (errno != EINTR) {
			return err_new(NO_SPACE, "cannot_write", "cannot write the output: %s",
				       strerror(errno));
		}
		if (interrupt_signal())
			return interrupted();
	}
	return OK;
}

fallible stdio_write(int fd, const void *bytes, size_t len)
{
	struct str rest = {bytes, len};

	return stdio_write_on(fd, &rest);
}

// A signal may come just before the read: poll() also watches interrupt_fd().
fallible stdio_read(int fd, void *room, size_t size, size_t *out)
{
	for (;;) {
		struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
					{.fd = interrupt_fd(), .events = POLLIN}};
		ssize_t n = -1;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return err_sys(errno, "poll");
		if (interrupt_signal())
			return interrupted();
		if (fds[0].revents)
			n = read(fd, room, size);
		else
			errno = EAGAIN;
		if (n >= 0) {
			*out = (size_t)n;
			return OK;
		}
		if (errno != EINTR && errno != EAGAIN)
			return err_new(INVALID, "cannot_read", "cannot read: %s", strerror(errno));
	}
}

fallible stdio_read_all(int fd, struct buf *out, bool *fits)
{
	size_t n = 1;

	while (n > 0) {
		char *room = buf_space(out, PIECE);

		*fits = room != NULL;
		if (!room)
			return OK;
		TRY(stdio_read(fd, room, PIECE, &n));
		buf_grew(out, n);
	}
	return OK;
}
