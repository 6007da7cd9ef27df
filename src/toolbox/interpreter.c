// Routes of the code interpreter. A context is an interpreter process that keeps its state; a cell
// is one piece of code that it runs. Contexts and cells live in box/context; here requests are
// decoded and results encoded. Cells are followed by cells.c. A cell runs on when its client
// disconnects.
#include "gateway/cancel_on_delete.h"
#include "manager/contexts.h"
#include "toolbox/cells.h"
#include "toolbox/handlers.h"

#define BODY_MAX (512 * 1024)
#define CWD_MAX 4095
#define TIME_MAX (1ull << 42)

static fallible interpreter_refuse(struct http *x, struct err *err)
{
	if (!err || err_kind(err) == ERR_CANCELLED)
		return err;
	error_response_answer(x, err, &(struct error_response_detail){.twice = true});
	return OK;
}

static fallible interpreter_enter(struct http *x, struct box_ref *ref)
{
	return box_ref_begin(gateway_of(x)->manager, gateway_who(x), x->params[0], ref);
}

static fallible interpreter_find(struct box_ref *ref, struct str id, struct context **out)
{
	*out = context_find(ref->box, id);
	if (*out)
		return OK;
	return err_hint(err_new(NOT_FOUND, "no_context", "Context " STR_FMT " not found",
				(int)(id.len < CONTEXT_ID ? id.len : CONTEXT_ID), id.at),
			"GET …/api/contexts shows those there are");
}

static fallible find_named(struct http *x, struct box_ref *ref, struct context **out)
{
	TRY(interpreter_enter(x, ref));
	return interpreter_find(ref, x->params[1], out);
}

static fallible read_language(const struct json *json, enum context_language *out, bool *out_named)
{
	struct str word = {0};

	TRY(json_str(json_get(json, "language"), "language", &word));
	*out_named = word.len > 0;
	if (!word.len || context_language(word, out))
		return OK;
	return err_hint(err_new(INVALID, "bad_field", "'language' is not supported"),
			"use python, javascript or typescript");
}

fallible toolbox_interpreter_health(struct http *x)
{
	auto_box_ref ref = {0};
	auto_buf body = BUF_INIT(1024);
	struct json_out out = gateway_success(&body);

	TRY(interpreter_enter(x, &ref));
	json_put_text(&out, "status", "healthy");
	return gateway_answer(x, &out);
}

static void put_fields(struct json_out *out, const char *id, const struct context_view *view)
{
	json_put_text(out, id, view->id);
	json_put_text(out, "language", context_word(view->language));
	json_put_text(out, "cwd", view->cwd);
	json_put_bool(out, "alive", view->alive);
	json_put_bool(out, "busy", view->busy);
	json_put_int(out, "pid", view->pid);
}

static void put_one(struct context *context, void *arg)
{
	struct context_view view = context_view(context);

	json_begin(arg, '{');
	put_fields(arg, "id", &view);
	json_end(arg, '}');
}

fallible toolbox_interpreter_list(struct http *x)
{
	auto_box_ref ref = {0};
	auto_buf body = BUF_INIT(CONTEXT_MAX * 8 * CWD_MAX);
	struct json_out out = gateway_success(&body);

	TRY(interpreter_enter(x, &ref));
	json_key(&out, "contexts");
	json_begin(&out, '[');
	context_each(ref.box, put_one, &out);
	json_end(&out, ']');
	return gateway_answer(x, &out);
}

// Reads a field by one of two names: RPC callers send the SDK's own name.
static struct json *interpreter_either(const struct json *json, const char *name, const char *other)
{
	struct json *found = json_get(json, name);

	return found ? found : json_get(json, other);
}

static fallible read_create(struct http *x, const struct json *json, struct env_map *env,
			    struct contexts_spec *spec)
{
	struct str cwd = {0};
	bool named;

