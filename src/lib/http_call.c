// Sends a request, reads the whole reply and converts API errors to cove_error. A connection goes
// back to the client's pool only if its reply was read to the end. Replies have a size limit.
#include "lib/http_call.h"

#include <stdio.h>

#include "base/mem.h"
#include "lib/fields.h"

#define REFUSAL_MAX (1 << 20)

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
