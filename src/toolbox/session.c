// Routes for sessions: shells that keep their state between commands. The shells themselves are in
// box/session. Deleting a session also kills its terminal. An id that the client does not give is
// made here.
#include <stdio.h>

#include "base/clock.h"
#include "base/secret.h"
#include "gateway/cancel_on_delete.h"
#include "manager/exec.h"
#include "toolbox/follow.h"
#include "toolbox/handlers.h"

#define BODY_MAX (256 * 1024)
#define TIME_MAX (1ull << 42)
#define CWD_MAX 4095

// The context of an error: {"sessionId": …}, and for a session that exists the placement id, which
// is always null.
static fallible session_refuse(struct http *x, struct str id, struct err *err)
{
	auto_buf context = BUF_INIT(8 * SESSION_ID_MAX + 1024);
	struct json_out out = json_to(&context);
	struct error_response_detail detail = {0};

	if (!err)
		return OK;
	json_begin(&out, '{');
	if (id.at)
		json_put_str(&out, "sessionId", id);
	if (!strcmp(err_reason(err), "session_exists")) {
		json_key(&out, "containerPlacementId");
		json_add_null(&out);
	}
	if (!strcmp(err_reason(err), "bad_env")) {
		json_put_text(&out, "command", "session.create");
		json_put_text(&out, "stderr", err_message(err));
	}
	json_end(&out, '}');
	if (buf_ok(&context))
		detail.context = buf_view(&context);
	return error_response_answer(x, err, &detail);
}

struct request {
	struct str id;
	struct shells_spec spec;
	struct env_map env;
};

static void session_request_done(struct request *request)
{
	env_map_done(&request->env);
}

static fallible session_read_request(struct http *x, const struct json *json,
				     struct request *request)
{
	struct str cwd = {0}, id = {0};

	TRY(json_str(json_get(json, "id"), "id", &id));
	if (id.at) // the id outlives the body
		request->id = (struct str){arena_dup(x->arena, id.at, id.len), id.len};
	TRY(json_str(json_get(json, "cwd"), "cwd", &cwd));
	if (cwd.len > CWD_MAX)
		return err_new(INVALID, "bad_field", "'cwd' may have %d bytes", CWD_MAX);
	if (cwd.len)
		request->spec.cwd = arena_dup(x->arena, cwd.at, cwd.len);
	TRY(json_u64(json_get(json, "commandTimeoutMs"), "commandTimeoutMs", 1, TIME_MAX,
		     &request->spec.timeout_ms));
	TRY(env_map_read_env(json_get(json, "env"), &request->env));
	request->spec.env = &request->env;
	return OK;
}

// A body that is not JSON counts as empty: all defaults.
static fallible read_lenient(struct http *x, struct json **out)
{
	struct str text = {0};
	auto_err err = OK;

	TRY(http_body(x, 0, &text));
	err = text.len ? json_read(text, out) : OK;
	if (!err && *out && json_type(*out) != JSON_OBJECT) {
		json_free(*out);
		*out = NULL;
	}
	return OK;
}

static struct str new_id(struct http *x)
{
	char hex[13];

	secret_hex(hex, 6);
	return str_of(arena_fmt(x->arena, "session_%lld_%s", (long long)clock_wall_ms(), hex));
}

static fallible session_make(struct http *x, struct box_ref *ref, struct request *request,
			     struct session **out)
{
	auto_json json = NULL;

	TRY(read_lenient(x, &json));
	if (json)
		TRY(session_read_request(x, json, request));
	if (!request->id.at)
		request->id = new_id(x);
	TRY(gateway_box(x, ref));
	return shells_create(ref, request->id, &request->spec, out);
}

fallible toolbox_session_create(struct http *x)
{
	auto_box_ref ref = {0};
	auto_session session = NULL;
	on_exit_call(session_request_done) struct request request = {0};
	auto_buf body = BUF_INIT(BODY_MAX);
	struct err *err = session_make(x, &ref, &request, &session);
	struct json_out out;

	if (err)
		return session_refuse(x, request.id, err);
	out = gateway_success(&body);
	json_put_text(&out, "id", session_id(session));
	json_put_text(&out, "sessionId", session_id(session));
	json_put_text(&out, "message", "Session created");
	json_put_text(&out, "cwd", session_cwd(session));
	json_key(&out, "containerPlacementId");
	json_add_null(&out);
	return gateway_answer(x, &out);
}

static void put_one(struct session *session, void *arg)
{
	json_add_text(arg, session_id(session));
}

fallible toolbox_session_list(struct http *x)
{
	auto_box_ref ref = {0};
	auto_buf body = BUF_INIT(8 * SESSION_MAX * SESSION_ID_MAX);
	struct json_out out = gateway_success(&body);

	TRY(gateway_box(x, &ref));
	json_put_begin(&out, "data", '[');
	session_each(ref.box, put_one, &out);
	json_end(&out, ']');
	return gateway_answer(x, &out);
}

static fallible toolbox_session_find(struct http *x, struct str id, struct box_ref *ref,
				     struct session **out)
{
	TRY(gateway_box(x, ref));
	*out = session_find(ref->box, id);
	if (*out)
		return OK;
	return err_hint(err_new(NOT_FOUND, "no_session", "Session '" STR_FMT "' not found",
				(int)(id.len < SESSION_ID_MAX ? id.len : SESSION_ID_MAX), id.at),
			"GET …/api/session/list shows those there are");
}

