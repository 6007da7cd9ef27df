// Executions: submitted, followed, and their results. A handle is an id and the last record of the
// server. Waits and streams go on over lost connections; a wait is asked for in pieces, so that no
// proxy takes it for a dead one.
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "lib/file.h"
#include "lib/http_call.h"
#include "lib/sink.h"

#define EXECUTIONS "/v1/executions"
#define BODY_MAX ((size_t)64 << 20)
#define WAIT_MS 25000 // of one request
#define LOG_MS 100    // until a command that is about to begin is asked for its log again
#define PIECE (64 * 1024)

struct cove_execution {
	struct cove *cove;
	char *id, *base;   // "/v1/executions/ID"
	struct json *info; // the last record; NULL: none yet
	char *text;	   // the same, unparsed
};

struct cove_execution *cove_execution_at(struct cove *cove, const char *id)
{
	struct cove_execution *execution = mem_new_of(struct cove_execution);
	auto_buf base = BUF_INIT(1 << 20);

	buf_text(&base, EXECUTIONS "/");
	text_percent(&base, str_of(id));
	execution->cove = cove;
	execution->id = mem_str(id);
	execution->base = buf_take(&base);
	return execution;
}

const char *cove_execution_id(const struct cove_execution *execution)
{
	return execution->id;
}

void cove_execution_free(struct cove_execution *execution)
{
	if (!execution)
		return;
	json_free(execution->info);
	free(execution->text);
	free(execution->id);
	free(execution->base);
	free(execution);
}

static fallible lib_execution_learn(struct cove_execution *execution, struct buf *text)
{
	auto_json info = NULL;

	TRY(http_call_object(buf_view(text), &info));
	json_free(execution->info);
	free(execution->text);
	execution->info = take_ptr(info);
	execution->text = buf_take(text);
	return OK;
}

// Makes a handle from a record.
static fallible lib_execution_born(struct cove *cove, struct buf *text, struct cove_execution **out)
{
	auto_json info = NULL;
	struct cove_execution *execution;
	struct err *err;

	TRY(http_call_object(buf_view(text), &info));
	if (!*fields_text(info, "id"))
		return err_new(BAD_PEER, "bad_reply", "the daemon gave an execution but no id");
	execution = cove_execution_at(cove, fields_text(info, "id"));
	err = lib_execution_learn(execution, text);
	if (err) {
		cove_execution_free(execution);
		return err;
	}
	*out = execution;
	return OK;
}

// -------------------------------------------------------------------------------- submit

static void lib_execution_put_limits(struct json_out *out, const struct cove_execution_spec *spec)
{
	json_key(out, "limits");
	json_begin(out, '{');
	fields_put_number(out, "memoryMB", (double)spec->memory_mb);
	fields_put_number(out, "storageMB", (double)spec->storage_mb);
	fields_put_number(out, "networkRequests", (double)spec->network_requests);
	fields_put_number(out, "pids", (double)spec->pids);
	fields_put_number(out, "cpus", spec->cpus);
	fields_put_number(out, "cpuTimeMs", (double)spec->cpu_time_ms);
	fields_put_number(out, "wallTimeMs", (double)spec->wall_time_ms);
	json_end(out, '}');
}

