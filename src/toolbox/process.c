// Processes: records, signals and input. A record is looked up for each request and referenced
// while the request waits. Records can be read as long as the sandbox is in memory, in any state;
// signals and input need a running process. A write to stdin waits until the process reads, at most
// PATIENCE_MS; the answer says how many bytes were accepted. process_output.c has their output.
#include "toolbox/process.h"

#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/text.h"
#include "gateway/cancel_on_delete.h"
#include "toolbox/stream_json.h"

#define CONTEXT_MAX (32 * 1024)
#define TIME_MAX (1ull << 42)

fallible process_find(struct process *process)
{
	struct str id = process->x->params[1];

	TRY(gateway_look(process->x, &process->ref));
	process->proc = procs_find(process->ref.box, id);
	if (!process->proc)
		return err_hint(err_new(NOT_FOUND, "no_process", "Process not found: " STR_FMT,
					STR_ARG(id)),
				"GET …/api/process/list shows those there are");
	process->tape = proc_tape(process->proc);
	tape_ref(process->tape);
	return OK;
}

void process_done(struct process *process)
{
	tape_unref(process->tape);
	if (process->proc)
		proc_unref(process->proc);
	box_ref_end(&process->ref);
}

struct json_out process_answer(struct buf *body, const char *id)
{
	struct json_out out = gateway_success(body);

	if (id)
		json_put_text(&out, "processId", id);
	return out;
}

void process_put_end(struct json_out *out, const struct proc_view *view,
		     const struct follow *follow)
{
	json_put_text(out, "status", proc_status_word(view->status));
	if (view->ended_ms && view->exit_code >= 0)
		json_put_int(out, "exitCode", view->exit_code);
	if (view->error)
		json_put_text(out, "error", view->error);
	if (view->result && follow)
		follow_put_result(follow, out, view->result);
	else if (view->result)
		follow_put_ending(out, view->result);
}

fallible process_answer_end(const struct process *process)
{
	auto_buf body = BUF_INIT(STREAM_JSON_OUT_MAX);
	struct proc_view view = proc_look(process->proc);
	struct json_out out = process_answer(&body, view.id);

	process_put_end(&out, &view, NULL);
	return gateway_answer(process->x, &out);
}

static fallible process_fail(const struct process *process, const char *operation, struct err *err)
{
	auto_buf context = BUF_INIT(1 << 20);
	struct error_response_detail detail = {.operation = operation};
	struct json_out out = json_to(&context);

	json_begin(&out, '{');
	if (process->condition) {
		struct proc_view view = proc_look(process->proc);

		json_put_text(&out, "processId", view.id);
		json_put_text(&out, "command", view.command);
		json_put_text(&out, "condition", process->condition);
		json_put_int(&out, "timeout", (int64_t)process->timeout_ms);
		if (view.ended_ms)
			json_put_int(&out, "exitCode", view.exit_code);
	} else {
		json_put_str(&out, "processId", process->x->params[1]);
	}
	json_end(&out, '}');
	if (buf_ok(&context) && context.len < CONTEXT_MAX)
		detail.context = buf_view(&context);
	return error_response_answer(process->x, err, &detail);
}

fallible process_serve(struct http *x, const char *operation, process_fn *work)
{
	auto_process process = {.x = x};
	struct err *err = work(&process);

	return err ? process_fail(&process, operation, err) : OK;
}

fallible process_encoding(struct http *x, enum exec_request_encoding *out)
{
	struct str word = http_query(x, "encoding");

	if (!word.at || str_is(word, "utf8") || str_is(word, "utf-8"))
		*out = EXEC_REQUEST_UTF8;
	else if (str_is(word, "base64"))
		*out = EXEC_REQUEST_BASE64;
	else if (str_is(word, "auto"))
		*out = EXEC_REQUEST_AUTO;
	else
		return err_new(INVALID, "bad_field", "'encoding' must be utf8, base64 or auto");
	return OK;
}

