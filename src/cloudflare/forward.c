// The inner exchange runs in the task of the outer one. While its handler waits for something else,
// a disconnect of the outer client cancels the task, and thereby the handler's wait. http_back()
// and http_away() bracket each write.
#include "cloudflare/forward.h"

#define FAULT_MAX (64 * 1024)

void bridge_forward_done(struct bridge_forward *forward)
{
	buf_done(&forward->fault);
	err_free(forward->error);
}

static enum err_kind bridge_forward_kind_of(int status)
{
	static const struct {
		int status;
		enum err_kind kind;
	} kinds[] = {
		{400, ERR_INVALID},   {403, ERR_FORBIDDEN},   {404, ERR_NOT_FOUND},
		{409, ERR_CONFLICT},  {410, ERR_GONE},	      {413, ERR_TOO_LARGE},
		{429, ERR_EXHAUSTED}, {501, ERR_NOT_OFFERED}, {503, ERR_UNAVAILABLE},
		{507, ERR_NO_SPACE},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].status == status)
			return kinds[i].kind;
	return ERR_BAD_PEER;
}

fallible bridge_forward_fault(const struct bridge_forward *forward, const char *code,
			      const char *what)
{
	struct str message = STR("no answer"), hint = {0};
	auto_free char *words = NULL;
	auto_json json = NULL;

	err_free(json_read(buf_view(&forward->fault), &json));
	if (json && json_type(json) == JSON_OBJECT) {
		err_free(json_str(json_get(json, "message"), "message", &message));
		err_free(json_str(json_get(json, "hint"), "hint", &hint));
	}
	words = mem_fmt("%s: " STR_FMT, what, STR_ARG(message));
	return err_from(code ? ERR_BAD_PEER : bridge_forward_kind_of(forward->status),
			code ? code : "invalid_request", words, hint.at);
}

static fallible forward_failed(struct bridge_forward *forward, struct err *err)
{
	if (!err)
		return OK;
	if (!forward->error)
		forward->error = err;
	else
		err_free(err);
	return err_new(CANCELLED, "client_gone", "the outer exchange has ended");
}

fallible bridge_forward_read(struct bridge_forward *forward, void *room, size_t size, size_t *out)
{
	return forward_failed(forward, http_read(forward->x, room, size, out));
}

fallible bridge_forward_write(struct bridge_forward *forward, const void *bytes, size_t len)
{
	http_back(forward->x);
	TRY(forward_failed(forward, http_write(forward->x, bytes, len)));
	return forward_failed(forward, http_away(forward->x, forward->probe));
}

struct forward_call {
	struct bridge_forward *forward;
	const struct in_process_calls *calls;
	bool good;
};

static fallible on_read(void *arg, void *room, size_t size, size_t *out)
{
	struct forward_call *call = arg;

	return call->calls->read(call->forward, room, size, out);
}

static fallible bridge_forward_on_head(void *arg, const struct in_process_head *head)
{
	struct forward_call *call = arg;
	struct bridge_forward *forward = call->forward;

	forward->status = head->status;
	call->good = head->status >= 200 && head->status < 300;
	if (!call->good || !call->calls->head)
		return OK;
	return forward_failed(forward, call->calls->head(forward, head));
}

static fallible bridge_forward_on_bytes(void *arg, struct str bytes)
{
	struct forward_call *call = arg;

	if (call->good)
		return call->calls->bytes(call->forward, bytes);
	buf_str(&call->forward->fault, bytes);
	return OK;
}

static void bridge_forward_on_end(void *arg, bool is_whole)
{
	struct forward_call *call = arg;

	if (!is_whole && call->good)
		call->forward->status = 0;
	if (call->calls->end)
		call->calls->end(call->forward, is_whole);
}

fallible bridge_forward_ask(struct bridge_forward *forward, const char *method, const char *target,
			    const char *type, struct str body, const struct in_process_calls *calls)
{
	struct http *x = forward->x;
	struct forward_call call = {.forward = forward, .calls = calls};
	struct in_process_calls ours = {
		.read = calls->read ? on_read : NULL,
		.head = bridge_forward_on_head,
		.bytes = bridge_forward_on_bytes,
		.end = bridge_forward_on_end,
	};
	struct in_process_ask ask = gateway_ask(x, str_of(method), str_of(target));

	ask.type = type;
	ask.body = body;
	forward->fault = BUF_INIT(FAULT_MAX);
	if (!calls->read)
		TRY(http_away(x, x->reply_begun ? forward->probe : HTTP_PROBE_HEAD));
	in_process_run(in_process_new(&ask, &ours, &call));
	http_back(x);
	if (forward->error)
		return take_ptr(forward->error);
	if (!forward->status)
		return err_new(BAD_PEER, "exec_transport_error", "the answer was cut short");
	return OK;
}
