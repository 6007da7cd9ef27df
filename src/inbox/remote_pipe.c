// The client writes at a pace that our acknowledgements give it. Up to LOW bytes it is told at once
// to go on; above that only when the reader has caught up. A client that does not care fills the
// pipe, and then nothing more is read from its connection.
#include "base/clock.h"
#include "base/mem.h"
#include "inbox/remote.h"

#define LOW (256 * 1024)
#define FULL (4 << 20)
#define PIECE_MAX (16u << 20)
#define OWED_MAX 4096
#define FULL_MS 60000

struct remote_pipe {
	struct remote_export export;
	struct buf bytes;
	struct hoard hoard;
	size_t at;     // of the bytes, read so far
	int64_t *owed; // messages that were not acknowledged yet
	size_t owed_count;
	uint32_t holds;
	bool closed, aborted;
	struct bell moved;
};

static struct remote_pipe *inner_of(struct remote_export *export)
{
	return link_of(export, struct remote_pipe, export);
}

static size_t filled(const struct remote_pipe *pipe)
{
	return pipe->bytes.len - pipe->at;
}

fallible remote_pipe_open(struct remote *remote)
{
	struct remote_pipe *pipe;
	struct err *err;

	if (remote->pipe_count >= REMOTE_PIPES_MAX)
		return err_new(EXHAUSTED, "bad_rpc", "there are too many streams at once");
	pipe = mem_new_of(struct remote_pipe);
	err = remote_list(remote, &pipe->export, REMOTE_PIPE);
	if (err) {
		free(pipe);
		return err;
	}
	pipe->bytes = BUF_INIT(FULL + PIECE_MAX);
	pipe->holds = 1;
	hoard_join(&pipe->hoard, remote->x->hoard.share);
	remote->pipe_count++;
	bell_init(&pipe->moved);
	return OK;
}

void remote_pipe_drop(struct remote_pipe *pipe)
{
	if (!pipe || --pipe->holds)
		return;
	buf_done(&pipe->bytes);
	hoard_drop(&pipe->hoard);
	pipe->export.remote->pipe_count--;
	free(pipe->owed);
	free(pipe);
}

struct remote_pipe *remote_pipe_of(struct remote *remote, int64_t id)
{
	struct remote_export *export = remote_find(remote, id);
	struct remote_pipe *pipe;

	if (!export || export->kind != REMOTE_PIPE)
		return NULL;
	pipe = inner_of(export);
	pipe->holds++;
	return pipe;
}

void remote_pipe_stop(struct remote_export *export)
{
	struct remote_pipe *pipe = inner_of(export);

	pipe->aborted |= !pipe->closed;
	bell_ring(&pipe->moved);
}

void remote_pipe_release(struct remote_export *export)
{
	remote_pipe_stop(export);
	remote_pipe_drop(inner_of(export));
}

static fallible remote_pipe_acknowledge(struct remote *remote, int64_t id)
{
	auto_buf text = BUF_INIT(128);

	buf_fmt(&text, "[\"resolve\",%lld,[\"undefined\"]]", (long long)id);
	return remote_send(remote, &text);
}

static fallible remote_pipe_settle(struct remote_pipe *pipe)
{
	auto_free int64_t *owed = NULL;
	size_t count;

	if (filled(pipe) > LOW)
		return OK;
	owed = take_ptr(pipe->owed);
	count = pipe->owed_count;
	pipe->owed_count = 0;
	for (size_t i = 0; i < count; i++)
		TRY(remote_pipe_acknowledge(pipe->export.remote, owed[i]));
	return OK;
}

static fallible remote_pipe_add_piece(struct remote_pipe *pipe, const struct json *args)
{
	struct rpc_value value = {0};
	struct str text = {0};

	if (!args || json_count(args) != 1)
		return err_new(INVALID, "bad_rpc", "a write has one argument");
	TRY(rpc_value(json_at(args, 0), &value));
	if (value.type == RPC_BYTES) {
		if (!rpc_bytes(value.text, &pipe->bytes))
			return err_new(INVALID, "bad_rpc", "bytes are not base64, or too many");
		return OK;
	}
	if (value.type != RPC_PLAIN || !value.plain || json_type(value.plain) != JSON_STRING)
		return err_new(INVALID, "bad_rpc", "a stream takes bytes");
	TRY(json_str(value.plain, "write", &text));
	buf_str(&pipe->bytes, text);
	return OK;
}

// Nothing more is taken while it is full. The reader may be gone: then it is emptied by nobody, and
// the connection ends.
static fallible remote_pipe_await_room(struct remote_pipe *pipe)
{
	int64_t deadline = loop_now(task_loop()) + FULL_MS;

	while (filled(pipe) >= FULL && !pipe->aborted && !pipe->export.remote->over)
		TRY(bell_wait(&pipe->moved, deadline), "wait for the reader of a stream");
	return OK;
}

static fallible write_to(struct remote_pipe *pipe, int64_t id, const struct json *args)
{
	TRY(remote_pipe_await_room(pipe));
	if (pipe->aborted || pipe->closed)
		return remote_reject(pipe->export.remote, id, "OPERATION_INTERRUPTED",
				     "the stream is closed");
	if (pipe->at == pipe->bytes.len) {
		buf_clear(&pipe->bytes);
		pipe->at = 0;
	} else if (pipe->at > LOW) {
		buf_drop_front(&pipe->bytes, pipe->at);
		pipe->at = 0;
	}
	TRY(remote_pipe_add_piece(pipe, args));
	TRY(hoard_hold(&pipe->hoard, pipe->bytes.room));
	bell_ring(&pipe->moved);
	if (filled(pipe) <= LOW)
		return remote_pipe_acknowledge(pipe->export.remote, id);
	if (pipe->owed_count >= OWED_MAX)
		return err_new(EXHAUSTED, "bad_rpc", "too many writes are not acknowledged");
	pipe->owed = mem_grow(pipe->owed, pipe->owed_count + 1, sizeof(*pipe->owed));
	pipe->owed[pipe->owed_count++] = id;
	return OK;
}

static void auto_pipe_(struct remote_pipe **pipe)
{
	remote_pipe_drop(*pipe);
}

fallible remote_pipe_take(struct remote_export *export, int64_t id, struct str verb,
			  const struct json *args)
{
	on_exit_call(auto_pipe_) struct remote_pipe *pipe = inner_of(export);

	pipe->holds++;
	if (str_is(verb, "write"))
		return write_to(pipe, id, args);
	if (str_is(verb, "close"))
		pipe->closed = true;
	else if (str_is(verb, "abort"))
		pipe->aborted = true;
	else
		return remote_reject(export->remote, id, "INTERNAL_ERROR",
				     "a stream has write, close and abort");
	bell_ring(&pipe->moved);
	return remote_pipe_acknowledge(export->remote, id);
}

fallible remote_pipe_read(struct remote_pipe *pipe, void *room, size_t size, size_t *out)
{
	while (!filled(pipe) && !pipe->closed && !pipe->aborted)
		TRY(bell_wait(&pipe->moved, CLOCK_NEVER));
	if (pipe->aborted)
		return err_new(CANCELLED, "client_gone", "the stream was aborted");
	if (size > filled(pipe))
		size = filled(pipe);
	if (size)
		memcpy(room, pipe->bytes.at + pipe->at, size);
	pipe->at += size;
	bell_ring(&pipe->moved);
	*out = size;
	return remote_pipe_settle(pipe);
}