fallible process_timeout(struct http *x, uint64_t *out)
{
	struct str text = http_query(x, "timeoutMs");

	if (text.at && !str_to_u64(text, 0, TIME_MAX, out))
		return err_new(INVALID, "bad_field",
			       "'timeoutMs' must be a number of milliseconds");
	return OK;
}

static fallible process_spawn(struct http *x, const struct json *json, struct exec_request *request,
			      struct process *out)
{
	struct spawn spec = {.shown = request->shown, .keep_error = true};

	TRY(exec_request_not_blank(request));
	request->field = "processId";
	TRY(json_str(json_get(json, "processId"), "processId", &spec.id));
	request->field = "autoCleanup";
	TRY(json_bool(json_get(json, "autoCleanup"), "autoCleanup", &spec.auto_cleanup));
	request->field = "openStdin";
	TRY(json_bool(json_get(json, "openStdin"), "openStdin", &spec.open_stdin));
	request->field = "processId";
	spec.session = request->session;
	spec.state_of = request->in_session;
	TRY(gateway_box(x, &out->ref));
	return spawn_process(&out->ref, &request->spec, &spec, &out->proc);
}

fallible toolbox_process_begin(struct http *x, const struct json *json,
			       struct exec_request *request)
{
	auto_process process = {0};
	auto_buf body = BUF_INIT(STREAM_JSON_OUT_MAX + 8 * request->shown.len);
	struct err *err = process_spawn(x, json, request, &process);
	struct proc_view view;
	struct json_out out;

	if (err)
		return exec_request_fail(x, request, "process.start", err);
	view = proc_look(process.proc);
	out = process_answer(&body, view.id);
	json_put_int(&out, "pid", view.pid);
	json_put_str(&out, "command", request->shown);
	if (request->session.at)
		json_put_str(&out, "sessionId", request->session);
	return gateway_answer(x, &out);
}

fallible toolbox_process_start(struct http *x)
{
	auto_json json = NULL;
	auto_exec_request request = {.field = "body"};
	struct err *err = gateway_json(x, &json, NULL);

	if (!err)
		err = exec_request_read(x, json, &request);
	if (err)
		return exec_request_fail(x, &request, "process.start", err);
	return toolbox_process_begin(x, json, &request);
}

static void put_process(struct json_out *out, const struct proc_view *view, const struct tape *tape)
{
	json_begin(out, '{');
	json_put_text(out, "id", view->id);
	json_put_int(out, "pid", view->pid);
	json_put_text(out, "command", view->command);
	json_put_time(out, "startTime", view->started_ms);
	if (view->ended_ms)
		json_put_time(out, "endTime", view->ended_ms);
	if (view->session)
		json_put_text(out, "sessionId", view->session);
	process_put_end(out, view, NULL);
	if (tape_truncated(tape, TAPE_STDOUT) || tape_truncated(tape, TAPE_STDERR)) {
		json_put_int(out, "keptBytes", (int64_t)tape_kept(tape));
		json_put_int(
			out, "totalBytes",
			(int64_t)(tape_bytes(tape, TAPE_STDOUT) + tape_bytes(tape, TAPE_STDERR)));
	}
	json_end(out, '}');
}

struct chosen {
	struct str status; // at == NULL: all
	struct proc **procs;
	size_t count, text;
};

static void process_choose(struct proc *proc, void *arg)
{
	struct chosen *chosen = arg;
	struct proc_view view = proc_look(proc);

	if (chosen->status.at && !str_is(chosen->status, proc_status_word(view.status)))
		return;
	proc_ref(proc);
	chosen->procs = mem_grow(chosen->procs, chosen->count + 1, sizeof(struct proc *));
	chosen->procs[chosen->count++] = proc;
	chosen->text += strlen(view.command) + 512;
}

static void chosen_done(struct chosen *chosen)
{
	for (size_t i = 0; i < chosen->count; i++)
		proc_unref(chosen->procs[i]);
	free(chosen->procs);
}

