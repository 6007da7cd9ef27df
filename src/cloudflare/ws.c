// HTTP requests multiplexed over a WebSocket, as JSON text frames in the format of Cloudflare's
// SDK. The body of a request is cut out of its message unparsed. A call is an in-process exchange
// whose reply becomes frames. An event stream: a "stream" frame for each event, then a "response"
// without a body. Any other reply: one "response" frame with the body, JSON as it is, other text as
// a string.
//
// A body up to KEPT is buffered first, so that a handler that fails midway sends only an error. A
// longer one is sent in fragments of one message while it is produced; meanwhile the other calls of
// this socket wait to send. Calls may outlive their socket: they reference the mux, which keeps the
// closed wsock.
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "cloudflare/forward.h"
#include "cloudflare/handlers.h"
#include "codec/json_part.h"
#include "codec/json_scan.h"
#include "codec/sse.h"
#include "codec/text.h"
#include "gateway/gateway.h"
#include "http/in_process.h"
#include "loop/offload.h"

#define WS_MUX_AT_ONCE 64		 // running calls
#define WS_MUX_WAITING_MAX 1024		 // calls that wait for a running one to end
#define WS_MUX_WAITING_BYTES (64u << 20) // bodies of waiting calls
#define KEPT (256 * 1024)
#define EVENT_MAX (8u << 20)
#define FRAME_HEAD 512

// A WebSocket that carries requests, and its running calls. Closing the socket cancels the calls.
struct ws_mux {
	int refs;
	struct wsock *ws;
	struct in_process_ask
		ask; // of every call: on behalf of the client, who may be gone by then
	struct who who;
	char *peer, *prefix;
	struct map *calls; // by id
	struct link running, waiting;
	uint32_t running_count, waiting_count;
	size_t waiting_bytes;
	size_t small_bytes; // sum of the bodies that are too small to be charged one by one
	struct memory_quota memory_quota;
	bool ended;
};

struct ws_mux_request {
	struct str id, method, path;
	const struct json *headers; // an object, or NULL
	struct str body;	    // JSON as it was sent; at == NULL: none
};

enum call_mode { CALL_SILENT, CALL_STREAM, CALL_JSON, CALL_TEXT };

struct call {
	struct ws_mux *mux;
	struct in_process *inner; // NULL once it has ended
	struct link link;	  // in running or waiting
	char *id;
	size_t id_len, bytes;
	bool is_running, is_cancelled;
	enum call_mode mode;
	bool in_pieces; // the message has begun
	int status;
	struct buf body;
	struct json_carry carry;
	struct sse_reader events;
};

static void ws_mux_drop(struct ws_mux *mux)
{
	if (--mux->refs > 0)
		return;
	wsock_unref(mux->ws);
	memory_quota_drop(&mux->memory_quota);
	map_free(mux->calls);
	free(mux->peer);
	free(mux->prefix);
	free(mux);
}

static struct str call_id(const struct call *call)
{
	return (struct str){call->id, call->id_len};
}

static size_t small_part(size_t bytes)
{
	return bytes <= MEMORY_QUOTA_SMALL ? bytes : 0;
}

static void call_free(struct call *call)
{
	struct ws_mux *mux = call->mux;

	link_drop(&call->link);
	if (call->is_running)
		mux->running_count--;
	else
		mux->waiting_count--;
	if (!call->is_running)
		mux->waiting_bytes -= call->bytes;
	if (map_get(mux->calls, call_id(call)) == call)
		map_take(mux->calls, call_id(call));
	mux->small_bytes -= small_part(call->bytes);
	memory_quota_move(&mux->memory_quota, mux->small_bytes);
	buf_done(&call->body);
	sse_done(&call->events);
	free(call->id);
	free(call);
	ws_mux_drop(mux);
}

static struct ws_mux *ws_mux_new(struct http *x, struct wsock *ws, const char *prefix)
{
	struct ws_mux *mux = mem_new_of(struct ws_mux);

