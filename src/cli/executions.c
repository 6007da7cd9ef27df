// The verbs of executions. One that is followed has three parts: its steps until it runs, shown on
// a terminal; its output; its end, which decides the exit status. Leaving does not end it.
#include "cli/executions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/interrupt.h"
#include "cli/jobs.h"
#include "cli/print.h"
#include "cli/status.h"
#include "cli/stdio.h"
#include "cli/tar.h"
#include "codec/text.h"
#include "lib/fields.h"

#define PIECE (64 * 1024)
#define QUERY_MAX (1 << 20)
#define LOOK_MS 1000 // how often the place in the queue is shown
#define REST_MS 2000 // after which one that is ready, and has a profile, counts as without command
#define BODY_MAX ((size_t)8 << 20)

// -------------------------------------------------------------------------------- follow

struct following {
	struct call *call;
	struct remote *remote;
	struct cove_execution *execution;
	struct cove_execution_info info;
	struct json *record; // parsed info.json; NULL: none yet
	struct progress progress;
	size_t steps;	 // shown
	int64_t attempt; // of the last record
	bool shows;	 // steps
};

static void following_done(struct following *following)
{
	progress_end(&following->progress);
	json_free(following->record);
}

static void show_steps(struct following *following)
{
	const struct json *steps = json_get(following->record, "steps");
	size_t count = steps ? json_count(steps) : 0;

	if (following->steps > count) // of a new attempt
		following->steps = 0;
	for (; following->shows && following->steps < count; following->steps++) {
		const struct json *step = json_at(steps, following->steps);
		const struct json *took = json_get(step, "durationMs");

		if (!took || json_type(took) != JSON_NUMBER)
			break; // it has not ended
		progress_end(&following->progress);
		print_note("%-20s %6lld ms", fields_text(step, "name"),
			   (long long)fields_number(step, "durationMs", 0));
	}
}

static void show_queue(struct following *following)
{
	const struct json *queue = json_get(following->record, "queue");
	auto_buf text = BUF_INIT(1024);

	if (!following->shows || strcmp(following->info.state, "queued") != 0 ||
	    json_type(queue) != JSON_OBJECT)
		return;
	buf_fmt(&text, "queued, place %lld: ", (long long)fields_number(queue, "position", 0));
	print_escape(str_of(fields_text(queue, "reason")), &text);
	following->progress.shown_at = 1;
	fprintf(stderr, "\r%s\033[K", text.at);
}

static fallible following_learn(struct following *following)
{
	auto_json record = NULL;

	TRY(json_read_any(str_of(following->info.json), &record));
	json_free(following->record);
	following->record = take_ptr(record);
	following->attempt = fields_number(following->record, "attempt", 0);
	show_steps(following);
	show_queue(following);
	return OK;
}

// Waits until the execution is `what`; on a terminal its place in the queue is shown meanwhile.
// `patience_ms` -1: for ever. *out false: it is not yet.
static fallible following_await(struct following *following, const char *what, int64_t patience_ms,
				bool *out)
{
	for (;;) {
		struct cove_error *error = &following->remote->error;
		int64_t ms = patience_ms < 0 && following->shows ? LOOK_MS : patience_ms;
		enum cove_kind kind = cove_execution_wait(following->execution, what, ms,
							  &following->info, error);

		*out = kind == COVE_OK;
		if (kind == COVE_TIMEOUT)
			kind = cove_execution_info(following->execution, &following->info, error);
		TRY(remote_did(following->remote, kind));
		TRY(following_learn(following));
		if (*out || patience_ms >= 0)
			return OK;
	}
}

static fallible following_show_output(struct following *following)
{
	struct err *err = OK;
	struct cove_sink sink = jobs_sink(&err);
	enum cove_kind kind = cove_execution_logs(following->execution, 0, true, &sink,
						  &following->remote->error);

	TRY(err);
	return remote_did(following->remote, kind);
}

// Its outcome as an exit status: that of its command, if it has one.
static int exit_of(const struct cove_execution_info *info)
{
	static const struct {
		const char *outcome;
		int exit;
	} rows[] = {
		{"timeout", 124},
		{"cancelled", 130},
		{"infra", STATUS_OWN_FAILURE},
		{"queue_timeout", STATUS_OWN_FAILURE},
	};

	if (strcmp(info->state, "completed") == 0)
		return info->exit_code;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (strcmp(info->outcome, rows[i].outcome) == 0)
			return rows[i].exit;
	return info->exit_code ? info->exit_code : 1;
}

