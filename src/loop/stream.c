// The fd is added to epoll once, edge-triggered, for reading; for writing when a write first
// blocks. So a request on a kept connection costs one wait, one read and one write. An edge comes
// once, perhaps without a waiter: `readable` stores it until the kernel has nothing more. For TCP a
// short read says so as well; on a terminal or Unix socket only EAGAIN does. A hang-up is never
// cleared: it may come in the same edge as the last bytes. After SPREE_MAX bytes without a wait the
// task yields, so that a fast peer does not starve others. A box may hold a copy of a socket and
// clear O_NONBLOCK at any time: no call relies on that flag.
//
// syscalls: read recvfrom writev sendto sendmsg recvmsg close fcntl getsockopt setsockopt poll
// syscalls: ppoll
#include "loop/stream.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "loop/closer.h"
#include "os/fd.h"

#define SPREE_MAX (1024 * 1024)
#define PARTS_MAX 16

static void stream_on_ready(struct watch *watch, uint32_t events)
{
	struct stream *stream = link_of(watch, struct stream, watch);
	bool reset = events & (EPOLLHUP | EPOLLERR), hung_up = reset || events & EPOLLRDHUP;
	bool news = (reset && !stream->reset) || (hung_up && !stream->hung_up);

	stream->reset |= reset;
	stream->hung_up |= hung_up;
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		stream->readable = true;
		if (stream->reader)
			task_wake(stream->reader);
	}
	if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) && stream->writer)
		task_wake(stream->writer);
	if (news && stream->on_hangup)
		stream->on_hangup(stream);
}

fallible stream_open(struct stream *stream, struct loop *loop, int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);
	struct err *err = OK;

	*stream = (struct stream){
		.fd = fd, .loop = loop, .watch = {.fd = fd, .ready = stream_on_ready}};
	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0)
		stream->kind = protocol == IPPROTO_TCP ? STREAM_TCP
			       : protocol == 0	       ? STREAM_UNIX
						       : STREAM_SOCKET;
	if (fd_nonblock(fd, true) != 0)
		err = err_sys(errno, "make fd %d non-blocking", fd);
	else
		err = loop_watch(loop, &stream->watch, EPOLLIN | EPOLLRDHUP | EPOLLET);
	if (err && err_kind(err) == ERR_NOT_OFFERED) {
		stream->readable = true;
		err_free(take_ptr(err));
	}
	if (err)
		stream_close(stream);
	return err;
}

void stream_close(struct stream *stream)
{
	const struct linger linger = {.l_onoff = stream->aborted};

	if (stream->fd < 0 || !stream->loop)
		return;
	loop_unwatch(stream->loop, &stream->watch);
	// The opener may have set SO_LINGER so that close() waits for the peer, with or without
	// O_NONBLOCK; on with a time of 0 it resets.
	if (stream->kind == STREAM_TCP)
		setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	if (stream->kind == STREAM_UNIX) // passed descriptors may be unread in it
		closer_drop(&stream->fd);
	else
		fd_drop(&stream->fd);
	if (stream->reader)
		task_wake(stream->reader);
	if (stream->writer)
		task_wake(stream->writer);
}

static fallible closed(void)
{
	return err_new(BAD_PEER, "closed", "the connection was closed");
}

fallible stream_explain(int errnum, const char *what)
{
	switch (errnum) {
	case ECONNRESET:
	case EPIPE:
	case ENOTCONN:
	case ESHUTDOWN:
	case ECONNABORTED:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return err_new(BAD_PEER, "peer_gone", "the other side closed the connection");
	case EPROTO:
		return err_new(BAD_PEER, "bad_message",
			       "the other side broke the rules of the talk");
	default:
		return err_sys(errnum, "%s a stream", what);
	}
}

static fallible wait_in(struct stream *stream, int64_t deadline)
{
	struct err *err;

	assert(!stream->reader && "two readers of one stream");
	stream->spree = 0;
	stream->reader = task_current();
	err = task_park(deadline);
	stream->reader = NULL;
	if (!err && stream->fd < 0)
		return closed();
	return err;
}

static fallible wait_out(struct stream *stream, int64_t deadline)
{
	struct err *err;

	assert(!stream->writer && "two writers of one stream");
	TRY(loop_watch(stream->loop, &stream->watch, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET));
	stream->spree = 0;
	stream->writer = task_current();
	err = task_park(deadline);
	stream->writer = NULL;
	if (!err && stream->fd < 0)
		return closed();
	return err;
}

static fallible stream_breathe(struct stream *stream)
{
	if (stream->spree < SPREE_MAX)
		return OK;
	stream->spree = 0;
	TRY(task_sleep_until(0));
	return stream->fd < 0 ? closed() : OK;
}

static ssize_t stream_read_some(struct stream *stream, void *room, size_t size)
{
	if (stream->kind == STREAM_UNIX)
		return fd_recv_bytes(stream->fd, room, size, NULL, MSG_DONTWAIT);
	return stream->kind != STREAM_FILE ? recv(stream->fd, room, size, MSG_DONTWAIT)
					   : read(stream->fd, room, size);
}