static fallible lib_execution_put(struct buf *to, const struct cove_execution_spec *spec)
{
	const struct cove_command command = {
		.line = spec->line, .argv = spec->argv, .env = spec->env, .cwd = spec->cwd};
	struct str input = {spec->input, spec->input_len};
	struct json_out out = json_to(to);

	json_begin(&out, '{');
	fields_put_text(&out, "taskId", spec->task_id);
	fields_put_text(&out, "agentType", spec->agent_type);
	fields_put_text(&out, "profile", spec->profile);
	TRY(fields_ask(&out, &command));
	if (input.at && !text_is_utf8(input))
		return err_hint(err_new(INVALID, "bad_field", "the standard input is not text"),
				"give it as a file");
	if (input.at)
		json_put_str(&out, "stdin", input);
	if (spec->context) {
		json_key(&out, "context");
		json_add_raw(&out, str_of(spec->context));
	}
	fields_files(&out, spec->files, spec->file_count);
	if (spec->artifacts || spec->artifacts_required || spec->artifacts_mb) {
		json_key(&out, "artifacts");
		json_begin(&out, '{');
		fields_names(&out, "paths", spec->artifacts);
		if (spec->artifacts_required)
			json_put_bool(&out, "required", true);
		fields_put_number(&out, "maxMB", (double)spec->artifacts_mb);
		json_end(&out, '}');
	}
	fields_network(&out, spec->network, spec->allow);
	fields_names(&out, "secrets", spec->secrets);
	lib_execution_put_limits(&out, spec);
	fields_put_text(&out, "template", spec->from);
	fields_put_text(&out, "image", spec->image);
	fields_put_text(&out, "pull", spec->pull);
	TRY(fields_volumes(&out, spec->volumes));
	TRY(fields_pairs(&out, "labels", spec->labels));
	if (spec->no_queue)
		json_put_bool(&out, "queue", false);
	fields_put_number(&out, "queueTimeoutMs", (double)spec->queue_timeout_ms);
	fields_put_text(&out, "retry", spec->retry);
	json_end(&out, '}');
	return buf_ok(to) ? OK
			  : err_new(TOO_LARGE, "body_too_large",
				    "the execution's files and context "
				    "are too large");
}

static fallible lib_execution_submit(struct cove *cove, const struct cove_execution_spec *spec,
				     struct cove_execution **out)
{
	auto_buf body = BUF_INIT(BODY_MAX), text = BUF_INIT(PRIVATE_REPLY_MAX);

	TRY(lib_execution_put(&body, spec));
	TRY(http_call_text(cove, "POST", EXECUTIONS, spec->key, &body, &text));
	return lib_execution_born(cove, &text, out);
}

enum cove_kind cove_execution_submit(struct cove *cove, const struct cove_execution_spec *spec,
				     struct cove_execution **out, struct cove_error *error)
{
	return private_call(cove, lib_execution_submit(cove, spec, out), error);
}

// -------------------------------------------------------------------------------- record

static bool lib_execution_has_ended(const struct cove_execution *execution)
{
	const char *state = fields_text(execution->info, "state");

	return strcmp(state, "completed") == 0 || strcmp(state, "failed") == 0;
}

static void lib_execution_show(const struct cove_execution *execution,
			       struct cove_execution_info *out)
{
	const struct json *info = execution->info;

	if (!out)
		return;
	*out = (struct cove_execution_info){
		.id = execution->id,
		.task_id = fields_text(info, "taskId"),
		.state = fields_text(info, "state"),
		.outcome = fields_text(info, "outcome"),
		.reason = fields_text(info, "reason"),
		.sandbox = fields_text(info, "sandbox"),
		.ended = lib_execution_has_ended(execution),
		.exit_code = (int)fields_number(info, "exitCode", 0),
		.json = execution->text,
	};
}

static fallible lib_execution_look(struct cove_execution *execution, const char *rest)
{
	auto_free char *path = mem_fmt("%s%s", execution->base, rest);
	auto_buf text = BUF_INIT(PRIVATE_REPLY_MAX);

	TRY(http_call_text(execution->cove, "GET", path, NULL, NULL, &text));
	return lib_execution_learn(execution, &text);
}

enum cove_kind cove_execution_info(struct cove_execution *execution,
				   struct cove_execution_info *out, struct cove_error *error)
{
	struct err *err;

	private_begin(execution->cove);
	err = lib_execution_look(execution, "");
	if (!err)
		lib_execution_show(execution, out);
	return private_end(execution->cove, err, error);
}

