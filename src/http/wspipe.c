// Two tasks copy between a stream and a WebSocket: the caller's reads messages, a second one reads
// the stream. The second task is always waited for. An empty message half-closes the TCP
// connection.
// syscalls: shutdown
#include "http/wspipe.h"

#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/mem.h"
#include "loop/task.h"

#define WRITE_MS (5 * 60 * 1000)

struct wspipe {
	struct wsock *ws;
	struct stream *stream;
	struct task *back; // NULL: ended
	struct condition over;
	bool said, heard; // our direction has ended; the peer's has
};

static fallible wspipe_copy_out(struct wspipe *pipe)
{
	auto_free char *room = mem_grow(NULL, WSPIPE_PIECE, 1);
	size_t n = 1;

	while (n) {
		TRY(stream_read(pipe->stream, room, WSPIPE_PIECE, CLOCK_NEVER, &n));
		TRY(wsock_send(pipe->ws, WSOCK_BINARY, (struct str){room, n}));
	}
	pipe->said = true;
	return OK;
}

static void wspipe_run_back(void *arg)
{
	struct wspipe *pipe = arg;
	auto_err err = wspipe_copy_out(pipe);

	if (err || pipe->heard)
		wsock_shut(pipe->ws, WS_NORMAL, "");
	pipe->back = NULL;
	condition_signal(&pipe->over);
}

static fallible wspipe_copy_in(struct wspipe *pipe)
{
	struct wsock_message message;

	for (;;) {
		TRY(wsock_recv(pipe->ws, CLOCK_NEVER, &message));
		if (message.kind == WSOCK_CLOSED)
			return OK;
		if (message.body.len) {
			TRY(stream_write(pipe->stream, message.body.at, message.body.len,
					 WRITE_MS));
			continue;
		}
		pipe->heard = true;
		shutdown(pipe->stream->fd, SHUT_WR);
		if (pipe->said)
			return OK;
	}
}

fallible wspipe_run(struct loop *loop, struct wsock *ws, struct stream *stream)
{
	struct wspipe pipe = {.ws = ws, .stream = stream};
	struct err *err;

	condition_init(&pipe.over);
	pipe.back = task_start(loop, "wspipe", wspipe_run_back, &pipe);
	err = wspipe_copy_in(&pipe);
	if (pipe.back)
		task_cancel(pipe.back);
	while (pipe.back)
		condition_await(&pipe.over);
	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	err_free(err); // a normal end
	return OK;
}