fallible toolbox_session_get(struct http *x)
{
	auto_box_ref ref = {0};
	auto_session session = NULL;
	auto_buf body = BUF_INIT(BODY_MAX);
	struct err *err = toolbox_session_find(x, x->params[1], &ref, &session);
	struct json_out out;

	if (err)
		return session_refuse(x, x->params[1], err);
	out = gateway_success(&body);
	json_put_text(&out, "id", session_id(session));
	json_put_text(&out, "cwd", session_cwd(session));
	json_put_bool(&out, "alive", session_is_alive(session));
	json_put_int(&out, "outputBytes", (int64_t)tape_kept(session_tape(session)));
	return gateway_answer(x, &out);
}

static fallible bad_delete(void)
{
	return err_new(INVALID, "bad_field", "'sessionId' is missing");
}

static fallible read_delete(struct http *x, struct str *id, bool *now)
{
	auto_json json = NULL;
	struct str named = {0};

	TRY(read_lenient(x, &json));
	if (!json)
		return bad_delete();
	TRY(json_str(json_get(json, "sessionId"), "sessionId", &named));
	TRY(json_bool(json_get(json, "force"), "force", now));
	if (!named.len)
		return bad_delete();
	*id = str_of(arena_dup(x->arena, named.at, named.len));
	return OK;
}

// A session's terminal ends with it, so that a new session of the same id inherits nothing.
static void session_end_terminal(struct box *box, struct str session)
{
	auto_term term = term_find(box, session);

	if (term && !term_view(term).is_command)
		term_kill(term);
}

fallible toolbox_session_delete(struct http *x)
{
	auto_box_ref ref = {0};
	auto_session session = NULL;
	auto_buf body = BUF_INIT(BODY_MAX);
	struct str id = {0};
	bool now = false;
	struct err *err = read_delete(x, &id, &now);
	struct json_out out;

	if (err) {
		return error_response_answer(x, err,
					     &(struct error_response_detail){.field = "sessionId"});
	}
	err = toolbox_session_find(x, id, &ref, &session);
	if (!err)
		err = box_ref_explain(
			http_while_away(x, HTTP_PROBE_HEAD, session_delete(session, now)));
	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	if (err)
		return session_refuse(x, id, err);
	session_end_terminal(ref.box, id);
	out = gateway_success(&body);
	json_put_str(&out, "sessionId", id);
	return gateway_answer(x, &out);
}

// Sends the raw bytes written so far. The next bytes begin at X-Next-Offset.
static fallible send_plain(struct http *x, struct tape *tape, struct follow_from from)
{
	struct follow_raw raw = {.all = true, .offset = from.offset, .until = tape_kept(tape)};

	if (raw.offset > raw.until)
		return err_new(INVALID, "bad_offset", "the offset is not one of this output");
	http_set(x, "X-Next-Offset",
		 str_of(arena_fmt(x->arena, "%llu", (unsigned long long)raw.until)));
	TRY(http_begin(x, 200, "application/octet-stream"));
	return follow_raw(x, tape, &raw);
}

static fallible session_send_events(struct http *x, struct tape *tape, struct follow_from from)
{
	auto_follow follow = {.x = x, .tape = tape, .encoding = EXEC_REQUEST_UTF8, .from = from};

	if (from.offset > tape_kept(tape))
		return err_new(INVALID, "bad_offset", "the offset is not one of this output");
	follow.out = BUF_INIT(FOLLOW_OUT_MAX);
	TRY(follow_begin(&follow));
	TRY(follow_tape(&follow));
	TRY(follow_flush(&follow));
	return http_end(x);
}

fallible toolbox_session_output(struct http *x)
{
	auto_box_ref ref = {0};
	auto_session session = NULL;
	auto_tape tape = NULL;
	struct str path_arg = http_query(x, "offset"), accept = http_field(x, "Accept");
	struct follow_from from = {0};
	struct err *err = toolbox_session_find(x, x->params[1], &ref, &session);

	if (err)
		return session_refuse(x, x->params[1], err);
	if (!path_arg.at)
		path_arg = http_field(x, "Last-Event-ID");
	if (path_arg.len && !follow_from_read(path_arg, &from))
		return err_new(INVALID, "bad_offset", "the offset is not one of this output");
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	tape = session_tape(session);
	tape_ref(tape);
	session_unref(take_ptr(session)); // the end of the session ends the stream
	if (str_is(http_query(x, "follow"), "true") ||
	    (accept.at && str_starts(accept, "text/event-stream")))
		return session_send_events(x, tape, from);
	return send_plain(x, tape, from);
}

static fallible session_change_env(struct http *x)
{
	auto_box_ref ref = {0};
	auto_json json = NULL;

	TRY(gateway_json(x, &json, NULL));
	if (!json || json_type(json) != JSON_OBJECT || !json_get(json, "envVars"))
		return err_hint(err_new(INVALID, "bad_field", "'envVars' is missing"),
				"send {\"envVars\": {\"NAME\": \"value\", \"OLD\": null}}");
	TRY(json_want(json_get(json, "envVars"), "envVars", JSON_OBJECT));
	TRY(gateway_box(x, &ref));
	return shells_change_env(&ref, json_get(json, "envVars"));
}

fallible toolbox_session_env(struct http *x)
{
	auto_buf body = BUF_INIT(1024);
	struct json_out out;
	struct err *err = session_change_env(x);

	if (err)
		return session_refuse(x, (struct str){0}, err);
	out = gateway_success(&body);
	json_put_text(&out, "message", "Environment changed");
	return gateway_answer(x, &out);
}
