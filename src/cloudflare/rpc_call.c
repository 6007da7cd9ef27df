// A call runs as an in-process exchange in its own task. Calls start in order of arrival, with a
// limit on running ones. A call that waits for its pull does not count as running: clients push all
// calls before they pull the first. A plain answer is sent in pieces as it is produced; an answer
// that must be rewritten, and every error, is buffered first. A stream is a pipe of ours: we write,
// the client acknowledges, and at most one window is in flight.
//
// The events of a cell become calls of the client's functions, one for each event, in order. The
// functions are released only after every call was answered, so that no call names a released
// number.
#include "base/clock.h"
#include "base/mem.h"
#include "cloudflare/rpc_conn.h"
#include "cloudflare/sse_filter.h"
#include "codec/sse.h"
#include "codec/text.h"

// Delivers the events of a cell to functions of the client. Flow control is that of a stream: a
// slow client delays the cell's events.
struct callback {
	struct sse_reader reader;
	struct rpc_conn_flow *flow;
	const int64_t *functions; // RPC_TABLE_FUNCTIONS entries; 0: the client gave none
};

#define EVENT_MAX (20u << 20)

static void put_text(struct json_out *out, const struct json *event)
{
	json_key(out, "text");
	rpc_put(out, json_get(event, "text"));
	json_put_int(out, "timestamp", clock_wall_ms());
}

static void callback_put_result(struct json_out *out, const struct json *event)
{
	struct json *member;
	struct str key;

	for (size_t at = 0; json_next(event, &at, &key, &member);) {
		if (str_is(key, "type"))
			continue;
		json_key(out, key.at);
		rpc_put(out, member);
	}
}

