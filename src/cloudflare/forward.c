// The sandbox behind an id of the bridge, and requests to its routes. A bridge id is the name of a
// sandbox; every bridge request ensures that the sandbox exists, as upstream does, so a deleted one
// is created anew. Errors of the creation become the bridge's codes.
//
// The inner exchange runs in the task of the outer one. While its handler waits for something else,
// a disconnect of the outer client cancels the task, and thereby the handler's wait. http_back()
// and http_away() bracket each write.
#include "cloudflare/forward.h"

#include <stdio.h>

#include "codec/text.h"

#define PATH_BYTES (16 * 1024)
#define FAULT_MAX (64 * 1024)
#define MESSAGE_MAX (64u << 20) // a body of 48 MiB, plus what JSON inside JSON adds

fallible named_box_check(struct http *x)
{
	if (path_is_id(x->params[0]))
		return OK;
	authenticate_report(x, "bad_id", "low");
	return err_hint(err_new(INVALID, "invalid_request", "Invalid sandbox ID format"),
			"POST /v1/sandbox gives one");
}

static fallible named_box_explain(struct err *err)
{
	auto_free char *words = mem_str(err_message(err));

	switch (err_kind(err)) {
	case ERR_EXHAUSTED:
	case ERR_NO_SPACE:
		return err_recast(err, ERR_UNAVAILABLE, "capacity_exceeded", "%s", words);
	case ERR_FORBIDDEN:
	case ERR_CANCELLED:
		return err;
	default:
		return err_recast(err, ERR_BAD_PEER, "pool_error", "pool error: %s", words);
	}
}

fallible named_box_enter(struct http *x, char out_id[ID_BOX_LEN + 1])
{
	struct gateway *gateway = gateway_of(x);
	const struct record *record = NULL;
	struct create_grant grant;
	auto_spec spec = {0};
	struct err *err;
	bool made;

	TRY(named_box_check(x));
	TRY(spec_read(NULL, manager_bounds(gateway->manager), &spec));
	snprintf(spec.name, sizeof(spec.name), STR_FMT, STR_ARG(x->params[0]));
	env_map_set(&spec.labels, STR("cove.api"), STR("bridge"));
	TRY(access_create(gateway_who(x), &grant));
	err = create_box(gateway->manager, &grant, &spec, CREATE_OR_GET, &record, &made);
	if (err)
		return named_box_explain(err);
	snprintf(out_id, ID_BOX_LEN + 1, "%s", record->id);
	return OK;
}

fallible named_box_session(struct http *x, struct str *out)
{
	struct str id = http_field(x, "Session-Id");

	if (!id.len)
		id = http_query(x, "session");
	if (id.len && !path_is_session(id))
		return err_hint(err_new(INVALID, "invalid_request", "Invalid session ID format"),
				"use 1 to 128 letters, digits and ._- without '..'");
	*out = id.len ? id : STR("");
	return OK;
}

fallible named_box_path(struct http *x, const char *what, struct str path, struct str *out)
{
	auto_buf text = BUF_INIT(PATH_BYTES);

	if (!path_resolve(path, &text))
		return err_new(FORBIDDEN, "invalid_request",
			       "%s must resolve to a location within " PATH_WORKSPACE, what);
	*out = (struct str){arena_dup(x->arena, text.at, text.len), text.len};
	return OK;
}

const char *named_box_target(struct http *x, const char *id, const char *rest)
{
	return arena_fmt(x->arena, "/v1/sandboxes/%s%s", id, rest);
}

void bridge_forward_done(struct bridge_forward *forward)
{
	buf_done(&forward->fault);
	err_free(forward->error);
}

static enum err_kind forward_kind_of(int status)
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
	return err_from(code ? ERR_BAD_PEER : forward_kind_of(forward->status),
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

static fallible forward_on_head(void *arg, const struct in_process_head *head)
{
	struct forward_call *call = arg;
	struct bridge_forward *forward = call->forward;

	forward->status = head->status;
	call->good = head->status >= 200 && head->status < 300;
	if (!call->good || !call->calls->head)
		return OK;
	return forward_failed(forward, call->calls->head(forward, head));
}

static fallible forward_on_bytes(void *arg, struct str bytes)
{
	struct forward_call *call = arg;

	if (call->good)
		return call->calls->bytes(call->forward, bytes);
	buf_str(&call->forward->fault, bytes);
	return OK;
}

static void forward_on_end(void *arg, bool is_whole)
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
		.head = forward_on_head,
		.bytes = forward_on_bytes,
		.end = forward_on_end,
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

fallible bridge_upgrade(struct http *x, upgrade_fn *talk)
{
	struct wsock_options options = {.max = MESSAGE_MAX};
	auto_buf prefix = BUF_INIT(1024);

	TRY(upgrade_check(x));
	{
		auto_box_ref ref = {0};

		TRY(gateway_box(x, &ref));
	}
	buf_text(&prefix, "/v1/sandboxes/");
	text_percent(&prefix, x->params[0]);
	return upgrade_run(x, &options, talk, arena_dup(x->arena, prefix.at, prefix.len));
}