static void following_show_end(struct following *following)
{
	const struct cove_execution_info *info = &following->info;
	const struct json *artifacts = json_get(following->record, "artifacts");
	const char *message = fields_text(json_get(following->record, "error"), "message");
	int64_t count = fields_number(artifacts, "count", 0);
	struct call *call = following->call;
	auto_buf size = BUF_INIT(64);

	call->exit = exit_of(info);
	if (call_has(call, OPT_JSON) || call_has(call, OPT_QUIET))
		return;
	if (strcmp(info->state, "failed") == 0 &&
	    (*info->reason || strcmp(info->outcome, "exit_nonzero") != 0))
		print_note("the execution failed: %s%s%s", info->outcome, *message ? ": " : "",
			   message);
	print_size((uint64_t)fields_number(artifacts, "bytes", 0), &size);
	if (following->shows && count)
		print_note("%lld artifacts, %s: cove executions artifacts %s", (long long)count,
			   size.at, info->id);
}

// Its output, and those of the attempts after it.
static fallible following_show(struct following *following, bool *out_done)
{
	int64_t attempt = following->attempt;

	TRY(following_show_output(following));
	// The output of an attempt ends before a retry begins.
	while (attempt == following->attempt) {
		TRY(following_await(following, "done", LOOK_MS, out_done));
		if (*out_done)
			return OK;
	}
	return OK;
}

// It waits for commands of the client.
static void following_show_ready(const struct following *following)
{
	const struct cove_execution_info *info = &following->info;
	const struct call *call = following->call;

	if (call_has(call, OPT_JSON))
		print_json(str_of(info->json));
	else
		print_line("%s", info->id);
	if (!call_has(call, OPT_JSON) && !call_has(call, OPT_QUIET))
		print_note("it is ready; 'cove executions exec %s COMMAND' runs one", info->id);
}

static fallible following_run(struct following *following, bool may_rest)
{
	struct call *call = following->call;
	bool silent = call_has(call, OPT_JSON) || call_has(call, OPT_WAIT) ||
		      call->verb->id == VERB_EXECUTIONS_WAIT;
	bool done = false;

	while (!done) {
		bool runs = false;

		TRY(following_await(following, "ready", -1, &runs));
		TRY(following_await(following, "running", may_rest ? REST_MS : -1, &runs));
		if (!runs && strcmp(following->info.state, "ready") == 0) {
			following_show_ready(following);
			return OK;
		}
		if (silent ||
		    (following->info.ended && !fields_number(following->record, "attempt", 0)))
			return following_await(following, "done", -1, &done);
		TRY(following_show(following, &done));
	}
	return OK;
}

fallible cli_executions_follow(struct call *call, struct remote *remote,
			       struct cove_execution *execution, bool may_rest)
{
	bool loud = !call_has(call, OPT_QUIET) && !call_has(call, OPT_JSON);
	on_exit_call(following_done) struct following following = {
		.call = call, .remote = remote, .execution = execution};
	const char *id = cove_execution_id(execution);
	struct err *err;

	progress_start(&following.progress, "", !loud);
	following.shows = following.progress.enabled;
	if (call_has(call, OPT_DETACH)) {
		if (!call_has(call, OPT_JSON)) {
			print_line("%s", id);
			return OK;
		}
		TRY(remote_did(remote,
			       cove_execution_info(execution, &following.info, &remote->error)));
		print_json(str_of(following.info.json));
		return OK;
	}
	if (call_has(call, OPT_WAIT) && loud)
		print_line("%s", id);
	interrupt_arm(remote->cove);
	err = following_run(&following, may_rest);
	progress_end(&following.progress);
	if (err && interrupt_signal() && loud)
		print_note("the execution goes on; 'cove executions cancel %s' ends it", id);
	TRY(status_end(call, err));
	if (!following.info.ended)
		return OK;
	if (call_has(call, OPT_JSON))
		print_json(str_of(following.info.json));
	following_show_end(&following);
	return OK;
}

// --------------------------------------------------------------------------------- lists

static void put_type(const struct json *execution, const char *key, struct buf *out)
{
	const char *type = fields_text(execution, key);

	buf_text(out, *type ? type : fields_text(execution, "profile"));
}

static void put_exit(const struct json *execution, const char *key, struct buf *out)
{
	const struct json *code = json_get(execution, key);

	if (json_type(code) == JSON_NUMBER)
		buf_fmt(out, "%lld", (long long)fields_number(execution, key, 0));
}

