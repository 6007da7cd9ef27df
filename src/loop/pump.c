// One offload is one slice: until the socket has nothing to give or take, or SLICE_US is over and
// another call waits for a worker. After a large transfer the worker waits a moment for the peer:
// the way to the loop and back costs more than its answer. A slow peer never holds a worker.
//
// In: socket to pipe to file by splice, which copies once where read and write copy twice; read and
// write if no pipe is available. Out: sendfile.
//
// syscalls: sendfile splice pipe2 poll ppoll read write pread64 close fcntl clock_gettime
// syscalls: fstat newfstatat fstatfs ftruncate lseek
#include "loop/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/mem.h"
#include "loop/offload.h"
#include "os/fd.h"

#define SLICE_US 20000
#define SLICE_MOST_US 200000 // a cancelled task ends by then
#define PATIENCE_MS 3
#define MUCH (512 * 1024)
#define STEP (1024 * 1024)
#define BOUNCE (64 * 1024)
#define SHORT (1ull << 30)

struct slice {
	int socket, file;
	uint64_t offset, left;
	uint64_t moved;
	int errnum;
	bool of_file; // whose error it is
	bool ended;   // end of the source
	bool waits;   // for the socket
	int pipe[2];  // of a receiving one; -1: none, then
	char *room;   // is used
};

fallible pump_explain(int errnum, const char *what)
{
	switch (errnum) {
	case ENOSPC:
	case EDQUOT:
		return err_new(NO_SPACE, "no_space", "there is no space left");
	case EFBIG:
		return err_new(TOO_LARGE, "file_too_large", "the file would be too large");
	default:
		return err_sys(errnum, "%s a file", what);
	}
}

// Whether to retry at once.
static bool is_soon_ready(struct slice *slice, short events)
{
	struct pollfd watch = {.fd = slice->socket, .events = events};

	return slice->moved >= MUCH && poll(&watch, 1, PATIENCE_MS) > 0;
}

static size_t step_of(const struct slice *slice, size_t most)
{
	return slice->left < most ? (size_t)slice->left : most;
}

static bool is_over(int64_t began_us)
{
	int64_t took = clock_us() - began_us;

	return took >= SLICE_US && (took >= SLICE_MOST_US || offload_is_wanted());
}

// Resolves a step; -1 with errno of the socket, FILE_FAILED.
typedef ssize_t step_fn(struct slice *slice);
#define FILE_FAILED (-2)

static void run_slice(struct slice *slice, step_fn *step, short events)
{
	int64_t began = clock_us();

	while (slice->left && !is_over(began)) {
		ssize_t n = step(slice);

		if (n > 0) {
			slice->left -= (size_t)n;
			slice->moved += (size_t)n;
		} else if (n == 0) {
			slice->ended = true;
			return;
		} else if (n == FILE_FAILED) {
			return;
		} else if (errno == EAGAIN) {
			if (is_soon_ready(slice, events))
				continue;
			slice->waits = true;
			return;
		} else if (errno != EINTR) {
			slice->errnum = errno;
			return;
		}
	}
}

static ssize_t send_step(struct slice *slice)
{
	off_t at = (off_t)slice->offset;
	ssize_t n = sendfile(slice->socket, slice->file, &at, step_of(slice, STEP));

	if (n > 0)
		slice->offset += (size_t)n;
	return n;
}

static void send_slice(void *arg)
{
	run_slice(arg, send_step, POLLOUT);
}

static bool fail_file(struct slice *slice, int errnum)
{
	slice->errnum = errnum;
	slice->of_file = true;
	return false;
}

// Moves the content of the pipe to the file.
static bool empty_pipe(struct slice *slice, size_t have)
{
	while (have > 0) {
		ssize_t n = splice(slice->pipe[0], NULL, slice->file, NULL, have, SPLICE_F_MOVE);

		if (n > 0)
			have -= (size_t)n;
		else if (n == 0 || errno != EINTR)
			return fail_file(slice, n < 0 ? errno : EIO);
	}
	return true;
}

static ssize_t take_spliced(struct slice *slice)
{
	ssize_t n = splice(slice->socket, NULL, slice->pipe[1], NULL, step_of(slice, STEP),
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n > 0 && !empty_pipe(slice, (size_t)n))
		return FILE_FAILED;
	return n;
}

static ssize_t take_copied(struct slice *slice)
{
	ssize_t n = read(slice->socket, slice->room, step_of(slice, BOUNCE));

	if (n > 0 && fd_write_all(slice->file, slice->room, (size_t)n) != 0) {
		fail_file(slice, errno);
		return FILE_FAILED;
	}
	return n;
}

static void recv_slice(void *arg)
{
	struct slice *slice = arg;

	run_slice(slice, slice->pipe[0] >= 0 ? take_spliced : take_copied, POLLIN | POLLRDHUP);
}

