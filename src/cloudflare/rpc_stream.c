// A stream to the client. Each write has a number, under which the client acknowledges it.
// Unacknowledged writes are in flight; at most WINDOW bytes and RPC_CONN_IN_FLIGHT_MAX writes are.
// A rejected write or the end of the connection makes further writes fail with CANCELLED.
#include <stdio.h>

#include "base/clock.h"
#include "cloudflare/rpc_conn.h"

#define WINDOW (256 * 1024)
#define PIECE (32 * 1024)

void rpc_conn_flow_init(struct rpc_conn_flow *flow, struct rpc_conn *conn)
{
	flow->conn = conn;
	condition_init(&flow->moved);
}

static void give_number(struct rpc_conn_flow *flow, int64_t id)
{
	for (size_t i = 0; i < flow->in_flight_count; i++)
		if (!flow->in_flight[i].id)
			flow->in_flight[i].id = id;
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
	give_number(flow, *out_id);
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
