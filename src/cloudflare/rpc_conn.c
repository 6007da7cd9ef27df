// An RPC connection: its export table, messages to the client, and streams in both directions. A
// number is used once and never again. rpc.c frees the exports, because it knows their kinds.
//
// A stream to the client: each write has a number, under which the client acknowledges it. At most
// WINDOW bytes and RPC_CONN_IN_FLIGHT_MAX writes are in flight. A rejected write or the end of the
// connection makes further writes fail with CANCELLED. A stream from the client: up to LOW buffered
// bytes, a write is acknowledged at once; above, when the reader has caught up. If a client ignores
// the acknowledgements and fills the pipe, nothing more is read from its connection.
#include "cloudflare/rpc_conn.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"

#define MESSAGE_MAX (64 * 1024)

static struct str key_of(const int64_t *id)
{
	return (struct str){(const char *)id, sizeof(*id)};
}

struct rpc_conn *rpc_conn_new(struct http *x, struct wsock *ws, const char *base)
{
	struct rpc_conn *conn = mem_new_of(struct rpc_conn);

	conn->x = x;
	conn->ws = ws;
	conn->base = base;
	conn->exports = map_new();
	link_init(&conn->calls);
	condition_init(&conn->ended);
	return conn;
}

struct rpc_conn_export *rpc_conn_find(const struct rpc_conn *conn, int64_t id)
{
	return map_get(conn->exports, key_of(&id));
}

fallible rpc_conn_list(struct rpc_conn *conn, struct rpc_conn_export *export,
		       enum rpc_conn_kind kind)
{
	if (map_count(conn->exports) >= RPC_CONN_EXPORTS_MAX)
		return err_new(EXHAUSTED, "too_many_exports", "too many results were not released");
	export->conn = conn;
	export->kind = kind;
	export->id = ++conn->last_export;
	export->listed = true;
	map_put(conn->exports, key_of(&export->id), export);
	return OK;
}

void rpc_conn_unlist(struct rpc_conn_export *export)
{
	map_take(export->conn->exports, key_of(&export->id));
	export->listed = false;
}

void rpc_conn_free(struct rpc_conn *conn)
{
	map_free(conn->exports);
	free(conn);
}

fallible rpc_conn_send(struct rpc_conn *conn, const struct buf *message)
{
	if (!buf_ok(message))
		return err_new(INTERNAL, "internal", "a message did not fit");
	return wsock_send(conn->ws, WSOCK_TEXT, buf_view(message));
}

void rpc_conn_begin_reject(struct json_out *out, int64_t id, struct str code, struct str message)
{
	json_begin(out, '[');
	json_add_text(out, "reject");
	json_add_int(out, id);
	json_begin(out, '[');
	json_add_text(out, "error");
	json_add_text(out, "Error");
	json_add_str(out, message);
	json_add_null(out);
	json_begin(out, '{');
	json_put_str(out, "code", code);
}

fallible rpc_conn_send_reject(struct rpc_conn *conn, struct json_out *out)
{
	json_end(out, '}');
	json_end(out, ']');
	json_end(out, ']');
	return rpc_conn_send(conn, out->buf);
}

fallible rpc_conn_reject(struct rpc_conn *conn, int64_t id, const char *code, const char *message)
{
	auto_buf text = BUF_INIT(MESSAGE_MAX);
	struct json_out out = json_to(&text);

	rpc_conn_begin_reject(&out, id, str_of(code), str_of(message));
	json_key(&out, "details");
	json_add_raw(&out, STR("{}"));
	return rpc_conn_send_reject(conn, &out);
}

// ------------------------------------------------------------------------- to the client

#define WINDOW (256 * 1024)
#define PIECE (32 * 1024)

void rpc_conn_flow_init(struct rpc_conn_flow *flow, struct rpc_conn *conn)
{
	flow->conn = conn;
	condition_init(&flow->moved);
}

