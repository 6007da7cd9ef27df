// A stream from the client to a call. Up to LOW buffered bytes, a write is acknowledged at once;
// above, when the reader has caught up. If a client ignores the acknowledgements and fills the
// pipe, nothing more is read from its connection.
#include "base/clock.h"
#include "base/mem.h"
#include "cloudflare/rpc_conn.h"

#define LOW (256 * 1024)
#define FULL (4 << 20)
#define PIECE_MAX (16u << 20)
#define OWED_MAX 4096
#define FULL_MS 60000

struct rpc_pipe {
	struct rpc_conn_export export;
	struct buf bytes;
	struct memory_quota memory_quota;
	size_t at;     // bytes read so far
	int64_t *owed; // messages not acknowledged yet
	size_t owed_count;
	uint32_t holds;
	bool closed, aborted;
	struct condition moved;
};

static struct rpc_pipe *in_process_of(struct rpc_conn_export *export)
{
	return link_of(export, struct rpc_pipe, export);
}

static size_t rpc_pipe_filled(const struct rpc_pipe *pipe)
{
	return pipe->bytes.len - pipe->at;
}

fallible rpc_conn_pipe_open(struct rpc_conn *conn)
{
	struct rpc_pipe *pipe;
	struct err *err;

	if (conn->pipe_count >= RPC_CONN_PIPES_MAX)
		return err_new(EXHAUSTED, "bad_rpc", "too many streams are open");
	pipe = mem_new_of(struct rpc_pipe);
	err = rpc_conn_list(conn, &pipe->export, RPC_CONN_PIPE);
	if (err) {
		free(pipe);
		return err;
	}
	pipe->bytes = BUF_INIT(FULL + PIECE_MAX);
	pipe->holds = 1;
	memory_quota_join(&pipe->memory_quota, conn->x->memory_quota.share);
	conn->pipe_count++;
	condition_init(&pipe->moved);
	return OK;
}

void rpc_conn_pipe_drop(struct rpc_pipe *pipe)
{
	if (!pipe || --pipe->holds)
		return;
	buf_done(&pipe->bytes);
	memory_quota_drop(&pipe->memory_quota);
	pipe->export.conn->pipe_count--;
	free(pipe->owed);
	free(pipe);
}

struct rpc_pipe *rpc_conn_pipe_of(struct rpc_conn *conn, int64_t id)
{
	struct rpc_conn_export *export = rpc_conn_find(conn, id);
	struct rpc_pipe *pipe;

	if (!export || export->kind != RPC_CONN_PIPE)
		return NULL;
	pipe = in_process_of(export);
	pipe->holds++;
	return pipe;
}

void rpc_conn_pipe_stop(struct rpc_conn_export *export)
{
	struct rpc_pipe *pipe = in_process_of(export);

	pipe->aborted |= !pipe->closed;
	condition_signal(&pipe->moved);
}

void rpc_conn_pipe_release(struct rpc_conn_export *export)
{
	rpc_conn_pipe_stop(export);
	rpc_conn_pipe_drop(in_process_of(export));
}

static fallible rpc_pipe_acknowledge(struct rpc_conn *conn, int64_t id)
{
	auto_buf text = BUF_INIT(128);

	buf_fmt(&text, "[\"resolve\",%lld,[\"undefined\"]]", (long long)id);
	return rpc_conn_send(conn, &text);
}

static fallible rpc_pipe_settle(struct rpc_pipe *pipe)
{
	auto_free int64_t *owed = NULL;
	size_t count;

	if (rpc_pipe_filled(pipe) > LOW)
		return OK;
	owed = take_ptr(pipe->owed);
	count = pipe->owed_count;
	pipe->owed_count = 0;
	for (size_t i = 0; i < count; i++)
		TRY(rpc_pipe_acknowledge(pipe->export.conn, owed[i]));
	return OK;
}

static fallible rpc_pipe_add_piece(struct rpc_pipe *pipe, const struct json *args)
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

// Waits while the pipe is full. If the reader is gone nothing empties the pipe: the wait times out
// and the connection ends.
static fallible rpc_pipe_await_room(struct rpc_pipe *pipe)
{
	int64_t deadline = loop_now(task_loop()) + FULL_MS;

	while (rpc_pipe_filled(pipe) >= FULL && !pipe->aborted && !pipe->export.conn->over)
		TRY(condition_wait(&pipe->moved, deadline), "wait for the reader of a stream");
	return OK;
}

static fallible write_to(struct rpc_pipe *pipe, int64_t id, const struct json *args)
{
	TRY(rpc_pipe_await_room(pipe));
	if (pipe->aborted || pipe->closed)
		return rpc_conn_reject(pipe->export.conn, id, "OPERATION_INTERRUPTED",
				       "the stream is closed");
	if (pipe->at == pipe->bytes.len) {
		buf_clear(&pipe->bytes);
		pipe->at = 0;
	} else if (pipe->at > LOW) {
		buf_drop_front(&pipe->bytes, pipe->at);
		pipe->at = 0;
	}
	TRY(rpc_pipe_add_piece(pipe, args));
	TRY(memory_quota_hold(&pipe->memory_quota, pipe->bytes.room));
	condition_signal(&pipe->moved);
	if (rpc_pipe_filled(pipe) <= LOW)
		return rpc_pipe_acknowledge(pipe->export.conn, id);
	if (pipe->owed_count >= OWED_MAX)
		return err_new(EXHAUSTED, "bad_rpc", "too many writes are not acknowledged");
	pipe->owed = mem_grow(pipe->owed, pipe->owed_count + 1, sizeof(*pipe->owed));
	pipe->owed[pipe->owed_count++] = id;
	return OK;
}

static void auto_pipe_(struct rpc_pipe **pipe)
{
	rpc_conn_pipe_drop(*pipe);
}

fallible rpc_conn_pipe_take(struct rpc_conn_export *export, int64_t id, struct str verb,
			    const struct json *args)
{
	on_exit_call(auto_pipe_) struct rpc_pipe *pipe = in_process_of(export);

	pipe->holds++;
	if (str_is(verb, "write"))
		return write_to(pipe, id, args);
	if (str_is(verb, "close"))
		pipe->closed = true;
	else if (str_is(verb, "abort"))
		pipe->aborted = true;
	else
		return rpc_conn_reject(export->conn, id, "INTERNAL_ERROR",
				       "a stream has write, close and abort");
	condition_signal(&pipe->moved);
	return rpc_pipe_acknowledge(export->conn, id);
}

fallible rpc_conn_pipe_read(struct rpc_pipe *pipe, void *room, size_t size, size_t *out)
{
	while (!rpc_pipe_filled(pipe) && !pipe->closed && !pipe->aborted)
		TRY(condition_wait(&pipe->moved, CLOCK_NEVER));
	if (pipe->aborted)
		return err_new(CANCELLED, "client_gone", "the stream was aborted");
	if (size > rpc_pipe_filled(pipe))
		size = rpc_pipe_filled(pipe);
	if (size)
		memcpy(room, pipe->bytes.at + pipe->at, size);
	pipe->at += size;
	condition_signal(&pipe->moved);
	*out = size;
	return rpc_pipe_settle(pipe);
}