static void put_time(const struct json *execution, const char *key, struct buf *out)
{
	const struct json *durations = json_get(execution, key);

	if (json_type(json_get(durations, "runMs")) == JSON_NUMBER)
		print_age(fields_number(durations, "runMs", 0), out);
}

fallible cli_executions_ls(struct call *call)
{
	static const struct column columns[] = {
		{"ID", "id", NULL},
		{"TASK", "taskId", NULL},
		{"TYPE", "agentType", put_type},
		{"STATE", "state", NULL},
		{"OUTCOME", "outcome", NULL},
		{"EXIT", "exitCode", put_exit},
		{"RAN", "durations", put_time},
		{"AGE", "createdAt", column_age},
		{.head = NULL},
	};
	static const struct {
		enum opt opt;
		const char *key;
	} filters[] = {
		{OPT_STATE, "state"}, {OPT_TYPE, "agentType"}, {OPT_PROFILE, "profile"},
		{OPT_TASK, "taskId"}, {OPT_LABEL, "label"},
	};
	auto_buf query = BUF_INIT(QUERY_MAX);
	const char *value;

	for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
		for (size_t at = 0; call_next(call, filters[i].opt, &at, &value);) {
			buf_fmt(&query, "%s%s=", query.len ? "&" : "", filters[i].key);
			text_percent(&query, str_of(value));
		}
	}
	return collection_ls(call, &(struct collection){EXECUTIONS_PATH, query.len ? query.at : "",
							"id", columns});
}

fallible cli_executions_inspect(struct call *call)
{
	return collection_show(call, EXECUTIONS_PATH, "suggestion");
}

fallible cli_executions_rm(struct call *call)
{
	return collection_rm(call, EXECUTIONS_PATH);
}

// ------------------------------------------------------------------------------- results

fallible cli_executions_logs(struct call *call)
{
	const char *only = call_value(call, OPT_STREAM), *attempt = call_value(call, OPT_ATTEMPT);
	auto_cove_execution execution = NULL;
	auto_remote remote = {0};
	struct cove_sink sink;
	struct err *err = OK;
	enum cove_kind kind;
	uint64_t number = 0;

	if (only && strcmp(only, "stdout") != 0 && strcmp(only, "stderr") != 0)
		return err_hint(err_new(INVALID, "bad_value", "there is no stream '%s'", only),
				"--stream stdout or --stream stderr");
	if (attempt && !str_to_u64(str_of(attempt), 1, INT32_MAX, &number))
		return err_hint(err_new(INVALID, "bad_value", "'%s' is no attempt", attempt),
				"for example --attempt 1");
	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	execution = cove_execution_at(remote.cove, call->words[0]);
	sink = jobs_sink(&err);
	if (only && strcmp(only, "stdout") == 0)
		sink.on_stderr = NULL;
	else if (only)
		sink.on_stdout = NULL;
	kind = cove_execution_logs(execution, (int)number, call_has(call, OPT_FOLLOW), &sink,
				   &remote.error);
	TRY(status_end(call, err));
	return status_end(call, remote_did(&remote, kind));
}

static void put_bytes(const struct json *artifact, const char *key, struct buf *out)
{
	print_size((uint64_t)fields_number(artifact, key, 0), out);
}

struct content {
	struct remote *remote;
	struct cove_file *file;
	char *room;
};

static void content_done(struct content *content)
{
	cove_file_free(content->file);
	free(content->room);
}

static fallible content_read(void *arg, const void **out_at, size_t *out_len)
{
	struct content *content = arg;

	TRY(remote_did(content->remote, cove_file_read(content->file, content->room, PIECE, out_len,
						       &content->remote->error)));
	*out_at = content->room;
	return OK;
}

// `path` NULL: all of them, unpacked into `to`; else to stdout.
static fallible fetch_artifact(struct remote *remote, const char *id, const char *path,
			       const char *to)
{
	auto_cove_execution execution = cove_execution_at(remote->cove, id);
	on_exit_call(content_done) struct content content = {.remote = remote,
							     .room = mem_new(PIECE)};
	const void *at;
	size_t n = 1;

	TRY(remote_did(remote,
		       cove_execution_artifact(execution, path, 0, &content.file, &remote->error)));
	if (!path)
		return untar(to, content_read, &content);
	while (n > 0) {
		TRY(content_read(&content, &at, &n));
		TRY(stdio_write(STDOUT_FILENO, at, n));
	}
	return OK;
}