// Between two slices other tasks run, and a cancellation is seen.
static fallible run_slices(struct stream *stream, struct slice *slice, bool is_out,
			   int64_t silence_ms)
{
	while (slice->left > 0) {
		slice->socket = stream->fd;
		slice->moved = 0;
		slice->waits = false;
		if (!is_out)
			stream->readable = false; // a later edge sets it again
		offload_run(is_out ? send_slice : recv_slice, slice);
		*(is_out ? &stream->bytes_out : &stream->bytes_in) += slice->moved;
		if (slice->errnum)
			return slice->of_file ? pump_explain(slice->errnum, "receive")
					      : stream_explain(slice->errnum,
							       is_out ? "send on" : "receive from");
		if (slice->ended)
			return is_out ? err_new(CONFLICT, "file_changed",
						"the file became shorter while it was sent")
				      : err_new(BAD_PEER, "cut_body",
						"the connection ended before the body did");
		if (slice->left > 0 && !slice->waits)
			TRY(task_sleep_until(0));
		else if (slice->left > 0)
			TRY(is_out ? stream_wait_writable(stream,
							  stream_silence_ends(stream, silence_ms))
				   : stream_wait_readable(stream,
							  stream_silence_ends(stream, silence_ms)));
	}
	return OK;
}

fallible pump_send(struct stream *stream, int file, uint64_t offset, uint64_t len,
		   int64_t silence_ms)
{
	struct slice slice = {.file = file, .offset = offset, .left = len};

	return run_slices(stream, &slice, true, silence_ms);
}

fallible pump_recv(struct stream *stream, int file, uint64_t len, int64_t silence_ms)
{
	struct slice slice = {.file = file, .left = len, .pipe = {-1, -1}};
	struct err *err;

	if (pipe2(slice.pipe, O_CLOEXEC) == 0)
		fcntl(slice.pipe[1], F_SETPIPE_SZ, STEP);
	else
		slice.room = mem_new(BOUNCE);
	err = run_slices(stream, &slice, false, silence_ms);
	// The worker stopped at the end of the body, not of the socket's data.
	stream->readable = true;
	free(slice.room);
	fd_drop(&slice.pipe[0]);
	fd_drop(&slice.pipe[1]);
	return err;
}

struct copy {
	int file;
	void *at;
	size_t len;
	uint64_t offset;
	int errnum;
};

static void pump_run_put(void *arg)
{
	struct copy *copy = arg;

	if (fd_write_all(copy->file, copy->at, copy->len) != 0)
		copy->errnum = errno;
}

fallible pump_put(int file, const void *bytes, size_t len)
{
	struct copy copy = {.file = file, .at = (void *)bytes, .len = len};

	offload_run(pump_run_put, &copy);
	return copy.errnum ? pump_explain(copy.errnum, "write") : OK;
}

static void pump_run_get(void *arg)
{
	struct copy *copy = arg;
	ssize_t n;

	do
		n = pread(copy->file, copy->at, copy->len, (off_t)copy->offset);
	while (n < 0 && errno == EINTR);
	copy->errnum = n < 0 ? errno : 0;
	copy->len = n < 0 ? 0 : (size_t)n;
}

fallible pump_get(int file, uint64_t offset, void *room, size_t size, size_t *out)
{
	struct copy copy = {.file = file, .at = room, .len = size, .offset = offset};

	offload_run(pump_run_get, &copy);
	if (copy.errnum)
		return pump_explain(copy.errnum, "read");
	*out = copy.len;
	return OK;
}

static void pump_measure(void *arg)
{
	struct copy *copy = arg;
	struct stat stat;

	copy->errnum = fstat(copy->file, &stat) != 0 ? errno : 0;
	copy->offset = copy->errnum ? 0 : (uint64_t)stat.st_size;
}

fallible pump_length(int file, uint64_t *out)
{
	struct copy copy = {.file = file};

	offload_run(pump_measure, &copy);
	if (copy.errnum)
		return pump_explain(copy.errnum, "measure");
	*out = copy.offset;
	return OK;
}

static void cut(void *arg)
{
	struct copy *copy = arg;
	off_t at = (off_t)copy->offset;

	if (ftruncate(copy->file, at) != 0 || lseek(copy->file, at, SEEK_SET) != at)
		copy->errnum = errno;
}

fallible pump_cut(int file, uint64_t at)
{
	struct copy copy = {.file = file, .offset = at};

	offload_run(cut, &copy);
	return copy.errnum ? pump_explain(copy.errnum, "cut") : OK;
}

uint64_t pump_room(int file)
{
	struct statfs fs;
	uint64_t mark, left;

	if (fstatfs(file, &fs) != 0)
		return UINT64_MAX;
	mark = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize / 40;
	mark = mark < SHORT ? mark : SHORT;
	left = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	return left > mark ? left - mark : 0;
}

bool pump_is_short(int file)
{
	return pump_room(file) == 0;
}

struct both {
	int from, to;
	uint64_t len;
	int errnum;
};

static void pump_copy_all(void *arg)
{
	struct both *both = arg;
	off_t at = 0;

	while ((uint64_t)at < both->len) {
		ssize_t n = sendfile(both->to, both->from, &at, both->len - (uint64_t)at);

		if (n == 0 || (n < 0 && errno != EINTR)) {
			both->errnum = n < 0 ? errno : EIO;
			return;
		}
	}
}

fallible pump_copy(int from, uint64_t len, int to)
{
	struct both both = {.from = from, .to = to, .len = len};

	offload_run(pump_copy_all, &both);
	return both.errnum ? pump_explain(both.errnum, "copy") : OK;
}
