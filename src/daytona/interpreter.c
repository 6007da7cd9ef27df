// The code interpreter: Python contexts that keep their state, over those of box/context.h. A run
// comes and is answered over a WebSocket of its own. Runs of one context queue. A run goes to its
// end without its client.
//
// The environment of one run is set by a cell before it and taken back by a cell after it; all
// three are queued at once, so that no other run gets between them.
#include "daytona/cells.h"
#include "daytona/handlers.h"
#include "gateway/cancel_on_delete.h"
#include "gateway/gateway.h"
#include "http/upgrade.h"
#include "manager/contexts.h"

#define BODY_MAX (1 << 20)
#define MESSAGE_MAX (4u << 20)
#define CWD_MAX 4095
#define FIRST_MS 30000 // for the message that has the code
#define RUN_S 600
#define RUN_MAX_S 1e8
#define WS_TIMED_OUT 4008
#define REASON_MAX 120
#define DEFAULT_ID "default"

static void interpreter_put(struct json_out *out, const struct box_ref *ref,
			    const struct context *context)
{
	struct context_view view = context_view(context);

	json_begin(out, '{');
	json_put_text(out, "id", view.id);
	json_put_text(out, "cwd", view.cwd);
	json_put_time(out, "createdAt", ref->entry->record.started_ms);
	json_put_bool(out, "active", view.alive);
	json_put_text(out, "language", context_word(view.language));
	json_end(out, '}');
}

fallible daytona_interpreter_create(struct http *x)
{
	struct contexts_spec spec = {.language = CONTEXT_PYTHON};
	struct str cwd = {0}, language = STR("python");
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	auto_context context = NULL;
	auto_box_ref ref = {0};
	auto_json json = NULL;

	TRY(gateway_json(x, &json, NULL));
	if (json) {
		TRY(json_want(json, "body", JSON_OBJECT));
		TRY(json_str(json_get(json, "cwd"), "cwd", &cwd));
		TRY(json_str(json_get(json, "language"), "language", &language));
	}
	if (!str_is(language, "python"))
		return err_new(INVALID, "bad_field", "'language' must be python");
	if (cwd.len > CWD_MAX)
		return err_new(INVALID, "bad_field", "'cwd' may have %d bytes", CWD_MAX);
	if (cwd.len)
		spec.cwd = arena_dup(x->arena, cwd.at, cwd.len);
	TRY(gateway_box(x, &ref));
	TRY(http_while_away(x, HTTP_PROBE_HEAD, contexts_create(&ref, &spec, &context)));
	interpreter_put(&out, &ref, context);
	return http_reply_json(x, 200, &body);
}

struct interpreter_list {
	struct json_out out;
	const struct box_ref *ref;
	const struct context *hidden; // the default one
};

static void interpreter_list_put(struct context *context, void *arg)
{
	struct interpreter_list *list = arg;

	if (context != list->hidden && context_view(context).language == CONTEXT_PYTHON)
		interpreter_put(&list->out, list->ref, context);
}

fallible daytona_interpreter_list(struct http *x)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct interpreter_list list = {json_to(&body), NULL, NULL};
	auto_context hidden = NULL;
	auto_box_ref ref = {0};

	TRY(gateway_box(x, &ref));
	list.ref = &ref;
	hidden = context_default(ref.box, CONTEXT_PYTHON);
	list.hidden = hidden;
	json_begin(&list.out, '{');
	json_put_begin(&list.out, "contexts", '[');
	context_each(ref.box, interpreter_list_put, &list);
	json_end(&list.out, ']');
	json_end(&list.out, '}');
	return http_reply_json(x, 200, &body);
}

static fallible interpreter_find_context(const struct box_ref *ref, struct str id,
					 struct context **out)
{
	*out = context_find(ref->box, id);
	if (*out && context_view(*out).language == CONTEXT_PYTHON)
		return OK;
	if (*out)
		context_unref(take_ptr(*out));
	return err_absent("no_context", "context", id);
}