// Sends a message that uses up a number. The number is assigned when the socket is ours to write,
// so that both sides count alike, and stored before the wait in which the answer may arrive.
static fallible send_numbered(struct rpc_conn_flow *flow, const struct buf *text, int64_t *out_id)
{
	struct wsock *ws = flow->conn->ws;
	struct err *err;

	if (!buf_ok(text))
		return err_new(INTERNAL, "internal", "a message did not fit");
	TRY(wsock_begin(ws, WSOCK_TEXT));
	*out_id = ++flow->conn->last_import;
	for (size_t i = 0; i < flow->in_flight_count; i++)
		if (!flow->in_flight[i].id)
			flow->in_flight[i].id = *out_id;
	err = wsock_piece(ws, buf_view(text));
	if (err) {
		wsock_abort(ws);
		return err;
	}
	return wsock_finish(ws);
}

fallible rpc_conn_flow_open(struct rpc_conn_flow *flow)
{
	auto_buf text = BUF_INIT(16);

	buf_text(&text, "[\"pipe\"]");
	return send_numbered(flow, &text, &flow->pipe);
}

static fallible await_window(struct rpc_conn_flow *flow)
{
	while ((flow->in_flight_bytes >= WINDOW ||
		flow->in_flight_count == RPC_CONN_IN_FLIGHT_MAX) &&
	       !flow->refused && !flow->conn->over)
		TRY(condition_wait(&flow->moved, CLOCK_NEVER));
	if (flow->refused || flow->conn->over)
		return err_new(CANCELLED, "client_gone", "the client closed the stream");
	return OK;
}

// ["stream",["pipeline",N,[path],[argument]]]; `argument` is a value, or empty.
static fallible send_to(struct rpc_conn_flow *flow, int64_t target, const char *path,
			struct str argument)
{
	auto_buf text = BUF_INIT(argument.len + 256);
	int64_t id;

	TRY(await_window(flow));
	buf_fmt(&text, "[\"stream\",[\"pipeline\",%lld,[%s],[", (long long)target, path);
	buf_str(&text, argument);
	buf_text(&text, "]]]");
	flow->in_flight[flow->in_flight_count].id = 0;
	flow->in_flight[flow->in_flight_count++].size = text.len;
	flow->in_flight_bytes += text.len;
	return send_numbered(flow, &text, &id);
}

static fallible send_verb(struct rpc_conn_flow *flow, const char *verb, struct str argument)
{
	char path[32];

	snprintf(path, sizeof(path), "\"%s\"", verb);
	return send_to(flow, flow->pipe, path, argument);
}

fallible rpc_conn_flow_call(struct rpc_conn_flow *flow, int64_t function, struct str argument)
{
	return send_to(flow, function, "", argument);
}

fallible rpc_conn_flow_drain(struct rpc_conn_flow *flow)
{
	while (flow->in_flight_count && !flow->refused && !flow->conn->over)
		TRY(condition_wait(&flow->moved, CLOCK_NEVER));
	return OK;
}

fallible rpc_conn_flow_write(struct rpc_conn_flow *flow, struct str bytes)
{
	while (bytes.len) {
		auto_buf text = BUF_INIT(2 * PIECE);
		struct json_out out = json_to(&text);
		size_t len = bytes.len < PIECE ? bytes.len : PIECE;

		rpc_put_bytes(&out, bytes.at, len);
		TRY(send_verb(flow, "write", buf_view(&text)));
		bytes = str_skip(bytes, len);
	}
	return OK;
}

fallible rpc_conn_flow_close(struct rpc_conn_flow *flow, bool is_whole)
{
	auto_buf text = BUF_INIT(64);

	if (!flow->refused && is_whole)
		TRY(send_verb(flow, "close", STR("")));
	else if (!flow->refused)
		TRY(send_verb(flow, "abort",
			      STR("[\"error\",\"Error\",\"the stream was cut short\"]")));
	buf_fmt(&text, "[\"release\",%lld,1]", (long long)flow->pipe);
	return rpc_conn_send(flow->conn, &text);
}

bool rpc_conn_flow_answered(struct rpc_conn_flow *flow, int64_t id, bool accepted)
{
	for (size_t i = 0; i < flow->in_flight_count; i++) {
		if (flow->in_flight[i].id != id)
			continue;
		flow->in_flight_bytes -= flow->in_flight[i].size;
		flow->in_flight[i] = flow->in_flight[--flow->in_flight_count];
		flow->refused |= !accepted;
		condition_signal(&flow->moved);
		return true;
	}
	return false;
}

// ----------------------------------------------------------------------- from the client

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