	wsock_ref(ws);
	mux->refs = 1;
	mux->ws = ws;
	mux->who = *gateway_who(x);
	mux->peer = mem_dup(x->peer.at, x->peer.len);
	mux->prefix = mem_str(prefix);
	mux->ask = gateway_ask(x, (struct str){0}, (struct str){0});
	mux->ask.principal = &mux->who;
	mux->ask.peer = str_of(mux->peer);
	mux->ask.trace = (struct str){0};
	memory_quota_join(&mux->memory_quota, x->memory_quota.share);
	mux->calls = map_new();
	link_init(&mux->running);
	link_init(&mux->waiting);
	return mux;
}

static struct json_out begin_frame(struct buf *frame, const char *type, struct str id)
{
	struct json_out out = json_to(frame);

	json_begin(&out, '{');
	json_put_text(&out, "type", type);
	if (id.at)
		json_put_str(&out, "id", id);
	return out;
}

static fallible send_frame(struct ws_mux *mux, const struct buf *frame)
{
	if (!buf_ok(frame))
		return err_new(INTERNAL, "internal", "a frame did not fit");
	return wsock_send(mux->ws, WSOCK_TEXT, buf_view(frame));
}

// Sends {"type":"error"}; `id` at == NULL: unknown.
static fallible ws_mux_error(struct ws_mux *mux, struct str id, const char *code,
			     const char *message, int status)
{
	auto_buf frame = BUF_INIT(16 * 1024 + 8 * id.len);
	struct json_out out = begin_frame(&frame, "error", id);

	json_put_text(&out, "code", code);
	json_put_text(&out, "message", message);
	json_put_int(&out, "status", status);
	json_end(&out, '}');
	return send_frame(mux, &frame);
}

// {"type":"response","id":…,"status":N and, if a body follows, its key.
static void put_response(struct buf *frame, const struct call *call, bool has_body)
{
	struct json_out out = begin_frame(frame, "response", call_id(call));

	json_put_int(&out, "status", call->status);
	if (has_body)
		json_key(&out, "body");
	if (has_body && call->mode == CALL_TEXT)
		buf_char(frame, '"');
}

static void put_tail(struct buf *frame, const struct call *call, bool has_body)
{
	if (has_body && call->mode == CALL_TEXT)
		buf_char(frame, '"');
	buf_text(frame, ",\"done\":true}");
}

static fallible ws_mux_on_head(void *arg, const struct in_process_head *head)
{
	struct call *call = arg;

	call->status = head->status;
	if (str_starts(head->type, "text/event-stream"))
		call->mode = CALL_STREAM;
	else
		call->mode = str_starts(head->type, "application/json") ? CALL_JSON : CALL_TEXT;
	return OK;
}

static fallible ws_mux_send_events(struct call *call, struct str bytes)
{
	struct sse_event event;
	enum sse_verdict verdict;

	while ((verdict = sse_read(&call->events, &bytes, &event)) == SSE_EVENT) {
		auto_buf frame = BUF_INIT(FRAME_HEAD + 8 * (event.data.len + call->id_len) +
					  8 * event.event.len);
		struct json_out out = begin_frame(&frame, "stream", call_id(call));

		if (event.event.len)
			json_put_str(&out, "event", event.event);
		json_put_str(&out, "data", event.data);
		json_end(&out, '}');
		TRY(send_frame(call->mux, &frame));
	}
	return verdict == SSE_TOO_LARGE
		       ? err_new(TOO_LARGE, "event_too_large", "an event is too large")
		       : OK;
}

// The body exceeds KEPT: from here on it is sent as it is produced.
static fallible begin_pieces(struct call *call)
{
	auto_buf head = BUF_INIT(FRAME_HEAD + 8 * call->id_len);
	struct err *err;

	put_response(&head, call, true);
	TRY(wsock_begin(call->mux->ws, WSOCK_TEXT));
	call->in_pieces = true;
	err = wsock_piece(call->mux->ws, buf_view(&head));
	if (!err && call->body.len)
		err = wsock_piece(call->mux->ws, buf_view(&call->body));
	buf_clear(&call->body);
	return err;
}