static bool lib_execution_is(const struct cove_execution *execution, const char *what)
{
	const char *state = fields_text(execution->info, "state");

	if (lib_execution_has_ended(execution) || strcmp(what, "done") == 0)
		return lib_execution_has_ended(execution);
	return strcmp(state, "running") == 0 || strcmp(state, what) == 0;
}

// Repeated when the connection is lost: waiting twice is harmless.
static fallible lib_execution_wait(struct cove_execution *execution, const char *what,
				   int64_t timeout_ms)
{
	int64_t deadline = timeout_ms < 0 ? CLOCK_NEVER : clock_ms() + timeout_ms;

	for (int lost = 0;;) {
		int64_t left = deadline == CLOCK_NEVER ? WAIT_MS : deadline - clock_ms();
		auto_free char *rest = NULL;
		auto_err err = OK;

		left = left < 1 ? 1 : left > WAIT_MS ? WAIT_MS : left;
		rest = mem_fmt("/wait?for=%s&timeoutMs=%lld", what, (long long)left);
		err = lib_execution_look(execution, rest);
		if (err && (!private_is_lost(execution->cove, err) || ++lost > HTTP_CALL_RETRIES))
			return take_ptr(err);
		if (!err && lib_execution_is(execution, what))
			return OK;
		if (deadline != CLOCK_NEVER && clock_ms() >= deadline)
			return err_new(TIMEOUT, "timeout", "the execution is not %s yet", what);
		if (!err)
			lost = 0;
		else if (private_rest(execution->cove, HTTP_CALL_RETRY_MS))
			return err_new(CANCELLED, "cancelled", "the call was cancelled");
		private_begin(execution->cove);
	}
}

enum cove_kind cove_execution_wait(struct cove_execution *execution, const char *what,
				   int64_t timeout_ms, struct cove_execution_info *out,
				   struct cove_error *error)
{
	struct err *err;

	private_begin(execution->cove);
	err = lib_execution_wait(execution, what, timeout_ms);
	if (!err)
		lib_execution_show(execution, out);
	return private_end(execution->cove, err, error);
}

// ------------------------------------------------------------------------------- results

// "/logs" of the streams that the sink takes.
static char *lib_execution_log_path(const struct cove_execution *execution, int attempt,
				    const struct cove_sink *sink, const char *rest)
{
	const char *stream = !sink->on_stderr ? "stdout" : !sink->on_stdout ? "stderr" : "both";
	auto_buf path = BUF_INIT(1 << 20);

	buf_fmt(&path, "%s/logs?stream=%s%s", execution->base, stream, rest);
	if (attempt)
		buf_fmt(&path, "&attempt=%d", attempt);
	return buf_take(&path);
}

// Reads one stream of the kept output as bytes.
static fallible lib_execution_copy(struct cove_execution *execution, int attempt, bool is_stderr,
				   const struct cove_sink *sink)
{
	const struct cove_sink one = {.on_stdout = is_stderr ? NULL : sink->on_stdout,
				      .on_stderr = is_stderr ? sink->on_stderr : NULL};
	auto_free char *path = lib_execution_log_path(execution, attempt, &one, "");
	auto_free char *room = mem_new(PIECE);
	struct cove_request request = {.cove = execution->cove, .method = "GET", .path = path};
	struct err *err = OK;
	size_t n = 1;

	if (!one.on_stdout && !one.on_stderr)
		return OK;
	err = request_begin(&request);
	while (!err && n > 0) {
		err = request_read(&request, room, PIECE, PRIVATE_DEFAULT, &n);
		if (!err)
			err = sink_put(sink, is_stderr, (struct str){room, n});
	}
	request_done(&request);
	return err;
}

