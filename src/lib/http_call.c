// HTTP exchanges: complete ones, streamed ones, and event streams of JSON objects. API errors
// become cove_error. A connection goes back to the client's pool only if its reply was read to the
// end. Replies have a size limit. A read that timed out loses nothing: the next call goes on. The
// id of the last event is kept for resuming.
#include "lib/http_call.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lib/fields.h"

#define REFUSAL_MAX (1 << 20)
#define EVENT_MAX ((size_t)16 << 20) // the daemon's events are far smaller

fallible http_call_take(struct cove *cove, struct http_client **out)
{
	if (cove->idle_count > 0) {
		*out = cove->idle[--cove->idle_count];
		return OK;
	}
	return http_client_open(cove->loop, str_of(cove->url), str_of(cove->token), out);
}

void http_call_give(struct cove *cove, struct http_client *http)
{
	if (cove->idle_count < PRIVATE_IDLE_MAX)
		cove->idle[cove->idle_count++] = http;
	else
		http_client_free(http);
}

static enum err_kind http_call_kind_of(int status)
{
#define X(kind, word, http, exit, retry)                                                           \
	if (status == http)                                                                        \
		return ERR_##kind;
	ERR_KINDS(X)
#undef X
	return status >= 500 ? ERR_BAD_PEER : ERR_INVALID;
}

static fallible lib_http_call_refusal(struct cove *cove, int status, const struct json *reply)
{
	const char *reason = fields_text(reply, "reason"), *message = fields_text(reply, "message");
	const char *hint = fields_text(reply, "hint");
	auto_free char *words = NULL;

	snprintf(cove->code, sizeof(cove->code), "%s", fields_text(reply, "code"));
	cove->status = status;
	cove->told_retry = reply && json_get(reply, "retryable");
	cove->retryable = fields_flag(reply, "retryable");
	// Errors of the server are not internal errors of this library: keep only the message.
	if (!*reason)
		reason = "refused";
	else if (strcmp(reason, "internal") == 0)
		reason = "failed";
	if (!*message) {
		words = mem_fmt("the daemon answered with status %d and no error message", status);
		message = words;
	}
	if (!*hint && status == 401)
		hint = "put the daemon's key into COVE_TOKEN";
	return err_from(http_call_kind_of(status), reason, message, *hint ? hint : NULL);
}

fallible http_call_refusal(struct cove *cove, int status, struct str text)
{
	auto_json reply = NULL;
	auto_err malformed = json_read(text, &reply);
	bool is_ours = !malformed && json_type(reply) == JSON_OBJECT;
	struct err *err = lib_http_call_refusal(cove, status, is_ours ? reply : NULL);

	json_free(cove->refusal);
	cove->refusal = is_ours ? take_ptr(reply) : NULL;
	return err;
}

fallible http_call_accept(struct cove *cove, struct http_client *http, int status)
{
	auto_buf text = BUF_INIT(REFUSAL_MAX);

	if (status >= 200 && status < 300)
		return OK;
	TRY(http_client_body(http, &text), "read a refusal");
	return http_call_refusal(cove, status, buf_view(&text));
}

struct asking {
	struct cove *cove;
	struct http_client *http;
	const char *method, *path, *key;
	struct str body;
	struct buf *reply;
};

static fallible http_call_exchange(void *arg)
{
	struct asking *a = arg;
	int status = 0;

	if (a->key)
		http_client_header(a->http, "Idempotency-Key", str_of(a->key));
	TRY(http_client_ask(a->http, a->method, a->path, a->body, &status), "%s %s", a->method,
	    a->path);
	TRY(http_call_accept(a->cove, a->http, status));
	TRY(http_client_body(a->http, a->reply), "read the reply");
	if (!buf_ok(a->reply))
		return err_new(TOO_LARGE, "reply_too_large", "the reply is too large");
	return OK;
}

fallible http_call_text(struct cove *cove, const char *method, const char *path, const char *key,
			const struct buf *body, struct buf *reply)
{
	auto_buf own = BUF_INIT(PRIVATE_REPLY_MAX);
	struct asking a = {.cove = cove,
			   .method = method,
			   .path = path,
			   .key = key,
			   .reply = reply ? reply : &own};
	struct err *err;

	if (body && !buf_ok(body))
		return err_new(TOO_LARGE, "request_too_large", "the request is too large");
	if (body)
		a.body = (struct str){body->at ? body->at : "", body->len};
	TRY(http_call_take(cove, &a.http));
	err = private_wait(cove, PRIVATE_DEFAULT, http_call_exchange, &a);
	// An error reply that was read leaves the connection reusable too.
	if (err && !cove->status)
		http_client_free(a.http);
	else
		http_call_give(cove, a.http);
	return err;
}

fallible http_call_object(struct str text, struct json **out)
{
	auto_json json = NULL;
	auto_err malformed = json_read_any(text, &json);

	if (malformed || json_type(json) != JSON_OBJECT)
		return err_new(BAD_PEER, "bad_reply", "the daemon's answer is not a JSON object");
	*out = take_ptr(json);
	return OK;
}