fallible daytona_interpreter_delete(struct http *x)
{
	auto_context context = NULL;
	auto_box_ref ref = {0};

	if (str_is(x->params[1], DEFAULT_ID))
		return err_new(INVALID, "bad_field", "the default context stays");
	TRY(gateway_box(x, &ref));
	TRY(interpreter_find_context(&ref, x->params[1], &context));
	context_delete(context);
	return http_reply_empty(x, 204);
}

// --------------------------------------------------------------------------------------------- run

// A run and what its client is sent. The sender's task has it.
struct interpreter_run {
	struct wsock *ws;
	bool is_deaf; // the client has gone: the run goes on
	struct context_run *before, *run, *after;
};

static void interpreter_run_free(struct interpreter_run *run)
{
	struct context_run *runs[3] = {run->before, run->run, run->after};

	for (int i = 0; i < 3; i++)
		if (runs[i])
			context_run_drop(runs[i]);
	if (run->ws)
		wsock_unref(run->ws);
	free(run);
}

static fallible interpreter_send(struct interpreter_run *run, struct buf *text)
{
	auto_err err = OK;

	if (run->is_deaf)
		return OK;
	if (!buf_ok(text))
		return err_new(INTERNAL, "internal", "a message did not fit");
	err = wsock_send(run->ws, WSOCK_TEXT, buf_view(text));
	run->is_deaf = err != NULL;
	return OK;
}

static fallible interpreter_send_text(void *arg, enum tape_stream stream, struct str bytes)
{
	auto_buf text = BUF_INIT(8 * bytes.len + 256);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_text(&out, "type", stream == TAPE_STDERR ? "stderr" : "stdout");
	json_put_str(&out, "text", bytes);
	json_end(&out, '}');
	return interpreter_send(arg, &text);
}

static fallible interpreter_send_error(struct interpreter_run *run, const struct cells_error *error)
{
	auto_buf text = BUF_INIT(256u << 20);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_text(&out, "type", "error");
	json_put_str(&out, "name", error->name);
	json_put_str(&out, "value", error->value);
	json_put_str(&out, "traceback", error->traceback);
	json_end(&out, '}');
	return interpreter_send(run, &text);
}

static fallible interpreter_follow(struct interpreter_run *run)
{
	struct cells_sink sink = {.arg = run, .text = interpreter_send_text};
	auto_buf room = BUF_INIT(64u << 20), end = BUF_INIT(256);
	struct json_out out = json_to(&end);
	struct cells_error error = {0};
	struct context_result result;

	TRY(cells_follow_run(run->run, &sink, &room, &error, &result));
	if (result.timed_out) {
		wsock_close(run->ws, WS_TIMED_OUT, "the code was ended by its time limit");
		return OK;
	}
	if (error.name.at)
		TRY(interpreter_send_error(run, &error));
	json_begin(&out, '{');
	json_put_text(&out, "type", "control");
	json_put_text(&out, "text", "completed");
	json_end(&out, '}');
	TRY(interpreter_send(run, &end));
	wsock_close(run->ws, WS_NORMAL, "");
	return OK;
}

static void interpreter_sender_task(void *arg)
{
	struct interpreter_run *run = arg;
	struct context_result result;
	auto_err err = interpreter_follow(run);

	if (err && err_kind(err) != ERR_CANCELLED)
		wsock_close(run->ws, WS_INTERNAL, err_reason(err));
	if (run->after)
		err_free(context_run_wait(run->after, CLOCK_NEVER, &result));
	interpreter_run_free(run);
}

static void interpreter_write_env(struct buf *out, const struct env_map *env)
{
	struct json_out json = json_to(out);

	json_begin(&json, '{');
	for (size_t i = 0; i < env->count; i++)
		json_put_text(&json, env->at[i].name, env->at[i].value);
	json_end(&json, '}');
}

// The cells around the run. The names of the environment are written as JSON in a Python string.
static fallible interpreter_wrap(const struct box_ref *ref, struct context *context,
				 const struct env_map *env, struct str code, uint64_t timeout_ms,
				 struct interpreter_run *run)
{
	static const char before[] = "import os, builtins, json\n"
				     "m = json.loads(t)\n"
				     "builtins._cove_env = {k: os.environ.get(k) for k in m}\n"
				     "os.environ.update(m)\n";
	static const char after[] =
		"import os, builtins\n"
		"for k, v in builtins.__dict__.pop('_cove_env', {}).items():\n"
		"    os.environ.pop(k, None) if v is None else os.environ.__setitem__(k, v)\n";
	auto_buf map = BUF_INIT(BODY_MAX), cell = BUF_INIT(2 * BODY_MAX);
	struct json_out out = json_to(&cell);