static fallible send_text(struct call *call, struct str bytes)
{
	auto_buf text = BUF_INIT(64 + 6 * bytes.len);

	json_piece(&text, bytes.at, bytes.len, &call->carry);
	return text.len ? wsock_piece(call->mux->ws, buf_view(&text)) : OK;
}

static fallible ws_mux_on_bytes(void *arg, struct str bytes)
{
	struct call *call = arg;

	if (call->mode == CALL_STREAM)
		return ws_mux_send_events(call, bytes);
	if (!call->in_pieces && call->body.len + 6 * bytes.len > KEPT)
		TRY(begin_pieces(call));
	if (call->in_pieces)
		return call->mode == CALL_TEXT ? send_text(call, bytes)
					       : wsock_piece(call->mux->ws, bytes);
	if (call->mode == CALL_TEXT)
		json_piece(&call->body, bytes.at, bytes.len, &call->carry);
	else
		buf_str(&call->body, bytes);
	return OK;
}

static fallible send_response(struct call *call)
{
	bool has_body = call->mode != CALL_STREAM && call->body.len > 0;
	auto_buf frame = BUF_INIT(FRAME_HEAD + 8 * call->id_len + call->body.len);

	put_response(&frame, call, has_body);
	if (has_body)
		buf_str(&frame, buf_view(&call->body));
	put_tail(&frame, call, has_body);
	return send_frame(call->mux, &frame);
}

static fallible finish_pieces(struct call *call)
{
	auto_buf tail = BUF_INIT(FRAME_HEAD);
	struct err *err;

	if (call->mode == CALL_TEXT)
		json_piece(&tail, NULL, 0, &call->carry);
	put_tail(&tail, call, true);
	err = wsock_piece(call->mux->ws, buf_view(&tail));
	if (!err)
		return wsock_finish(call->mux->ws);
	wsock_abort(call->mux->ws);
	return err;
}

static fallible ws_mux_send_end(struct call *call, bool is_whole)
{
	if (call->in_pieces && is_whole)
		return finish_pieces(call);
	if (call->in_pieces) {
		wsock_abort(call->mux->ws); // an incomplete answer cannot be taken back
		return OK;
	}
	if (call->mode == CALL_TEXT)
		json_piece(&call->body, NULL, 0, &call->carry);
	if (is_whole || (call->is_cancelled && call->mode == CALL_STREAM))
		return send_response(call);
	if (call->is_cancelled)
		return ws_mux_error(call->mux, call_id(call), "OPERATION_INTERRUPTED",
				    "the request was cancelled", 409);
	return ws_mux_error(call->mux, call_id(call),
			    call->mode == CALL_STREAM ? "STREAM_ERROR" : "INTERNAL_ERROR",
			    "the answer was cut", 500);
}

static void ws_mux_start_waiting(struct ws_mux *mux);

static void ws_mux_on_end(void *arg, bool is_whole)
{
	struct call *call = arg;
	struct ws_mux *mux = call->mux;

	call->inner = NULL;
	// The id is free from here on: the client may reuse it as soon as it has the answer.
	if (map_get(mux->calls, call_id(call)) == call)
		map_take(mux->calls, call_id(call));
	if (!mux->ended || call->in_pieces)
		err_free(ws_mux_send_end(call, is_whole)); // the client may be gone
	mux->refs++;
	call_free(call);
	ws_mux_start_waiting(mux);
	ws_mux_drop(mux);
}

static const struct in_process_calls calls = {
	.head = ws_mux_on_head, .bytes = ws_mux_on_bytes, .end = ws_mux_on_end};

static void ws_mux_start_waiting(struct ws_mux *mux)
{
	list_each (at, &mux->waiting) {
		struct call *call = link_of(at, struct call, link);

		if (mux->ended || mux->running_count >= WS_MUX_AT_ONCE)
			return;
		link_drop(&call->link);
		mux->waiting_count--;
		mux->waiting_bytes -= call->bytes;
		link_add(&mux->running, &call->link);
		call->is_running = true;
		mux->running_count++;
		in_process_start(call->inner, "ws.call");
	}
}