static fallible send_list(struct http *x, const struct chosen *chosen)
{
	auto_buf body = BUF_INIT(8 * STREAM_JSON_OUT_MAX);
	struct stream_json writer = {.out = &body};
	struct json_out out = process_answer(&body, NULL);

	TRY(stream_json_begin(&writer, x, 0, chosen->text));
	json_put_begin(&out, "processes", '[');
	for (size_t i = 0; i < chosen->count; i++) {
		struct proc_view view = proc_look(chosen->procs[i]);

		put_process(&out, &view, proc_tape(chosen->procs[i]));
		TRY(stream_json_flush(&writer));
	}
	json_end(&out, ']');
	gateway_put_now(&out);
	json_end(&out, '}');
	return stream_json_end(&writer, x);
}

static fallible check_status(struct str status)
{
	for (int i = 0; status.at && i < PROC_STATUS_COUNT; i++)
		if (str_is(status, proc_status_word((enum proc_status)i)))
			return OK;
	if (!status.at)
		return OK;
	return err_hint(err_new(INVALID, "bad_field", "'status' is not a process status"),
			"use starting, running, completed, failed, killed or error");
}

fallible toolbox_process_list(struct process *process)
{
	on_exit_call(chosen_done) struct chosen chosen = {
		.status = http_query(process->x, "status")};

	TRY(check_status(chosen.status));
	TRY(gateway_look(process->x, &process->ref));
	procs_each(process->ref.box, process_choose, &chosen);
	return send_list(process->x, &chosen);
}

// ?times=true: how many bytes it has written, and when.
static void put_times(struct json_out *out, const struct tape *tape)
{
	size_t count;
	const struct tape_time *times = tape_times(tape, &count);

	json_put_int(out, "outputBytes", (int64_t)tape_kept(tape));
	json_put_begin(out, "outputTimes", '[');
	for (size_t i = 0; i < count; i++) {
		json_begin(out, '{');
		json_put_int(out, "offset", (int64_t)times[i].offset);
		json_put_time(out, "time", times[i].ms);
		json_end(out, '}');
	}
	json_end(out, ']');
}

fallible toolbox_process_get(struct process *process)
{
	auto_buf body = BUF_INIT(STREAM_JSON_OUT_MAX);
	struct json_out out = process_answer(&body, NULL);
	struct proc_view view;

	TRY(process_find(process));
	view = proc_look(process->proc);
	json_key(&out, "process");
	put_process(&out, &view, process->tape);
	if (str_is(http_query(process->x, "times"), "true"))
		put_times(&out, process->tape);
	return gateway_answer(process->x, &out);
}

fallible toolbox_process_delete(struct process *process)
{
	TRY(process_find(process));
	TRY(proc_stop(process->proc));
	return process_answer_end(process);
}

static fallible answer_count(struct http *x, uint32_t count)
{
	auto_buf body = BUF_INIT(4096);
	struct json_out out = process_answer(&body, NULL);

	json_put_int(&out, "cleanedCount", count);
	return gateway_answer(x, &out);
}

fallible toolbox_process_kill_all(struct process *process)
{
	uint32_t count = 0;

	TRY(gateway_look(process->x, &process->ref));
	TRY(procs_stop_all(process->ref.box, &count));
	return answer_count(process->x, count);
}

fallible toolbox_process_clean(struct process *process)
{
	TRY(gateway_look(process->x, &process->ref));
	return answer_count(process->x, procs_clean(process->ref.box));
}

#define PIECE (64 * 1024)
#define DATA_MAX (1 << 20)
#define PATIENCE_MS 30000 // limit for a process that does not read its stdin

struct feed {
	struct proc *proc;
	int64_t patience_ms;
	bool close;
	uint64_t bytes;
};

static fallible process_feed_write_some(struct feed *feed, struct http *x, struct str bytes)
{
	struct err *err;

	if (!bytes.len)
		return OK;
	TRY(http_away(x, HTTP_PROBE_HEAD));
	err = proc_write(feed->proc, bytes, loop_now(gateway_of(x)->loop) + feed->patience_ms);
	http_back(x);
	if (err && err_kind(err) == ERR_TIMEOUT)
		return err_hint(err_recast(err, ERR_TIMEOUT, "stdin_full",
					   "the process does not read its input"),
				"%llu bytes were taken", (unsigned long long)feed->bytes);
	TRY(err);
	feed->bytes += bytes.len;
	return OK;
}

