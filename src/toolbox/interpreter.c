// Routes of the code interpreter. A context is an interpreter process that keeps its state; a cell
// is one piece of code that it runs. Contexts and cells live in box/context; here requests are
// decoded and the output of cells becomes events. A cell runs on when its client disconnects.
//
// A cell's tape has text on both streams; stdout also has events of its driver (protocol/cell.h).
// Text becomes events of ours. Driver events are validated, then forwarded as they are: any code in
// the context can write there. The end of a cell is reported last and exactly once. The driver's
// end event is held back until the real end is known: a process that died, timed out or exceeded
// the tape may not have sent it, or may have lied.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "codec/json_part.h"
#include "codec/json_scan.h"
#include "codec/sse.h"
#include "codec/text.h"
#include "gateway/cancel_on_delete.h"
#include "manager/contexts.h"
#include "protocol/cell.h"
#include "toolbox/follow.h"
#include "toolbox/handlers.h"

#define FLUSH (32 * 1024)
#define RECORD_SOON_MS 2
#define WHY_MAX 256
#define TAIL 3 // longest incomplete UTF-8 sequence

// The position of a client in a cell's output: all that was sent before an event. The event's id is
// "12.0.1", and a client that resumes with it gets everything after these counts.
struct cells_from {
	uint64_t text[TAPE_STREAMS]; // bytes
	uint64_t events;	     // of the driver
};

struct feed {
	struct follow follow;
	struct cell cell;
	struct buf last; // the driver's end event
	bool failed;	 // the driver's end event says that the cell failed
	struct cells_from sent, skip;
	struct {
		char bytes[TAIL];
		size_t len;
	} cut[TAPE_STREAMS];
};

static void feed_done(struct feed *feed)
{
	follow_done(&feed->follow);
	cell_done(&feed->cell);
	buf_done(&feed->last);
}

static bool cells_from_read(struct str text, struct cells_from *out)
{
	struct cells_from from = {0};
	uint64_t *const parts[] = {&from.text[TAPE_STDOUT], &from.text[TAPE_STDERR], &from.events};
	struct str part;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (!str_cut(&text, '.', &part) || !str_to_u64(part, 0, INT64_MAX, parts[i]))
			return false;
	if (text.len)
		return false;
	*out = from;
	return true;
}

static void cells_put_id(struct feed *feed)
{
	const struct cells_from *sent = &feed->sent;

	buf_fmt(&feed->follow.out, "id: %llu.%llu.%llu\n",
		(unsigned long long)sent->text[TAPE_STDOUT],
		(unsigned long long)sent->text[TAPE_STDERR], (unsigned long long)sent->events);
}

static struct json_out event_begin(struct feed *feed, const char *type)
{
	cells_put_id(feed);
	return gateway_event(&feed->follow.out, type);
}

static void cells_put_text(struct feed *feed, enum tape_stream stream, struct str text)
{
	struct json_out out;

	if (!text.len)
		return;
	out = event_begin(feed, stream == TAPE_STDOUT ? "stdout" : "stderr");
	json_put_str(&out, "text", text);
	gateway_event_end(&out);
}

// An incomplete UTF-8 sequence is held back until its last byte arrives.
static void cells_add_text(struct feed *feed, enum tape_stream stream, struct str text)
{
	uint64_t skip = feed->skip.text[stream] < text.len ? feed->skip.text[stream] : text.len;
	size_t old = feed->cut[stream].len, now;
	char *joined = NULL;

	feed->skip.text[stream] -= skip;
	feed->sent.text[stream] += skip;
	text = str_skip(text, (size_t)skip);
	if (old) {
		joined = mem_new(old + text.len);
		memcpy(joined, feed->cut[stream].bytes, old);
		memcpy(joined + old, text.at, text.len);
		text = (struct str){joined, old + text.len};
	}
	now = text_utf8_whole(text);
	feed->sent.text[stream] += now;
	cells_put_text(feed, stream, (struct str){text.at, now});
	feed->cut[stream].len = text.len - now;
	memcpy(feed->cut[stream].bytes, text.at + now, text.len - now);
	free(joined);
}

static void flush_cut(struct feed *feed, enum tape_stream stream)
{
	feed->sent.text[stream] += feed->cut[stream].len;
	cells_put_text(feed, stream, (struct str){feed->cut[stream].bytes, feed->cut[stream].len});
	feed->cut[stream].len = 0;
}

static void on_text(void *arg, struct str bytes)
{
	cells_add_text(arg, TAPE_STDOUT, bytes);
}

static void put_event(struct feed *feed, struct str json)
{
	cells_put_id(feed);
	sse_put(&feed->follow.out, (struct str){0}, (struct str){0}, json);
}

static bool is_end(struct str type)
{
	return str_is(type, "\"error\"") || str_is(type, "\"execution_complete\"");
}