static fallible lib_execution_pass(const struct json *event, const struct cove_sink *sink)
{
	bool is_stderr = strcmp(fields_text(event, "type"), "stderr") == 0;
	auto_buf bytes = BUF_INIT(PRIVATE_BODY_MAX);

	if (!is_stderr && strcmp(fields_text(event, "type"), "stdout") != 0)
		return strcmp(fields_text(event, "type"), "error") == 0 ? event_reader_error(event)
									: OK;
	TRY(fields_bytes(event, "data", &bytes));
	return sink_put(sink, is_stderr, buf_view(&bytes));
}

// An execution has no log before its command begins, nor if it ended before that. *again: it may
// have one now.
static bool lib_execution_has_no_log(struct cove_execution *execution, const struct err *err,
				     bool *again)
{
	bool had_ended = lib_execution_has_ended(execution);
	auto_err wait = NULL;

	if (strcmp(err_reason(err), "no_log") != 0)
		return false;
	private_begin(execution->cove);
	wait = lib_execution_wait(execution, "done", LOG_MS);
	private_begin(execution->cove);
	*again = wait ? err_kind(wait) == ERR_TIMEOUT : !had_ended;
	return true;
}

// The stream ends with the command. One that was cut goes on after the last event.
static fallible lib_execution_follow(struct cove_execution *execution, int attempt,
				     struct event_reader *reader, const struct cove_sink *sink)
{
	auto_free char *path = lib_execution_log_path(execution, attempt, sink, "");
	char reached[64] = "0"; // an offset

	for (;;) {
		auto_json event = NULL;
		auto_err err = OK;
		bool again = true;

		if (!reader->open)
			err = event_reader_resume(reader, execution->cove, path, reached,
						  CLOCK_NEVER);
		if (!err)
			err = event_reader_next(reader, -1, &event);
		if (!err && !event)
			return OK;
		if (!err) {
			TRY(lib_execution_pass(event, sink));
			if (*reader->id)
				snprintf(reached, sizeof(reached), "%s", reader->id);
			continue;
		}
		event_reader_close(reader);
		if (!lib_execution_has_no_log(execution, err, &again) &&
		    !private_is_lost(execution->cove, err))
			return take_ptr(err);
		if (!again)
			return OK;
		private_begin(execution->cove);
	}
}

static fallible lib_execution_logs(struct cove_execution *execution, int attempt, bool follow,
				   const struct cove_sink *sink)
{
	struct event_reader reader = {0};
	struct err *err;

	if (!follow) {
		TRY(lib_execution_copy(execution, attempt, false, sink));
		return lib_execution_copy(execution, attempt, true, sink);
	}
	err = lib_execution_follow(execution, attempt, &reader, sink);
	event_reader_close(&reader);
	return err;
}

enum cove_kind cove_execution_logs(struct cove_execution *execution, int attempt, bool follow,
				   const struct cove_sink *sink, struct cove_error *error)
{
	return private_call(execution->cove, lib_execution_logs(execution, attempt, follow, sink),
			    error);
}

enum cove_kind cove_execution_artifact(struct cove_execution *execution, const char *path,
				       uint64_t offset, struct cove_file **out,
				       struct cove_error *error)
{
	auto_buf target = BUF_INIT(1 << 20);
	struct str rest = str_of(path ? path : ""), part;

	buf_fmt(&target, "%s/artifacts%s", execution->base, path ? "" : ".tar");
	while (path && str_cut(&rest, '/', &part)) {
		buf_char(&target, '/');
		text_percent(&target, part);
	}
	return file_begin(execution->cove, "GET", buf_take(&target), NULL, offset, out, error);
}

enum cove_kind cove_execution_artifacts(struct cove_execution *execution, cove_item_fn *each,
					void *arg, struct cove_error *error)
{
	auto_free char *path = mem_fmt("%s/artifacts", execution->base);

	return cove_items(execution->cove, path, each, arg, error);
}

// --------------------------------------------------------------------------------- verbs