fallible http_call_json(struct cove *cove, const char *method, const char *path,
			const struct buf *body, struct json **out)
{
	auto_buf text = BUF_INIT(PRIVATE_REPLY_MAX);

	TRY(http_call_text(cove, method, path, NULL, body, &text));
	return http_call_object(buf_view(&text), out);
}

enum cove_kind cove_ask(struct cove *cove, const char *method, const char *path, const void *body,
			size_t body_len, char **out_reply, size_t *out_len,
			struct cove_error *error)
{
	auto_buf reply = BUF_INIT(PRIVATE_REPLY_MAX);
	struct buf sent = {.at = (char *)(uintptr_t)body, .len = body_len};
	struct err *err;

	private_begin(cove);
	err = http_call_text(cove, method, path, NULL, body ? &sent : NULL, &reply);
	if (err)
		return private_end(cove, err, error);
	if (out_len)
		*out_len = reply.len;
	if (out_reply)
		*out_reply = reply.at ? buf_take(&reply) : mem_str("");
	return COVE_OK;
}

struct moving {
	struct cove_request *request;
	const void *from;
	void *to;
	size_t len;
};

static fallible lib_request_begin(void *arg)
{
	struct cove_request *r = ((struct moving *)arg)->request;

	if (r->range[0])
		http_client_header(r->http, "Range", str_of(r->range));
	if (r->last_event[0])
		http_client_header(r->http, "Last-Event-ID", str_of(r->last_event));
	if (r->wants_events)
		http_client_header(r->http, "Accept", STR("text/event-stream"));
	if (r->type)
		return http_client_begin(r->http, r->method, r->path, r->type);
	TRY(http_client_ask(r->http, r->method, r->path, r->body, &r->status), "%s %s", r->method,
	    r->path);
	return http_call_accept(r->cove, r->http, r->status);
}

fallible request_begin(struct cove_request *r)
{
	struct moving moving = {.request = r};

	TRY(http_call_take(r->cove, &r->http));
	TRY(private_wait(r->cove, PRIVATE_DEFAULT, lib_request_begin, &moving));
	r->finished = !r->type;
	return OK;
}

static fallible write_piece(void *arg)
{
	struct moving *m = arg;

	return http_client_write(m->request->http, m->from, m->len);
}

fallible request_write(struct cove_request *r, const void *bytes, size_t len)
{
	struct moving moving = {.request = r, .from = bytes, .len = len};

	if (r->finished || r->broken)
		return err_new(INVALID, "bad_state", "the request body is already finished");
	r->broken = true; // an incomplete chunk cannot be taken back
	TRY(private_wait(r->cove, PRIVATE_DEFAULT, write_piece, &moving));
	r->broken = false;
	return OK;
}

static fallible lib_request_finish(void *arg)
{
	struct cove_request *r = ((struct moving *)arg)->request;

	TRY(http_client_finish(r->http, &r->status));
	return http_call_accept(r->cove, r->http, r->status);
}

fallible request_finish(struct cove_request *r)
{
	struct moving moving = {.request = r};

	if (r->finished)
		return OK;
	if (r->broken)
		return err_new(INVALID, "bad_state", "the request failed earlier");
	r->finished = true;
	return private_wait(r->cove, PRIVATE_DEFAULT, lib_request_finish, &moving);
}

static fallible read_piece(void *arg)
{
	struct moving *m = arg;

	return http_client_read(m->request->http, m->to, m->len, &m->len);
}

fallible request_read(struct cove_request *r, void *room, size_t size, int64_t timeout_ms,
		      size_t *out)
{
	struct moving moving = {.request = r, .to = room, .len = size};

	if (!r->finished)
		return err_new(INVALID, "bad_state", "finish the request first");
	if (r->ended || size == 0) {
		*out = 0;
		return OK;
	}
	TRY(private_wait(r->cove, timeout_ms, read_piece, &moving));
	r->ended = moving.len == 0;
	*out = moving.len;
	return OK;
}

fallible request_body(struct cove_request *r, struct buf *out)
{
	size_t n = 1;

	while (n > 0) {
		char *room = buf_space(out, 64 * 1024);

		if (!room)
			return err_new(TOO_LARGE, "reply_too_large", "the reply is too large");
		TRY(request_read(r, room, 64 * 1024, PRIVATE_DEFAULT, &n));
		buf_grew(out, n);
	}
	return OK;
}

int request_fd(const struct cove_request *r)
{
	return r->http ? http_client_fd(r->http) : -1;
}

void request_done(struct cove_request *r)
{
	if (r->http && r->ended)
		http_call_give(r->cove, r->http);
	else
		http_client_free(r->http);
	r->http = NULL;
}

enum cove_kind cove_request_open(struct cove *cove, const char *method, const char *path,
				 const char *type, struct cove_request **out,
				 struct cove_error *error)
{
	struct cove_request *r = mem_new_of(struct cove_request);
	struct err *err;