static fallible feed_json(struct feed *feed, struct http *x)
{
	auto_json json = NULL;
	auto_buf plain = BUF_INIT(DATA_MAX);
	struct str data = {0}, how = STR("utf8");

	TRY(gateway_object(x, &json));
	TRY(json_str(json_get(json, "data"), "data", &data));
	TRY(json_str(json_get(json, "encoding"), "encoding", &how));
	TRY(json_bool(json_get(json, "close"), "close", &feed->close));
	if (!str_is(how, "utf8") && !str_is(how, "base64"))
		return err_new(INVALID, "bad_field", "'encoding' must be utf8 or base64");
	if (data.at && str_is(how, "base64")) {
		if (!text_unbase64(&plain, data))
			return err_new(INVALID, "bad_field", "'data' is not base64");
		data = buf_view(&plain);
	}
	return process_feed_write_some(feed, x, data);
}

static fallible feed_raw(struct feed *feed, struct http *x)
{
	char *room = arena_take(x->arena, PIECE);
	size_t len;

	TRY(gateway_flag(x, "close", &feed->close));
	do {
		TRY(http_read(x, room, PIECE, &len));
		TRY(process_feed_write_some(feed, x, (struct str){room, len}));
	} while (len);
	return OK;
}

static fallible feed_process(struct feed *feed, struct http *x)
{
	uint64_t patience = PATIENCE_MS;

	TRY(process_timeout(x, &patience));
	feed->patience_ms = (int64_t)patience;
	if (str_starts(http_field(x, "Content-Type"), "application/json"))
		TRY(feed_json(feed, x));
	else
		TRY(feed_raw(feed, x));
	return feed->close ? proc_close_stdin(feed->proc) : OK;
}

fallible toolbox_process_stdin(struct process *process)
{
	auto_buf body = BUF_INIT(4096);
	struct feed feed = {0};
	struct json_out out;

	TRY(process_find(process));
	feed.proc = process->proc;
	TRY(feed_process(&feed, process->x));
	out = process_answer(&body, proc_look(process->proc).id);
	json_put_int(&out, "bytes", (int64_t)feed.bytes);
	json_put_bool(&out, "closed", feed.close);
	return gateway_answer(process->x, &out);
}

fallible process_read_signal(const struct json *value, int *out)
{
	struct str word = {0};
	uint64_t number = SIGTERM;

	if (value && json_type(value) == JSON_NUMBER) {
		TRY(json_u64(value, "signal", 1, 64, &number));
		*out = (int)number;
		return OK;
	}
	TRY(json_str(value, "signal", &word));
	if (str_starts(word, "SIG"))
		word = str_skip(word, 3);
	for (int i = 1; word.len && i < NSIG; i++) {
		const char *name = sigabbrev_np(i);

		if (name && str_is(word, name)) {
			*out = i;
			return OK;
		}
	}
	if (!word.at) {
		*out = SIGTERM;
		return OK;
	}
	return err_hint(err_new(INVALID, "bad_field", "there is no such signal"),
			"use a name like SIGINT, or a number from 1 to 64");
}

fallible toolbox_process_signal(struct process *process)
{
	auto_buf body = BUF_INIT(4096);
	auto_json json = NULL;
	struct json_out out;
	int signal = 0;

	TRY(gateway_json(process->x, &json, NULL));
	if (json)
		TRY(json_want(json, "body", JSON_OBJECT));
	TRY(process_read_signal(json ? json_get(json, "signal") : NULL, &signal));
	TRY(process_find(process));
	TRY(proc_signal(process->proc, signal));
	out = process_answer(&body, proc_look(process->proc).id);
	json_put_int(&out, "signal", signal);
	json_put_text(&out, "status", proc_status_word(proc_look(process->proc).status));
	return gateway_answer(process->x, &out);
}
