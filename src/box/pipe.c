// Reads and writes pipes whose other end is in the box. pid 1 has a copy of our end and may clear
// O_NONBLOCK at any time, so no call here relies on it: RWF_NOWAIT where the kernel has it for
// pipes (6.4), else splice(SPLICE_F_NONBLOCK) through a pipe of our own. No flag helps against a
// pipe lock that a process of the box holds: box/stall watches these calls.
//
// syscalls: preadv2 pwritev2 splice tee read write pipe2 ioctl fstat newfstatat close
#include "box/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/fd.h"

#define CHUNK 65536

// Only the loop's thread is here; no content survives a call.
static char waste[CHUNK];
static int spool[2] = {-1, -1};

static bool has_spool(void)
{
	return spool[0] >= 0 || pipe2(spool, O_CLOEXEC | O_NONBLOCK) == 0;
}

void pipe_prepare(void)
{
	(void)has_spool(); // retried when it is needed
}

// Reads bytes that were spliced into our own pipe. Pages of a file of the box may fail to be read;
// then the pipe is replaced, so that its rest cannot reach a reader of another box.
static ssize_t take_own(void *room, size_t len)
{
	ssize_t n = fd_read_all(spool[0], room, len);

	if (n == (ssize_t)len)
		return n;
	fd_drop(&spool[0]);
	fd_drop(&spool[1]);
	errno = EIO;
	return -1;
}

bool pipe_fd_is(int fd, mode_t type)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type;
}

static ssize_t box_pipe_take(int fd, void *room, size_t size)
{
	struct iovec part = {room, size};
	ssize_t n;

	do {
		n = preadv2(fd, &part, 1, -1, RWF_NOWAIT);
	} while (n < 0 && errno == EINTR);
	if (n >= 0 || errno != EOPNOTSUPP || !has_spool())
		return n;
	n = splice(fd, NULL, spool[1], NULL, size, SPLICE_F_NONBLOCK);
	return n > 0 ? take_own(room, (size_t)n) : n;
}

ssize_t pipe_take(const struct stall_at *at, int fd, void *room, size_t size)
{
	ssize_t n;

	stall_enter(at, STALL_LOCK);
	n = box_pipe_take(fd, room, size);
	stall_leave();
	return n;
}

ssize_t pipe_peek(const struct stall_at *at, int pipe, void *room, size_t size)
{
	ssize_t n = -1;

	stall_enter(at, STALL_LOCK);
	if (has_spool())
		n = tee(pipe, spool[1], size, SPLICE_F_NONBLOCK);
	stall_leave();
	return n > 0 ? take_own(room, (size_t)n) : n;
}

size_t pipe_held(const struct stall_at *at, int pipe)
{
	int held = 0;
	bool known;

	stall_enter(at, STALL_LOCK);
	known = ioctl(pipe, FIONREAD, &held) == 0;
	stall_leave();
	return known && held > 0 ? (size_t)held : 0;
}

static ssize_t box_pipe_give(int fd, const void *bytes, size_t len)
{
	struct iovec part = {(void *)bytes, len};
	ssize_t n, moved;

	do {
		n = pwritev2(fd, &part, 1, -1, RWF_NOWAIT);
	} while (n < 0 && errno == EINTR);
	if (n >= 0 || errno != EOPNOTSUPP || !has_spool())
		return n;
	n = write(spool[1], bytes, len);
	if (n <= 0)
		return n;
	moved = splice(spool[0], NULL, fd, NULL, (size_t)n, SPLICE_F_NONBLOCK);
	for (ssize_t left = n - (moved > 0 ? moved : 0); left > 0; left -= CHUNK) {
		int kept = errno;

		// The rest is still in our pipe.
		fd_read_all(spool[0], waste, left < CHUNK ? (size_t)left : CHUNK);
		errno = kept;
	}
	return moved;
}

ssize_t pipe_give(const struct stall_at *at, int fd, const void *bytes, size_t len)
{
	ssize_t n;

	stall_enter(at, STALL_LOCK);
	n = box_pipe_give(fd, bytes, len);
	stall_leave();
	return n;
}

void pipe_close(const struct stall_at *at, int *fd)
{
	stall_enter(at, STALL_LOCK);
	fd_drop(fd);
	stall_leave();
}