static void callback_put_error(struct json_out *out, const struct json *event)
{
	static const char *const names[][2] = {
		{"name", "ename"}, {"message", "evalue"}, {"traceback", "traceback"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		json_key(out, names[i][0]);
		rpc_put(out, json_get(event, names[i][1]));
	}
}

// In the order of rpc_table_request.functions.
static const struct {
	const char *type;
	void (*put)(struct json_out *out, const struct json *event);
} kinds[RPC_TABLE_FUNCTIONS] = {{"stdout", put_text},
				{"stderr", put_text},
				{"result", callback_put_result},
				{"error", callback_put_error}};

static fallible callback_send(struct callback *callback, struct str data)
{
	auto_buf text = BUF_INIT(2 * EVENT_MAX);
	struct json_out out = json_to(&text);
	struct str type = {0};
	auto_json event = NULL;
	size_t kind = 0;

	TRY(json_read_any(data, &event));
	TRY(json_str(json_get(event, "type"), "type", &type));
	while (kind < RPC_TABLE_FUNCTIONS && !str_is(type, kinds[kind].type))
		kind++;
	if (kind == RPC_TABLE_FUNCTIONS || !callback->functions[kind])
		return OK;
	json_begin(&out, '{');
	kinds[kind].put(&out, event);
	json_end(&out, '}');
	if (!buf_ok(&text))
		return err_new(INTERNAL, "internal", "an event did not fit");
	return rpc_conn_flow_call(callback->flow, callback->functions[kind], buf_view(&text));
}

// Takes more bytes of the event stream. Waits while too many calls are unanswered.
static fallible callback_pass(struct callback *callback, struct str bytes)
{
	struct sse_event event;

	for (;;) {
		switch (sse_read(&callback->reader, &bytes, &event)) {
		case SSE_MORE:
			return OK;
		case SSE_TOO_LARGE:
			return err_new(INTERNAL, "internal", "an event did not fit");
		case SSE_EVENT:
			TRY(callback_send(callback, event.data));
		}
	}
}

// The stream is complete. Waits until the client has answered every call.
static fallible callback_end(struct callback *callback)
{
	auto_buf text = BUF_INIT(64);

	TRY(rpc_conn_flow_drain(callback->flow));
	for (size_t i = 0; i < RPC_TABLE_FUNCTIONS; i++) {
		if (!callback->functions[i])
			continue;
		buf_clear(&text);
		buf_fmt(&text, "[\"release\",%lld,1]", (long long)callback->functions[i]);
		TRY(rpc_conn_send(callback->flow->conn, &text));
	}
	return OK;
}

#define GATHER_MAX (1 << 20)
#define PIECE (32 * 1024) // piece of a plain answer
#define ROOM_MS 10000	  // longest wait for room for another body

struct call {
	struct rpc_conn_export export;
	struct link link; // in conn->calls
	struct in_process *inner;
	const struct rpc_table *row;
	struct rpc_table_request request;
	struct rpc_pipe *source; // UPLOAD
	uint64_t uploaded;
	bool pulled, running;
	bool waits;	       // its exchange has not started
	bool at_work;	       // counted in conn->at_work
	size_t bytes;	       // size of its body
	bool begun, has_bytes; // a message has begun, in pieces
	int status;
	struct buf gathered;
	struct rpc_wrapper wrapper;
	char *fault; // why the call could not be made; NULL: it could
	struct rpc_conn_flow flow;
	struct sse_filter filter;
	struct callback callback;
	struct buf out; // the next message
};

static struct call *call_of(struct rpc_conn_export *export)
{
	return link_of(export, struct call, export);
}

static void rpc_call_let_go(struct call *call)
{
	if (call->running || call->export.listed)
		return;
	rpc_conn_pipe_drop(call->source);
	rpc_table_done(&call->request);
	buf_done(&call->gathered);
	buf_done(&call->out);
	free(call->fault);
	free(call);
}

static bool is_stream(const struct call *call)
{
	enum rpc_table_shape shape = call->request.shape;

	return shape == RPC_TABLE_STREAM || shape == RPC_TABLE_EVENTS || shape == RPC_TABLE_LOGS ||
	       shape == RPC_TABLE_DOWNLOAD;
}

static fallible rpc_call_unwanted(void)
{
	return err_new(CANCELLED, "client_gone", "the client released the answer");
}

static bool is_wanted(const struct call *call)
{
	return call->export.listed && !call->flow.refused && !call->export.conn->over;
}

static void set_at_work(struct call *call, bool at_work)
{
	struct rpc_conn *conn = call->export.conn;

	conn->at_work += (uint32_t)at_work - (uint32_t)call->at_work;
	call->at_work = at_work;
}

// A call that reads a stream of the client starts at once: the stream would fill up without its
// reader.
static bool may_start(const struct call *call)
{
	const struct rpc_conn *conn = call->export.conn;

	return call->source ||
	       (conn->at_work < RPC_CONN_CALLS_MAX && conn->started < RPC_CONN_STARTED_MAX);
}

static void rpc_call_start(struct call *call)
{
	struct rpc_conn *conn = call->export.conn;

	call->waits = false;
	conn->waiting_bytes -= call->bytes;
	conn->started++;
	set_at_work(call, true);
	in_process_start(call->inner, "rpc");
}

static void rpc_call_start_waiting(struct rpc_conn *conn)
{
	list_each (at, &conn->calls) {
		struct call *call = link_of(at, struct call, link);

		if (call->waits && may_start(call))
			rpc_call_start(call);
	}
	condition_signal(&conn->ended);
}

static fallible await_pull(struct call *call)
{
	struct err *err = OK;

	if (!call->pulled && is_wanted(call) && call->at_work) {
		set_at_work(call, false);
		rpc_call_start_waiting(call->export.conn);
		while (!err && !call->pulled && is_wanted(call))
			err = condition_wait(&call->flow.moved, CLOCK_NEVER);
		set_at_work(call, true);
		TRY(err);
	}
	while (!call->pulled && is_wanted(call))
		TRY(condition_wait(&call->flow.moved, CLOCK_NEVER));
	return call->pulled && !call->export.conn->over ? OK : rpc_call_unwanted();
}

static void put_download(struct call *call, struct json_out *out,
			 const struct in_process_head *head)
{
	auto_buf path = BUF_INIT(8192);
	struct str rest = str_skip(buf_view(&call->request.target), strlen("/api/files")), coded;
	char c;

	str_cut(&rest, '?', &coded);
	if (rest.at)
		coded = str_skip(coded, 1); // the path was relative
	while (text_percent_next(&coded, &c))
		buf_char(&path, c);
	json_begin(out, '{');
	json_put_bool(out, "success", true);
	json_put_str(out, "path", buf_view(&path));
	json_put_begin(out, "content", '[');
	json_add_text(out, "readable");
	json_add_int(out, call->flow.pipe);
	json_end(out, ']');
	json_put_int(out, "size", (int64_t)head->length);
	json_put_str(out, "mimeType", head->type);
	gateway_put_now(out);
	json_end(out, '}');
}

static fallible open_stream(struct call *call, const struct in_process_head *head)
{
	auto_buf text = BUF_INIT(32 * 1024);
	struct json_out out = json_to(&text);

	TRY(rpc_conn_flow_open(&call->flow));
	json_begin(&out, '[');
	json_add_text(&out, "resolve");
	json_add_int(&out, call->export.id);
	if (call->request.shape == RPC_TABLE_DOWNLOAD) {
		put_download(call, &out, head);
	} else {
		json_begin(&out, '[');
		json_add_text(&out, "readable");
		json_add_int(&out, call->flow.pipe);
		json_end(&out, ']');
	}
	json_end(&out, ']');
	return rpc_conn_send(call->export.conn, &text);
}

static fallible open_plain(struct call *call)
{
	auto_buf text = BUF_INIT(128);

	buf_fmt(&text, "[\"resolve\",%lld,", (long long)call->export.id);
	TRY(wsock_begin(call->export.conn->ws, WSOCK_TEXT));
	call->begun = true;
	return wsock_piece(call->export.conn->ws, buf_view(&text));
}

static bool is_good(const struct call *call)
{
	return call->status >= 200 && call->status < 300;
}

static fallible rpc_call_on_head(void *arg, const struct in_process_head *head)
{
	struct call *call = arg;

	call->status = head->status;
	TRY(await_pull(call));
	if (!is_good(call))
		return OK;
	if (is_stream(call))
		return open_stream(call, head);
	return call->request.shape == RPC_TABLE_PLAIN ? open_plain(call) : OK;
}

static fallible pass_stream(struct call *call, struct str bytes)
{
	struct err *err;

	if (call->request.shape != RPC_TABLE_EVENTS && call->request.shape != RPC_TABLE_LOGS)
		return rpc_conn_flow_write(&call->flow, bytes);
	sse_filter_add(&call->filter, bytes, &call->out);
	if (!buf_ok(&call->out))
		return err_new(INTERNAL, "internal", "an event did not fit");
	err = rpc_conn_flow_write(&call->flow, buf_view(&call->out));
	buf_clear(&call->out);
	return err;
}

static fallible pass_plain(struct call *call, struct str bytes)
{
	call->has_bytes |= bytes.len > 0;
	while (bytes.len) {
		struct str part = {bytes.at, bytes.len < PIECE ? bytes.len : PIECE};
		struct err *err;

		rpc_wrap(&call->wrapper, &call->out, part);
		if (!buf_ok(&call->out))
			return err_new(INTERNAL, "internal", "an answer did not fit");
		err = wsock_piece(call->export.conn->ws, buf_view(&call->out));
		buf_clear(&call->out);
		TRY(err);
		bytes = str_skip(bytes, part.len);
	}
	return OK;
}

static fallible rpc_call_on_bytes(void *arg, struct str bytes)
{
	struct call *call = arg;

	if (is_good(call) && is_stream(call))
		return pass_stream(call, bytes);
	if (is_good(call) && call->request.shape == RPC_TABLE_CALLS)
		return callback_pass(&call->callback, bytes);
	if (call->begun)
		return pass_plain(call, bytes);
	buf_str(&call->gathered, bytes);
	return OK;
}

static fallible rpc_call_on_read(void *arg, void *room, size_t size, size_t *out)
{
	struct call *call = arg;

	if (call->export.conn->over)
		return rpc_call_unwanted();
	TRY(rpc_conn_pipe_read(call->source, room, size, out));
	call->uploaded += *out;
	return OK;
}

static fallible rpc_call_reject(struct call *call)
{
	auto_buf text = BUF_INIT(2 * GATHER_MAX);
	struct json_out out = json_to(&text);
	struct str code = STR("INTERNAL_ERROR"), message = STR("the call was cut short");
	auto_json json = NULL;

	if (call->fault)
		message = str_of(call->fault);
	err_free(json_read(buf_view(&call->gathered), &json));
	if (json && json_type(json) == JSON_OBJECT) {
		err_free(json_str(json_get(json, "code"), "code", &code));
		err_free(json_str(json_get(json, "message"), "message", &message));
	}
	rpc_conn_begin_reject(&out, call->export.id, code, message);
	json_key(&out, "details");
	if (json && json_get(json, "context"))
		rpc_put(&out, json_get(json, "context"));
	else
		json_add_raw(&out, STR("{}"));
	if (json && json_get(json, "hint")) {
		json_key(&out, "hint");
		rpc_put(&out, json_get(json, "hint"));
	}
	return rpc_conn_send_reject(call->export.conn, &out);
}

static void put_changed(struct call *call, struct json_out *out, const struct json *json)
{
	struct json *member;
	struct str key;
	size_t at = 0;

	if (call->request.shape == RPC_TABLE_PICK) {
		rpc_put(out, json_get(json, call->row->pick));
		return;
	}
	json_begin(out, '{');
	while (json_next(json, &at, &key, &member)) {
		bool sessions = call->request.shape == RPC_TABLE_SESSIONS && str_is(key, "data");

		if (str_is(key, "bytesWritten"))
			continue;
		json_key(out, sessions ? "sessions" : key.at);
		rpc_put(out, member);
	}
	if (call->request.shape == RPC_TABLE_WRITTEN)
		json_put_int(out, "bytesWritten", (int64_t)call->request.written);
	if (call->request.shape == RPC_TABLE_UPLOAD)
		json_put_int(out, "bytesWritten", (int64_t)call->uploaded);
	json_end(out, '}');
}

static fallible resolve_changed(struct call *call)
{
	auto_buf text = BUF_INIT(4 * GATHER_MAX);
	struct json_out out = json_to(&text);
	auto_json json = NULL;

	TRY(json_read(buf_view(&call->gathered), &json));
	json_begin(&out, '[');
	json_add_text(&out, "resolve");
	json_add_int(&out, call->export.id);
	put_changed(call, &out, json);
	json_end(&out, ']');
	return rpc_conn_send(call->export.conn, &text);
}

static fallible resolve_nothing(struct call *call)
{
	auto_buf text = BUF_INIT(128);

	TRY(callback_end(&call->callback));
	buf_fmt(&text, "[\"resolve\",%lld,[\"undefined\"]]", (long long)call->export.id);
	return rpc_conn_send(call->export.conn, &text);
}

static fallible end_stream(struct call *call, bool is_whole)
{
	sse_filter_end(&call->filter, &call->out);
	if (is_whole)
		TRY(rpc_conn_flow_write(&call->flow, buf_view(&call->out)));
	return rpc_conn_flow_close(&call->flow, is_whole);
}

static fallible rpc_call_finish(struct call *call, bool is_whole)
{
	struct wsock *ws = call->export.conn->ws;

	if (call->begun && !is_whole) {
		wsock_abort(ws);
		return OK;
	}
	if (call->begun) {
		struct err *err = wsock_piece(ws, call->has_bytes ? STR("]") : STR("null]"));

		if (err)
			wsock_abort(ws);
		return err ? err : wsock_finish(ws);
	}
	if (call->flow.pipe)
		return end_stream(call, is_whole);
	TRY(await_pull(call));
	if (is_whole && is_good(call) && call->request.shape == RPC_TABLE_CALLS)
		return resolve_nothing(call);
	return is_whole && is_good(call) ? resolve_changed(call) : rpc_call_reject(call);
}

// The call has ended: frees all but its number.
static void rpc_call_forget(struct call *call)
{
	struct rpc_conn *conn = call->export.conn;

	// The client may keep the number as long as it likes; the memory behind it is freed now.
	sse_done(&call->callback.reader);
	rpc_table_done(&call->request);
	buf_done(&call->gathered);
	buf_done(&call->out);
	call->running = false;
	link_drop(&call->link);
	conn->call_count--;
	condition_signal(&conn->ended);
	rpc_call_let_go(call);
}

// Drops a call that has not started.
static void rpc_call_discard(struct call *call)
{
	call->waits = false;
	call->export.conn->waiting_bytes -= call->bytes;
	in_process_discard(take_ptr(call->inner));
	rpc_call_forget(call);
}

static void rpc_call_on_end(void *arg, bool is_whole)
{
	struct call *call = arg;
	struct rpc_conn *conn = call->export.conn;

	if (call->inner)
		conn->started--;
	call->inner = NULL;
	if (!conn->over)
		err_free(rpc_call_finish(call, is_whole));
	else if (call->begun)
		wsock_abort(conn->ws);
	set_at_work(call, false);
	if (!conn->over)
		rpc_call_start_waiting(conn);
	rpc_call_forget(call);
}

static void refuse_task(void *arg)
{
	rpc_call_on_end(arg, false);
}

// Makes the call's exchange and starts it, now or when its turn comes.
static void rpc_call_run(struct call *call)
{
	struct rpc_conn *conn = call->export.conn;
	struct http *x = conn->x;
	auto_free char *target = mem_fmt("%s%s", conn->base, call->request.target.at);
	struct in_process_calls calls = {
		.read = call->source ? rpc_call_on_read : NULL,
		.head = rpc_call_on_head,
		.bytes = rpc_call_on_bytes,
		.end = rpc_call_on_end,
	};
	struct in_process_ask ask = gateway_ask(x, str_of(call->request.method), str_of(target));

	ask.type = call->source ? "application/octet-stream" : NULL;
	ask.body = call->request.has_body ? buf_view(&call->request.body) : (struct str){0};
	call->filter.names = call->request.shape == RPC_TABLE_EVENTS;
	call->filter.drop = call->request.shape == RPC_TABLE_LOGS ? "process_info" : NULL;
	call->inner = in_process_new(&ask, &calls, call);
	buf_done(&call->request.body);
	call->waits = true;
	conn->waiting_bytes += call->bytes;
	if (may_start(call))
		rpc_call_start(call);
}

// Waits until waiting bodies leave room for this one. Running calls end without the client's help,
// so this wait ends.
static fallible rpc_call_await_room(struct rpc_conn *conn, size_t bytes)
{
	int64_t deadline = loop_now(task_loop()) + ROOM_MS;

	while (conn->waiting_bytes && conn->waiting_bytes + bytes > RPC_CONN_WAITING_BYTES) {
		auto_err err = condition_wait(&conn->ended, deadline);

		if (err && err_kind(err) == ERR_TIMEOUT)
			return err_new(EXHAUSTED, "RESOURCE_BUSY", "too many calls wait");
		if (err)
			return take_ptr(err);
	}
	return OK;
}

static fallible rpc_call_prepare(struct call *call, struct str object, struct str name,
				 const struct json *args)
{
	struct rpc_conn *conn = call->export.conn;

	call->row = rpc_table_find(object, name);
	if (!call->row || !args)
		return err_new(NOT_FOUND, "UNKNOWN_ERROR", "there is no such method");
	if (conn->call_count > RPC_CONN_WAITING_MAX)
		return err_new(EXHAUSTED, "RESOURCE_BUSY", "too many calls wait");
	TRY(rpc_table_write(call->row, args, &call->request));
	call->bytes = call->request.body.len;
	TRY(rpc_call_await_room(conn, call->bytes));
	if (call->request.shape != RPC_TABLE_UPLOAD)
		return OK;
	call->source = rpc_conn_pipe_of(conn, call->request.pipe);
	return call->source ? OK : err_new(INVALID, "bad_rpc", "there is no such stream");
}

static void note_fault(struct call *call, const struct err *err)
{
	bool named = err_reason(err)[0] >= 'A' && err_reason(err)[0] <= 'Z';

	call->fault = mem_str(err_message(err));
	buf_fmt(&call->gathered, "{\"code\":\"%s\"}",
		named ? err_reason(err) : "VALIDATION_FAILED");
}

fallible rpc_conn_call_start(struct rpc_conn *conn, struct str object, struct str name,
			     const struct json *args)
{
	struct call *call;
	struct err *err;

	if (conn->call_count >= 2 * RPC_CONN_WAITING_MAX)
		return err_new(EXHAUSTED, "bad_rpc", "too many answers were not pulled");
	call = mem_new_of(struct call);
	err = rpc_conn_list(conn, &call->export, RPC_CONN_CALL);
	if (err) {
		free(call);
		return err;
	}
	call->gathered = BUF_INIT(GATHER_MAX);
	call->out = BUF_INIT(4 << 20);
	rpc_conn_flow_init(&call->flow, conn);
	call->callback = (struct callback){.reader = SSE_READER(EVENT_MAX),
					   .flow = &call->flow,
					   .functions = call->request.functions};
	call->running = true;
	link_add(&conn->calls, &call->link);
	conn->call_count++;
	err = rpc_call_prepare(call, object, name, args);
	if (err) {
		note_fault(call, err);
		err_free(err);
		task_start(gateway_of(conn->x)->loop, "rpc", refuse_task, call);
	} else {
		rpc_call_run(call);
	}
	return OK;
}

void rpc_conn_call_pull(struct rpc_conn_export *export)
{
	struct call *call = call_of(export);

	call->pulled = true;
	condition_signal(&call->flow.moved);
}

void rpc_conn_call_answered(struct rpc_conn *conn, int64_t id, bool accepted)
{
	list_each (at, &conn->calls) {
		struct call *call = link_of(at, struct call, link);

		if (!rpc_conn_flow_answered(&call->flow, id, accepted))
			continue;
		if (!accepted && call->inner)
			in_process_cancel(call->inner);
		return;
	}
}

void rpc_conn_call_cancel_all(struct rpc_conn *conn)
{
	list_each (at, &conn->calls) {
		struct call *call = link_of(at, struct call, link);

		condition_signal(&call->flow.moved);
		if (call->waits)
			rpc_call_discard(call);
		else if (call->inner)
			in_process_cancel(call->inner);
	}
}

// A stream that the client released before its pull is cancelled. A command is not: it runs on.
void rpc_conn_call_release(struct rpc_conn_export *export)
{
	struct call *call = call_of(export);

	condition_signal(&call->flow.moved);
	if (call->waits && is_stream(call) && !call->pulled) {
		rpc_call_discard(call);
		return;
	}
	if (call->running && call->inner && !call->waits && is_stream(call) && !call->pulled)
		in_process_cancel(call->inner);
	rpc_call_let_go(call);
}