fallible cli_executions_artifacts(struct call *call)
{
	static const struct column columns[] = {
		{"PATH", "path", NULL}, {"SIZE", "size", put_bytes},
		{"MODE", "mode", NULL}, {"SHA256", "sha256", NULL},
		{.head = NULL},
	};
	auto_free char *path = remote_path(EXECUTIONS_PATH, call->words[0], "/artifacts");
	const char *to = call_value(call, OPT_TO);
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	if (to && mkdir(to, 0755) && errno != EEXIST)
		return err_new(INVALID, "cannot_write", "cannot make '%s': %s", to,
			       strerror(errno));
	if (to)
		return fetch_artifact(&remote, call->words[0], NULL, to);
	if (call->word_count == 1)
		return collection_list(call, &remote,
				       &(struct collection){path, "", "path", columns});
	for (int i = 1; i < call->word_count; i++)
		TRY(status_end(call,
			       fetch_artifact(&remote, call->words[0], call->words[i], NULL)));
	return OK;
}

fallible cli_executions_diff(struct call *call)
{
	auto_buf path = BUF_INIT(QUERY_MAX), text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_remote remote = {0};

	buf_text(&path, EXECUTIONS_PATH "/");
	text_percent(&path, str_of(call->words[0]));
	buf_text(&path, "/diff?with=");
	text_percent(&path, str_of(call->words[1]));
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "GET", path.at, NULL, &text, NULL));
	print_json(buf_view(&text));
	return OK;
}

// --------------------------------------------------------------------------------- verbs

fallible cli_executions_wait(struct call *call)
{
	auto_cove_execution execution = NULL;
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	execution = cove_execution_at(remote.cove, call->words[0]);
	return cli_executions_follow(call, &remote, execution, false);
}

fallible cli_executions_again(struct call *call)
{
	auto_cove_execution execution = NULL;
	auto_cove_execution made = NULL;
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	execution = cove_execution_at(remote.cove, call->words[0]);
	TRY(remote_did(&remote, call->verb->id == VERB_EXECUTIONS_RETRY
					? cove_execution_retry(execution, &made, &remote.error)
					: cove_execution_replay(execution, &made, &remote.error)));
	return cli_executions_follow(call, &remote, made, true);
}

fallible cli_executions_cancel(struct call *call)
{
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	for (int i = 0; i < call->word_count; i++) {
		auto_cove_execution execution = cove_execution_at(remote.cove, call->words[i]);

		TRY(remote_did(&remote, cove_execution_cancel(execution, &remote.error)));
		if (!call_has(call, OPT_QUIET))
			print_line("%s", call->words[i]);
	}
	return OK;
}

fallible cli_executions_exec(struct call *call)
{
	on_exit_call(cove_output_free) struct cove_output output = {0};
	auto_cove_execution execution = NULL;
	auto_remote remote = {0};
	auto_body body = {0};

	TRY(body_command(call,
			 call->words + (strcmp(call->words[1] ? call->words[1] : "", "--") ? 1 : 2),
			 true, &body));
	TRY(remote_open(&remote, call));
	execution = cove_execution_at(remote.cove, call->words[0]);
	TRY(remote_did(&remote,
		       cove_execution_exec(execution, &body.command, &output, &remote.error)));
	TRY(status_end(call, stdio_write(STDOUT_FILENO, output.out, output.out_len)));
	TRY(status_end(call, stdio_write(STDERR_FILENO, output.err, output.err_len)));
	return status_take(call, &output.result);
}

// POST with one member: JSON if `raw` and if it is that, else text.
static fallible act(struct call *call, const char *verb, const char *key, const char *text,
		    bool raw)
{
	auto_free char *path = remote_path(EXECUTIONS_PATH, call->words[0], verb);
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	auto_json value = NULL;
	auto_err err = json_read_any(str_of(text ? text : ""), &value);

	json_begin(&out, '{');
	if (text)
		json_key(&out, key);
	if (text && raw && !err)
		json_add_raw(&out, str_of(text));
	else if (text)
		json_add_text(&out, text);
	json_end(&out, '}');
	return remote_act(call, "POST", path, &body, NULL);
}

fallible cli_executions_complete(struct call *call)
{
	return act(call, "/complete", "result", call->word_count > 1 ? call->words[1] : NULL, true);
}

fallible cli_executions_fail(struct call *call)
{
	return act(call, "/fail", "reason", call->words[1], false);
}