	TRY(read_language(json, &spec->language, &named));
	TRY(json_str(json_get(json, "cwd"), "cwd", &cwd));
	if (cwd.len > CWD_MAX)
		return err_new(INVALID, "bad_field", "'cwd' may have %d bytes", CWD_MAX);
	if (cwd.len)
		spec->cwd = arena_dup(x->arena, cwd.at, cwd.len);
	TRY(json_u64(interpreter_either(json, "timeout_ms", "timeout"), "timeout_ms", 1, TIME_MAX,
		     &spec->timeout_ms));
	TRY(env_map_read_env(interpreter_either(json, "env_vars", "envVars"), env));
	spec->env = env;
	return OK;
}

static fallible interpreter_create(struct http *x, struct box_ref *ref, struct context **out)
{
	struct contexts_spec spec = {0};
	auto_json json = NULL;
	auto_pairs env = {0};
	struct err *err;

	TRY(gateway_json(x, &json, NULL));
	if (json) {
		TRY(json_want(json, "body", JSON_OBJECT));
		TRY(read_create(x, json, &env, &spec));
	}
	TRY(interpreter_enter(x, ref));
	TRY(http_away(x, HTTP_PROBE_HEAD));
	err = contexts_create(ref, &spec, out);
	http_back(x);
	return err;
}

fallible toolbox_interpreter_create(struct http *x)
{
	auto_box_ref ref = {0};
	auto_context context = NULL;
	auto_buf body = BUF_INIT(BODY_MAX);
	struct err *err = interpreter_create(x, &ref, &context);
	struct context_view view;
	struct json_out out;

	if (err)
		return interpreter_refuse(x, err);
	view = context_view(context);
	out = gateway_success(&body);
	put_fields(&out, "contextId", &view);
	json_put_text(&out, "id", view.id); // the name that RPC callers expect
	return gateway_answer(x, &out);
}

static fallible interpreter_answer(struct http *x, const struct context *context, const char *flag,
				   bool value)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = gateway_success(&body);

	json_put_text(&out, "contextId", context_view(context).id);
	if (flag)
		json_put_bool(&out, flag, value);
	return gateway_answer(x, &out);
}

fallible toolbox_interpreter_delete(struct http *x)
{
	auto_box_ref ref = {0};
	auto_context context = NULL;
	struct err *err = find_named(x, &ref, &context);

	if (err)
		return interpreter_refuse(x, err);
	context_delete(context);
	return interpreter_answer(x, context, NULL, false);
}

fallible toolbox_interpreter_interrupt(struct http *x)
{
	auto_box_ref ref = {0};
	auto_context context = NULL;
	struct err *err = find_named(x, &ref, &context);

	if (err)
		return interpreter_refuse(x, err);
	return interpreter_answer(x, context, "interrupted", context_interrupt(context));
}

fallible toolbox_interpreter_restart(struct http *x)
{
	auto_box_ref ref = {0};
	auto_context context = NULL;
	struct err *err = find_named(x, &ref, &context);

	if (!err)
		err = http_away(x, HTTP_PROBE_HEAD);
	if (!err) {
		err = contexts_restart(&ref, context);
		http_back(x);
	}
	if (err)
		return interpreter_refuse(x, err);
	return interpreter_answer(x, context, NULL, false);
}

// The context that the body names, or the default context of its language.
static fallible interpreter_pick(struct box_ref *ref, const struct json *json, struct context **out)
{
	enum context_language language = CONTEXT_PYTHON;
	struct str id = {0};
	bool named;

	TRY(json_str(json_get(json, "context_id"), "context_id", &id));
	TRY(read_language(json, &language, &named));
	if (!id.len)
		return contexts_default(ref, language, out);
	TRY(interpreter_find(ref, id, out));
	if (!named || context_view(*out).language == language)
		return OK;
	return err_new(CONFLICT, "wrong_language", "the context is one of %s, not of %s",
		       context_word(context_view(*out).language), context_word(language));
}