static fallible lib_execution_exec(struct cove_execution *execution,
				   const struct cove_command *command, struct cove_output *out)
{
	auto_free char *path = mem_fmt("%s/exec", execution->base);
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);
	auto_json answer = NULL;

	json_begin(&json, '{');
	TRY(fields_command(&json, command, NULL));
	json_put_text(&json, "encoding", "base64");
	json_end(&json, '}');
	TRY(http_call_json(execution->cove, "POST", path, &body, &answer));
	return sink_answer(answer, out);
}

enum cove_kind cove_execution_exec(struct cove_execution *execution,
				   const struct cove_command *command, struct cove_output *out,
				   struct cove_error *error)
{
	return private_call(execution->cove, lib_execution_exec(execution, command, out), error);
}

// POST with one member, whose value is JSON; at == NULL: none.
static fallible lib_execution_act(struct cove_execution *execution, const char *verb,
				  const char *key, struct str value, struct buf *reply)
{
	auto_free char *path = mem_fmt("%s/%s", execution->base, verb);
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	if (value.at) {
		json_key(&out, key);
		json_add_raw(&out, value);
	}
	json_end(&out, '}');
	return http_call_text(execution->cove, "POST", path, NULL, key ? &body : NULL, reply);
}

enum cove_kind cove_execution_complete(struct cove_execution *execution, const char *result,
				       struct cove_error *error)
{
	return private_call(execution->cove,
			    lib_execution_act(execution, "complete", "result",
					      result ? str_of(result) : (struct str){0}, NULL),
			    error);
}

enum cove_kind cove_execution_fail(struct cove_execution *execution, const char *reason,
				   struct cove_error *error)
{
	auto_buf text = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&text);

	json_add_text(&out, reason);
	return private_call(execution->cove,
			    lib_execution_act(execution, "fail", "reason", buf_view(&text), NULL),
			    error);
}

enum cove_kind cove_execution_cancel(struct cove_execution *execution, struct cove_error *error)
{
	return private_call(execution->cove,
			    lib_execution_act(execution, "cancel", NULL, (struct str){0}, NULL),
			    error);
}

static fallible lib_execution_again(struct cove_execution *execution, const char *verb,
				    struct cove_execution **out)
{
	auto_buf text = BUF_INIT(PRIVATE_REPLY_MAX);

	TRY(lib_execution_act(execution, verb, NULL, (struct str){0}, &text));
	return lib_execution_born(execution->cove, &text, out);
}

enum cove_kind cove_execution_retry(struct cove_execution *execution, struct cove_execution **out,
				    struct cove_error *error)
{
	return private_call(execution->cove, lib_execution_again(execution, "retry", out), error);
}

enum cove_kind cove_execution_replay(struct cove_execution *execution, struct cove_execution **out,
				     struct cove_error *error)
{
	return private_call(execution->cove, lib_execution_again(execution, "replay", out), error);
}

enum cove_kind cove_execution_suggestion(struct cove_execution *execution, char **out_json,
					 struct cove_error *error)
{
	auto_free char *path = mem_fmt("%s/suggestion", execution->base);

	return cove_ask(execution->cove, "GET", path, NULL, 0, out_json, NULL, error);
}

enum cove_kind cove_execution_cast(struct cove_execution *execution, struct cove_file **out,
				   struct cove_error *error)
{
	return file_begin(execution->cove, "GET", mem_fmt("%s/cast", execution->base), NULL, 0, out,
			  error);
}

enum cove_kind cove_execution_diff(struct cove_execution *execution, const char *with,
				   char **out_json, struct cove_error *error)
{
	auto_buf path = BUF_INIT(1 << 20);

	buf_fmt(&path, "%s/diff?with=", execution->base);
	text_percent(&path, str_of(with));
	return cove_ask(execution->cove, "GET", path.at, NULL, 0, out_json, NULL, error);
}

enum cove_kind cove_execution_delete(struct cove_execution *execution, struct cove_error *error)
{
	return private_call(
		execution->cove,
		http_call_text(execution->cove, "DELETE", execution->base, NULL, NULL, NULL),
		error);
}