static void cells_on_event(void *arg, struct str bytes)
{
	struct feed *feed = arg;
	auto_buf rest = BUF_INIT(CELL_EVENT_MAX);
	struct json_scan scan;
	struct str type = {0};

	flush_cut(feed, TAPE_STDOUT);
	feed->sent.events++;
	if (!json_scan(bytes, &scan) || !json_part(scan.value, "type", &rest, &type) ||
	    !(is_end(type) || str_is(type, "\"result\""))) {
		if (feed->sent.events > feed->skip.events)
			cells_put_text(feed, TAPE_STDERR,
				       STR("[cove: an event was malformed and left out]\n"));
		return;
	}
	if (is_end(type)) {
		feed->failed = str_is(type, "\"error\"");
		buf_clear(&feed->last);
		buf_str(&feed->last, scan.value);
		return;
	}
	if (feed->sent.events > feed->skip.events)
		put_event(feed, scan.value);
}

static fallible cells_pass_on(struct feed *feed)
{
	struct follow *follow = &feed->follow;
	enum tape_stream stream = TAPE_STDOUT;
	size_t len;

	do {
		TRY(follow_next(follow, &stream, &len));
		if (len && stream == TAPE_STDOUT)
			cell_read(&feed->cell, (struct str){follow->room, len});
		else if (len)
			cells_add_text(feed, stream, (struct str){follow->room, len});
		if (follow->out.len >= FLUSH)
			TRY(follow_flush(follow));
	} while (!tape_reader_is_done(&follow->reader));
	cell_end(&feed->cell);
	for (int i = 0; i < TAPE_STREAMS; i++)
		flush_cut(feed, (enum tape_stream)i);
	if (follow->reader.cut)
		cells_put_text(feed, TAPE_STDERR, STR("[cove: more was written than is kept]\n"));
	return OK;
}

static void cells_put_error(struct feed *feed, const char *name, const char *why)
{
	struct json_out out = event_begin(feed, "error");

	json_put_text(&out, "ename", name);
	json_put_text(&out, "evalue", why);
	json_put_begin(&out, "traceback", '[');
	json_end(&out, ']');
	gateway_event_end(&out);
}

// Reports that the process ended while the cell ran.
static void put_death(struct feed *feed, const struct context_result *result)
{
	const char *name = "ContextDied", *signal = sigabbrev_np(result->exec.signal);
	char why[WHY_MAX];

	if (result->timed_out) {
		name = "TimeoutError";
		snprintf(why, sizeof(why),
			 "the cell ran longer than %llu ms and ignored its interrupt: the "
			 "context has ended",
			 (unsigned long long)result->timeout_ms);
	} else if (result->deleted) {
		name = "ContextDeleted";
		snprintf(why, sizeof(why), "the context was deleted or restarted under the cell");
	} else if (result->exec.ending == ENDING_OOM) {
		name = "MemoryError";
		snprintf(why, sizeof(why),
			 "the memory of the sandbox ran out: the context has ended");
	} else if (result->exec.ending == ENDING_KILLED_BY_API) {
		snprintf(why, sizeof(why),
			 "the context was ended under the cell, by the server "
			 "or with the sandbox");
	} else if (result->exec.ending == ENDING_BOX_LOST) {
		name = "SandboxLost";
		snprintf(why, sizeof(why), "the sandbox has ended");
	} else if (result->exec.signal) {
		snprintf(why, sizeof(why),
			 "the interpreter was killed by SIG%s: the context has ended",
			 signal ? signal : "?");
	} else {
		snprintf(why, sizeof(why),
			 "the interpreter exited with status %d: the context has ended",
			 result->exec.exit_code);
	}
	cells_put_error(feed, name, why);
}

static void cells_put_end(struct feed *feed, const struct context_result *result)
{
	char why[WHY_MAX];
	struct json_out out;

	if (result->end == CONTEXT_DIED) {
		put_death(feed, result);
	} else if (result->timed_out && (result->unseen ? feed->failed : result->status)) {
		snprintf(why, sizeof(why), "the cell ran longer than %llu ms and was interrupted",
			 (unsigned long long)result->timeout_ms);
		cells_put_error(feed, "TimeoutError", why);
	} else if (feed->last.len && buf_ok(&feed->last)) {
		put_event(feed, buf_view(&feed->last));
	} else if (result->status || result->unseen) {
		cells_put_error(feed, "Error",
				"the cell failed; its error was in output that was not kept");
	} else {
		out = event_begin(feed, "execution_complete");
		json_put_int(&out, "execution_count", (int64_t)result->count);
		gateway_event_end(&out);
	}
}

// Waits until the cell's record is durable before its number is sent: a later daemon must know it.
// Most cells have output by then.
static fallible await_record(struct http *x, struct context_run *run)
{
	int64_t soon = loop_now(gateway_of(x)->loop) + RECORD_SOON_MS;
	struct err *err = context_run_await_record(run, soon);

	if (!err || err_kind(err) != ERR_TIMEOUT)
		return err;
	err_free(err);
	return http_while_away(x, HTTP_PROBE_HEAD, context_run_await_record(run, CLOCK_NEVER));
}