static size_t read_headers(const struct json *headers, struct http1_field *fields, size_t max)
{
	struct str name, value;
	struct json *member;
	size_t count = 0;

	for (size_t at = 0; headers && count < max && json_next(headers, &at, &name, &member);) {
		auto_err err = json_str(member, "headers", &value);

		// Content-Length is that of the received body; Content-Type is passed separately.
		if (err || !member || str_eq_nocase(name, STR("Content-Length")) ||
		    str_eq_nocase(name, STR("Content-Type")))
			continue;
		fields[count++] = (struct http1_field){name, value};
	}
	return count;
}

static struct in_process *make_inner(struct ws_mux *mux, const struct ws_mux_request *request,
				     struct call *call)
{
	auto_free struct http1_field *fields = mem_new(HTTP1_FIELDS_MAX * sizeof(*fields));
	auto_buf target = BUF_INIT(HTTP1_HEAD_MAX);
	struct in_process_ask ask = mux->ask;

	ask.method = request->method;
	ask.body = request->body;
	ask.fields = fields;
	ask.field_count = read_headers(request->headers, fields, HTTP1_FIELDS_MAX - 2);
	buf_text(&target, mux->prefix);
	buf_str(&target, request->path);
	ask.target = buf_ok(&target) ? buf_view(&target) : STR("");
	return in_process_new(&ask, &calls, call);
}

// Serves it now or when its turn comes. INVALID bad_request: its id is in use; EXHAUSTED
// too_many_requests, too_much_at_once.
static fallible ws_mux_ask(struct ws_mux *mux, const struct ws_mux_request *request)
{
	struct call *call;

	if (map_get(mux->calls, request->id))
		return err_new(INVALID, "bad_request", "a request of this id is under way");
	if (mux->waiting_count >= WS_MUX_WAITING_MAX ||
	    mux->waiting_bytes + request->body.len > WS_MUX_WAITING_BYTES)
		return err_new(EXHAUSTED, "too_many_requests", "too many requests are waiting");
	TRY(memory_quota_hold(&mux->memory_quota,
			      mux->small_bytes + small_part(request->body.len)));
	mux->small_bytes += small_part(request->body.len);
	call = mem_new_of(struct call);
	mux->refs++;
	call->mux = mux;
	call->id = mem_dup(request->id.at, request->id.len);
	call->id_len = request->id.len;
	call->bytes = request->body.len;
	call->body = BUF_INIT(2 * KEPT);
	call->events = SSE_READER(EVENT_MAX);
	call->inner = make_inner(mux, request, call);
	map_put(mux->calls, request->id, call);
	link_add(&mux->waiting, &call->link);
	mux->waiting_count++;
	mux->waiting_bytes += call->bytes;
	ws_mux_start_waiting(mux);
	return OK;
}

static void ws_mux_cancel(struct ws_mux *mux, struct str id)
{
	struct call *call = map_get(mux->calls, id);

	if (!call)
		return;
	call->is_cancelled = true;
	if (call->is_running) {
		in_process_cancel(call->inner);
		return;
	}
	in_process_discard(call->inner);
	err_free(ws_mux_error(mux, id, "OPERATION_INTERRUPTED", "the request was cancelled", 409));
	call_free(call);
}

// The socket has closed: running calls are cancelled, waiting ones are dropped. Calls that have not
// ended yet keep their own reference.
static void ws_mux_end(struct ws_mux *mux)
{
	mux->ended = true;
	list_each (at, &mux->waiting) {
		struct call *call = link_of(at, struct call, link);

		in_process_discard(call->inner);
		call_free(call);
	}
	list_each (at, &mux->running) {
		struct call *call = link_of(at, struct call, link);

		call->is_cancelled = true;
		if (call->inner)
			in_process_cancel(call->inner);
	}
	ws_mux_drop(mux);
}

// ------------------------------------------------------------------------------ messages

#define AROUND_MAX (64 * 1024) // a message without its body
#define LARGE (256 * 1024)

static fallible ws_bad(struct ws_mux *mux, struct str id, const char *why)
{
	return ws_mux_error(mux, id, "INVALID_REQUEST", why, 400);
}