	if (env->count) {
		interpreter_write_env(&map, env);
		buf_text(&cell, "exec(");
		json_add_text(&out, before);
		buf_text(&cell, ", {'t': ");
		out.comma = false;
		json_add_str(&out, buf_view(&map));
		buf_text(&cell, "})\n");
		if (!buf_ok(&map) || !buf_ok(&cell))
			return err_new(TOO_LARGE, "body_too_large", "'envs' is too large");
		TRY(contexts_run(ref, context, buf_view(&cell), FIRST_MS, &run->before));
	}
	TRY(contexts_run(ref, context, code, timeout_ms, &run->run));
	if (!env->count)
		return OK;
	buf_clear(&cell);
	out = json_to(&cell);
	buf_text(&cell, "exec(");
	json_add_text(&out, after);
	buf_text(&cell, ", {})\n");
	return contexts_run(ref, context, buf_view(&cell), FIRST_MS, &run->after);
}

static fallible interpreter_start_run(const struct box_ref *ref, struct str message,
				      struct interpreter_run *run)
{
	struct str code = {0}, id = {0};
	auto_context context = NULL;
	double seconds = RUN_S;
	auto_json json = NULL;
	auto_pairs env = {0};

	TRY(json_read(message, &json));
	TRY(json_want(json, "message", JSON_OBJECT));
	TRY(json_str(json_get(json, "code"), "code", &code));
	TRY(json_str(json_get(json, "contextId"), "contextId", &id));
	TRY(json_double(json_get(json, "timeout"), "timeout", 0, RUN_MAX_S, &seconds));
	TRY(env_map_read_env(json_get(json, "envs"), &env));
	if (!str_trim(code).len)
		return err_new(INVALID, "bad_field", "'code' is empty");
	if (id.len && !str_is(id, DEFAULT_ID))
		TRY(interpreter_find_context(ref, id, &context));
	else
		TRY(contexts_default(ref, CONTEXT_PYTHON, &context));
	return interpreter_wrap(ref, context, &env, code, (uint64_t)(seconds * 1000), run);
}

static fallible interpreter_talk(struct http *x, struct wsock *ws, void *arg)
{
	struct interpreter_run *run = mem_new_of(struct interpreter_run);
	int64_t deadline = loop_now(gateway_of(x)->loop) + FIRST_MS;
	struct wsock_message message = {.kind = WSOCK_CLOSED};
	struct err *err = wsock_recv(ws, deadline, &message);
	auto_err refused = OK;

	if (!err && message.kind != WSOCK_CLOSED)
		refused = interpreter_start_run(arg, message.body, run);
	if (err || refused || message.kind == WSOCK_CLOSED) {
		if (refused && err_kind(refused) == ERR_CANCELLED)
			err = take_ptr(refused);
		if (refused)
			wsock_close(ws,
				    err_kind(refused) == ERR_INVALID ||
						    err_kind(refused) == ERR_NOT_FOUND ||
						    err_kind(refused) == ERR_EXHAUSTED
					    ? WS_POLICY
					    : WS_INTERNAL,
				    arena_fmt(x->arena, "%.*s", REASON_MAX, err_message(refused)));
		interpreter_run_free(run);
		return err;
	}
	run->ws = ws;
	wsock_ref(ws);
	task_start(task_loop(), "daytona.interpreter", interpreter_sender_task, run);
	while (!err && message.kind != WSOCK_CLOSED)
		err = wsock_recv(ws, CLOCK_NEVER, &message);
	return err;
}

fallible daytona_interpreter_execute(struct http *x)
{
	struct wsock_options options = {.max = MESSAGE_MAX};
	auto_box_ref ref = {0};

	TRY(upgrade_check(x));
	TRY(gateway_box(x, &ref));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	return upgrade_run(x, &options, interpreter_talk, &ref);
}