// Sends the events from that position on. The last event is `execution_complete` or `error`.
static fallible cells_follow(struct http *x, struct context_run *run, const struct cells_from *from,
			     struct context_result *out)
{
	on_exit_call(feed_done) struct feed feed = {
		.follow = {.x = x, .tape = context_run_tape(run), .encoding = EXEC_REQUEST_UTF8},
		.last = BUF_INIT(CELL_EVENT_MAX),
		.skip = *from,
	};
	auto_buf key = BUF_INIT(CELL_KEY + 2);
	struct err *err;

	feed.cell = (struct cell){.text = on_text, .event = cells_on_event, .arg = &feed};
	feed.follow.out = BUF_INIT(2 * CELL_EVENT_MAX + FOLLOW_OUT_MAX);
	follow_prepare(&feed.follow);
	cell_put_key(&key, context_run_key(run));
	cell_read(&feed.cell, buf_view(&key));
	TRY(await_record(x, run));
	if (context_run_is_recorded(run))
		http_set(x, "X-Cell",
			 str_of(arena_fmt(x->arena, "%llu",
					  (unsigned long long)context_run_number(run))));
	TRY(cells_pass_on(&feed));
	err = context_run_wait(run, CLOCK_NEVER, out);
	if (err && !x->reply_begun)
		return err;
	if (err) {
		cells_put_error(&feed,
				err_kind(err) == ERR_NOT_FOUND ? "ContextDeleted" : "ContextDied",
				err_message(err));
		err_free(err);
	} else {
		cells_put_end(&feed, out);
	}
	return follow_end(&feed.follow);
}

// ------------------------------------------------------------------------------- routes

#define BODY_MAX (512 * 1024)
#define CWD_MAX 4095
#define TIME_MAX (1ull << 42)

fallible interpreter_serve(struct http *x, route_fn *work)
{
	struct err *err = work(x);

	if (!err || err_kind(err) == ERR_CANCELLED)
		return err;
	return error_response_answer(x, err, &(struct error_response_detail){.twice = true});
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
	TRY(gateway_box(x, ref));
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

	TRY(gateway_box(x, &ref));
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

	TRY(gateway_box(x, &ref));
	json_put_begin(&out, "contexts", '[');
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

	TRY(gateway_json(x, &json, NULL));
	if (json) {
		TRY(json_want(json, "body", JSON_OBJECT));
		TRY(read_create(x, json, &env, &spec));
	}
	TRY(gateway_box(x, ref));
	return http_while_away(x, HTTP_PROBE_HEAD, contexts_create(ref, &spec, out));
}

fallible toolbox_interpreter_create(struct http *x)
{
	auto_box_ref ref = {0};
	auto_context context = NULL;
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = gateway_success(&body);
	struct context_view view;

	TRY(interpreter_create(x, &ref, &context));
	view = context_view(context);
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

	TRY(find_named(x, &ref, &context));
	context_delete(context);
	return interpreter_answer(x, context, NULL, false);
}

fallible toolbox_interpreter_interrupt(struct http *x)
{
	auto_box_ref ref = {0};
	auto_context context = NULL;

	TRY(find_named(x, &ref, &context));
	return interpreter_answer(x, context, "interrupted", context_interrupt(context));
}

fallible toolbox_interpreter_restart(struct http *x)
{
	auto_box_ref ref = {0};
	auto_context context = NULL;

	TRY(find_named(x, &ref, &context));
	TRY(http_while_away(x, HTTP_PROBE_HEAD, contexts_restart(&ref, context)));
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
	TRY(gateway_box(x, ref));
	TRY(interpreter_pick(ref, json, &context));
	return contexts_run(ref, context, json_chars(code), timeout_ms, out);
}

fallible toolbox_interpreter_run(struct http *x)
{
	auto_box_ref ref = {0};
	auto_context_run run = NULL;
	struct context_result result = {0};

	TRY(interpreter_start(x, &ref, &run));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	TRY(cells_follow(x, run, &(struct cells_from){0}, &result));
	contexts_report(&ref, &result);
	return OK;
}

// Finds a context of a sandbox in any state: its records can be read after the sandbox stopped.
static fallible interpreter_look(struct http *x, struct box_ref *ref, struct context **out)
{
	TRY(gateway_look(x, ref));
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
	struct json_out out = gateway_success(&body);

	TRY(interpreter_look(x, &ref, &context));
	json_put_text(&out, "contextId", context_view(context).id);
	json_put_begin(&out, "cells", '[');
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

	TRY(find_cell(x, &ref, &from, &run));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	http_be_patient(x);
	return cells_follow(x, run, &from, &result);
}