static struct str ws_word(const struct json *json, const char *key)
{
	struct str text = {NULL, 0};
	auto_err err = json_str(json_get(json, key), key, &text);

	return err ? (struct str){NULL, 0} : text;
}

static bool ws_is_method(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] < 'A' || text.at[i] > 'Z')
			return false;
	return text.len && text.len <= 16;
}

static fallible take_request(struct ws_mux *mux, const struct json *json, struct str body)
{
	struct ws_mux_request request = {
		.id = ws_word(json, "id"),
		.method = ws_word(json, "method"),
		.path = ws_word(json, "path"),
		.headers = json_get(json, "headers"),
		.body = str_is(body, "null") ? (struct str){NULL, 0} : body,
	};
	auto_err err = OK;

	if (!request.id.at)
		return ws_bad(mux, request.id, "a request needs an 'id'");
	if (!ws_is_method(request.method) || !request.path.len || request.path.at[0] != '/')
		return ws_bad(mux, request.id, "a request needs a 'method' and a 'path'");
	if (request.headers && json_type(request.headers) != JSON_OBJECT)
		return ws_bad(mux, request.id, "'headers' must be an object");
	err = ws_mux_ask(mux, &request);
	if (!err)
		return OK;
	if (err_kind(err) == ERR_EXHAUSTED)
		return ws_mux_error(mux, request.id, "RESOURCE_BUSY", err_message(err), 429);
	return ws_bad(mux, request.id, err_message(err));
}

struct look {
	struct str text;
	bool is_json, has_parts;
	struct buf around;
	struct str body;
};

static void look_done(struct look *look)
{
	buf_done(&look->around);
}

static void look_run(void *arg)
{
	struct look *look = arg;
	struct json_scan scan;

	look->is_json = json_scan(look->text, &scan);
	look->has_parts = look->is_json &&
			  json_part(scan.value, "body", &look->around, &look->body) &&
			  buf_ok(&look->around);
}

static fallible take_message(struct ws_mux *mux, const struct wsock_message *message)
{
	on_exit_call(look_done) struct look look = {.text = message->body,
						    .around = BUF_INIT(AROUND_MAX)};
	auto_json json = NULL;
	auto_err err = OK;
	struct str type;

	// A large message is scanned in a worker thread, so that the loop serves others meanwhile.
	if (message->kind == WSOCK_TEXT && message->body.len > LARGE)
		offload_run(look_run, &look);
	else if (message->kind == WSOCK_TEXT)
		look_run(&look);
	if (!look.is_json)
		return ws_mux_error(mux, (struct str){NULL, 0}, "PARSE_ERROR",
				    "the message is not JSON", 400);
	if (!look.has_parts)
		return ws_bad(mux, (struct str){NULL, 0}, "the message is not a request");
	err = json_read(buf_view(&look.around), &json);
	if (err)
		return ws_mux_error(mux, (struct str){NULL, 0}, "PARSE_ERROR", err_message(err),
				    400);
	type = ws_word(json, "type");
	if (str_is(type, "request"))
		return take_request(mux, json, look.body);
	if (!str_is(type, "cancel"))
		return ws_bad(mux, ws_word(json, "id"), "the message is not a request");
	ws_mux_cancel(mux, ws_word(json, "id"));
	return OK;
}

static fallible ws_listen_to(struct ws_mux *mux, struct wsock *ws)
{
	for (;;) {
		struct wsock_message message;

		TRY(wsock_recv(ws, CLOCK_NEVER, &message));
		if (message.kind == WSOCK_CLOSED)
			return OK;
		TRY(take_message(mux, &message));
	}
}

static fallible ws_talk(struct http *x, struct wsock *ws, void *arg)
{
	struct ws_mux *mux = ws_mux_new(x, ws, arg);
	struct err *err = ws_listen_to(mux, ws);

	ws_mux_end(mux);
	return err;
}

fallible cloudflare_ws(struct http *x)
{
	return bridge_upgrade(x, ws_talk);
}