	private_begin(cove);
	r->cove = cove;
	r->own_method = mem_str(method);
	r->own_path = mem_str(path);
	r->own_type = type ? mem_str(type) : NULL;
	r->method = r->own_method;
	r->path = r->own_path;
	r->type = r->own_type;
	err = request_begin(r);
	if (err) {
		cove_request_free(r);
		return private_end(cove, err, error);
	}
	*out = r;
	return COVE_OK;
}

enum cove_kind cove_request_write(struct cove_request *request, const void *bytes, size_t len,
				  struct cove_error *error)
{
	return private_call(request->cove, request_write(request, bytes, len), error);
}

enum cove_kind cove_request_finish(struct cove_request *request, struct cove_error *error)
{
	return private_call(request->cove, request_finish(request), error);
}

enum cove_kind cove_request_read(struct cove_request *request, void *room, size_t size,
				 size_t *out_len, struct cove_error *error)
{
	return private_call(request->cove,
			    request_read(request, room, size, PRIVATE_DEFAULT, out_len), error);
}

void cove_request_free(struct cove_request *request)
{
	if (!request)
		return;
	request_done(request);
	free(request->own_method);
	free(request->own_path);
	free(request->own_type);
	free(request);
}

fallible event_reader_open(struct event_reader *sse, struct cove *cove, const char *method,
			   const char *path, struct str body, const char *last_id)
{
	*sse = (struct event_reader){
		.request = {.cove = cove,
			    .method = method,
			    .path = path,
			    .body = body,
			    .wants_events = true},
		.reader = SSE_READER(EVENT_MAX),
		.room = mem_new(EVENT_READER_ROOM),
		.open = true,
	};
	snprintf(sse->id, sizeof(sse->id), "%s", last_id);
	snprintf(sse->request.last_event, sizeof(sse->request.last_event), "%s", last_id);
	TRY(request_begin(&sse->request));
	return OK;
}

fallible event_reader_resume(struct event_reader *sse, struct cove *cove, const char *path,
			     const char *last_id, int64_t deadline)
{
	for (int i = 0; !sse->open; i++) {
		struct err *err = event_reader_open(sse, cove, "GET", path, (struct str){0},
						    last_id);

		if (!err)
			return OK;
		event_reader_close(sse);
		if (!*last_id || i == HTTP_CALL_RETRIES || !private_is_lost(cove, err))
			return err;
		err_free(err);
		private_begin(cove);
		if (deadline - clock_ms() < HTTP_CALL_RETRY_MS)
			return err_new(TIMEOUT, "timeout", "the call timed out");
		if (private_rest(cove, HTTP_CALL_RETRY_MS))
			return err_new(CANCELLED, "cancelled", "the call was cancelled");
	}
	return OK;
}

void event_reader_close(struct event_reader *sse)
{
	if (!sse->open)
		return;
	request_done(&sse->request);
	sse_done(&sse->reader);
	free(sse->room);
	sse->open = false;
}

int event_reader_fd(const struct event_reader *sse)
{
	return sse->open ? request_fd(&sse->request) : -1;
}

// Parses the next event of the buffered bytes; false: more must be read.
static fallible lib_event_reader_take(struct event_reader *sse, bool *found, struct json **out)
{
	struct sse_event event;

	while (sse->left.len) {
		switch (sse_read(&sse->reader, &sse->left, &event)) {
		case SSE_MORE:
			break;
		case SSE_TOO_LARGE:
			return err_new(BAD_PEER, "bad_event",
				       "the daemon sent an event that is too large");
		case SSE_EVENT:
			if (event.id.len)
				snprintf(sse->id, sizeof(sse->id), STR_FMT, STR_ARG(event.id));
			snprintf(sse->type, sizeof(sse->type), STR_FMT, STR_ARG(event.event));
			if (!event.data.len || str_is(event.data, "[DONE]"))
				continue;
			*found = true;
			return http_call_object(event.data, out);
		}
	}
	return OK;
}

fallible event_reader_next(struct event_reader *sse, int64_t timeout_ms, struct json **out)
{
	int64_t deadline = timeout_ms > 0 ? clock_ms() + timeout_ms : 0;
	bool found = false;

	for (;;) {
		size_t n = 0;

		TRY(lib_event_reader_take(sse, &found, out));
		if (found)
			return OK;
		if (timeout_ms > 0)
			timeout_ms = deadline > clock_ms() ? deadline - clock_ms() : 0;
		TRY(request_read(&sse->request, sse->room, EVENT_READER_ROOM, timeout_ms, &n));
		if (n == 0) {
			*out = NULL;
			return OK;
		}
		sse->left = (struct str){sse->room, n};
	}
}

fallible event_reader_error(const struct json *event)
{
	const char *words = fields_text(event, "error");

	if (!*words)
		words = fields_text(event, "message");
	return err_new(BAD_PEER, "stream_error", "%s",
		       *words ? words : "the stream ended with an error");
}