static fallible interpreter_start(struct http *x, struct box_ref *ref, struct context_run **out)
{
	auto_json json = NULL;
	auto_context context = NULL;
	uint64_t timeout_ms = 0;
	struct json *code;

	TRY(gateway_json(x, &json, NULL));
	if (!json || json_type(json) != JSON_OBJECT || !(code = json_get(json, "code")))
		return err_hint(err_new(INVALID, "bad_field", "'code' is missing"),
				"send {\"context_id\": \"…\", \"code\": \"1 + 1\"}");
	TRY(json_want(code, "code", JSON_STRING));
	TRY(json_u64(json_get(json, "timeout_ms"), "timeout_ms", 1, TIME_MAX, &timeout_ms));
	http_be_patient(x);
	TRY(interpreter_enter(x, ref));
	TRY(interpreter_pick(ref, json, &context));
	return contexts_run(ref, context, json_chars(code), timeout_ms, out);
}

fallible toolbox_interpreter_run(struct http *x)
{
	auto_box_ref ref = {0};
	auto_context_run run = NULL;
	struct context_result result = {0};
	struct err *err = interpreter_start(x, &ref, &run);

	if (err)
		return interpreter_refuse(x, err);
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	TRY(cells_follow(x, run, &(struct cells_from){0}, &result));
	contexts_report(&ref, &result);
	return OK;
}

// Finds a context of a sandbox in any state: its records can be read after the sandbox stopped.
static fallible interpreter_look(struct http *x, struct box_ref *ref, struct context **out)
{
	TRY(box_ref_look(gateway_of(x)->manager, gateway_who(x), x->params[0], ref));
	return interpreter_find(ref, x->params[1], out);
}

static void interpreter_put_cell(struct context_run *run, void *arg)
{
	json_begin(arg, '{');
	json_put_int(arg, "cell", (int64_t)context_run_number(run));
	json_put_bool(arg, "ended", context_run_has_ended(run));
	json_end(arg, '}');
}

fallible toolbox_interpreter_cells(struct http *x)
{
	auto_box_ref ref = {0};
	auto_context context = NULL;
	auto_buf body = BUF_INIT(BODY_MAX);
	struct err *err = interpreter_look(x, &ref, &context);
	struct json_out out;

	if (err)
		return interpreter_refuse(x, err);
	out = gateway_success(&body);
	json_put_text(&out, "contextId", context_view(context).id);
	json_key(&out, "cells");
	json_begin(&out, '[');
	context_each_cell(context, interpreter_put_cell, &out);
	json_end(&out, ']');
	return gateway_answer(x, &out);
}

// ?offset=, or the Last-Event-ID that event stream clients send when they reconnect.
static fallible interpreter_read_from(struct http *x, struct cells_from *out)
{
	struct str text = http_query(x, "offset");

	if (!text.at)
		text = http_field(x, "Last-Event-ID");
	if (text.at && text.len && !cells_from_read(text, out))
		return err_hint(err_new(INVALID, "bad_offset", "this is not an offset"),
				"use the id of an event of the cell, or none");
	return OK;
}

static fallible find_cell(struct http *x, struct box_ref *ref, struct cells_from *from,
			  struct context_run **out)
{
	auto_context context = NULL;
	uint64_t number = 0;

	TRY(interpreter_read_from(x, from));
	TRY(interpreter_look(x, ref, &context));
	if (str_to_u64(x->params[2], 1, INT64_MAX, &number))
		*out = context_cell(context, number);
	if (*out)
		return OK;
	return err_hint(err_new(NOT_FOUND, "no_cell", "the context has no such cell"),
			"the last %d of a context are kept: GET …/api/contexts/{id}/cells",
			CONTEXT_PAST_MAX);
}

fallible toolbox_interpreter_cell(struct http *x)
{
	auto_box_ref ref = {0};
	auto_context_run run = NULL;
	struct cells_from from = {0};
	struct context_result result = {0};
	struct err *err = find_cell(x, &ref, &from, &run);

	if (err)
		return interpreter_refuse(x, err);
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	http_be_patient(x);
	return cells_follow(x, run, &from, &result);
}