fallible stream_read_now(struct stream *stream, void *room, size_t size, bool *out_empty,
			 size_t *out)
{
	while (stream->fd >= 0) {
		ssize_t n = stream_read_some(stream, room, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return stream_explain(errno, "read");
		*out_empty = n < 0;
		if (n < 0)
			n = 0;
		stream->bytes_in += (size_t)n;
		stream->spree += (uint32_t)n;
		if (*out_empty || (stream->kind == STREAM_TCP && (size_t)n < size))
			stream->readable = false;
		*out = (size_t)n;
		return OK;
	}
	return closed();
}

fallible stream_read(struct stream *stream, void *room, size_t size, int64_t deadline, size_t *out)
{
	bool empty = true;
	size_t n = 0;

	TRY(stream_breathe(stream));
	for (;;) {
		TRY(stream_read_now(stream, room, size, &empty, &n));
		if (!empty)
			break;
		TRY(wait_in(stream, deadline));
	}
	*out = n;
	return OK;
}

fallible stream_wait_readable(struct stream *stream, int64_t deadline)
{
	if (stream->fd < 0)
		return closed();
	return stream->readable || stream->hung_up ? OK : wait_in(stream, deadline);
}

// Edges during a write by another thread had no waiter: poll before the wait; later changes are new
// edges.
fallible stream_wait_writable(struct stream *stream, int64_t deadline)
{
	struct pollfd now = {.fd = stream->fd, .events = POLLOUT};

	if (stream->fd < 0)
		return closed();
	return poll(&now, 1, 0) > 0 ? OK : wait_out(stream, deadline);
}

static ssize_t write_parts(struct stream *stream, struct iovec *parts, int count)
{
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
	int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (stream->more_follows ? MSG_MORE : 0);

	if (stream->kind == STREAM_FILE)
		return writev(stream->fd, parts, count);
	if (count == 1)
		return send(stream->fd, parts->iov_base, parts->iov_len, flags);
	return sendmsg(stream->fd, &message, flags);
}

// Skips `done` bytes at the front of *parts.
static void stream_step(struct iovec **parts, int *count, size_t done)
{
	while (*count > 0 && done >= (*parts)->iov_len) {
		done -= (*parts)->iov_len;
		(*parts)++;
		(*count)--;
	}
	if (*count > 0) {
		(*parts)->iov_base = (char *)(*parts)->iov_base + done;
		(*parts)->iov_len -= done;
	}
}

int64_t stream_silence_ends(const struct stream *stream, int64_t silence_ms)
{
	return silence_ms == CLOCK_NEVER ? CLOCK_NEVER : loop_now(stream->loop) + silence_ms;
}

fallible stream_writev(struct stream *stream, struct iovec *parts, int count, int64_t silence_ms)
{
	stream_step(&parts, &count, 0); // empty ones at the front
	while (count > 0 && stream->fd >= 0) {
		ssize_t n;

		TRY(stream_breathe(stream));
		n = write_parts(stream, parts, count < PARTS_MAX ? count : PARTS_MAX);
		if (n >= 0) {
			stream->bytes_out += (size_t)n;
			stream->spree += (uint32_t)n;
			stream_step(&parts, &count, (size_t)n);
		} else if (errno == EAGAIN) {
			TRY(wait_out(stream, stream_silence_ends(stream, silence_ms)));
		} else if (errno != EINTR) {
			return stream_explain(errno, "write");
		}
	}
	return count > 0 ? closed() : OK;
}

fallible stream_write(struct stream *stream, const void *bytes, size_t len, int64_t silence_ms)
{
	struct iovec part = {.iov_base = (void *)bytes, .iov_len = len};

	return stream_writev(stream, &part, 1, silence_ms);
}

// `readable` may be stale: on a Unix socket only EAGAIN clears it, and a read that got everything
// ends before that.
static bool has_input(struct stream *stream)
{
	struct pollfd now = {.fd = stream->fd, .events = POLLIN};

	if (stream->readable && poll(&now, 1, 0) == 0)
		stream->readable = false;
	return stream->readable || stream->hung_up;
}

fallible stream_offer(struct stream *stream, const void *bytes, size_t len, int64_t deadline,
		      size_t *out)
{
	TRY(stream_breathe(stream));
	while (stream->fd >= 0) {
		struct iovec part = {.iov_base = (void *)bytes, .iov_len = len};
		ssize_t n = write_parts(stream, &part, 1);
		struct err *err;

		if (n >= 0) {
			stream->bytes_out += (size_t)n;
			stream->spree += (uint32_t)n;
			*out = (size_t)n;
			return OK;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return stream_explain(errno, "write");
		if (has_input(stream)) {
			*out = 0;
			return OK;
		}
		stream->reader = task_current();
		err = wait_out(stream, deadline);
		stream->reader = NULL;
		TRY(err);
	}
	return closed();
}

fallible stream_send(struct stream *stream, const void *bytes, size_t len, const int *fds,
		     int count, int64_t deadline)
{
	while (stream->fd >= 0) {
		ssize_t n = fd_send(stream->fd, bytes, len, fds, count, MSG_DONTWAIT);

		if (n >= 0) {
			stream->bytes_out += (size_t)n;
			return OK;
		}
		if (errno != EAGAIN)
			return stream_explain(errno, "send on");
		TRY(wait_out(stream, deadline));
	}
	return closed();
}

fallible stream_recv(struct stream *stream, void *room, size_t size, int *fds, int max_fds,
		     int *out_fds, size_t *out_len, int64_t deadline)
{
	TRY(stream_breathe(stream));
	while (stream->fd >= 0) {
		int count = max_fds;
		ssize_t n = fd_recv_any(stream->fd, room, size, fds, &count, MSG_DONTWAIT);

		if (n >= 0) {
			stream->bytes_in += (size_t)n;
			stream->spree += (uint32_t)n;
			*out_fds = count;
			*out_len = (size_t)n;
			return OK;
		}
		if (errno == ECONNRESET) {
			// The peer closed with unread messages of ours: for a message socket, its
			// normal end.
			*out_fds = 0;
			*out_len = 0;
			return OK;
		}
		if (errno != EAGAIN)
			return stream_explain(errno, "receive from");
		stream->readable = false;
		TRY(wait_in(stream, deadline));
	}
	return closed();
}
