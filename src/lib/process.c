// A process is its id. Its output is read as events with positions, the ids of the events; when the
// connection is lost the stream is requested again from the last position, so that no byte is
// missed or repeated. Bytes that the server no longer has are counted as missed.
#include "lib/process.h"

#include <regex.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "lib/http_call.h"
#include "lib/sink.h"

#define BODY_MAX ((size_t)4 << 20)
#define INTERRUPT_MS 2000 // from INT to TERM
#define PATIENCE_MS (7ull * 24 * 3600 * 1000)
#define LINE_ROOM ((size_t)1 << 20)
#define PIECE (64 * 1024)

struct cove_process *process_new(struct cove_box *box)
{
	struct cove_process *process = mem_new_of(struct cove_process);

	process->box = box;
	process->cove = box->cove;
	process->bytes = BUF_INIT(PRIVATE_BODY_MAX);
	return process;
}

static void process_set_id(struct cove_process *process, const char *id)
{
	auto_buf base = BUF_INIT(1 << 20);

	buf_fmt(&base, "%s/api/process/", process->box->base);
	text_percent(&base, str_of(id));
	free(process->id);
	free(process->base);
	process->id = mem_str(id);
	process->base = buf_take(&base);
}

struct cove_process *cove_process_at(struct cove_box *box, const char *id)
{
	struct cove_process *process = process_new(box);

	process_set_id(process, id);
	return process;
}

const char *cove_process_id(const struct cove_process *process)
{
	return process->id;
}

void cove_process_free(struct cove_process *process)
{
	if (!process)
		return;
	event_reader_close(&process->feed);
	buf_done(&process->bytes);
	json_free(process->info);
	free(process->id);
	free(process->base);
	free(process);
}

static fallible lib_process_start(struct cove_box *box, const struct cove_process_options *options,
				  struct cove_process **out)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_json answer = NULL;
	struct json_out json = json_to(&body);
	struct cove_command command = options->command;
	struct err *err;

	command.input = NULL;
	json_begin(&json, '{');
	TRY(fields_command(&json, &command, NULL));
	if (options->id)
		json_put_text(&json, "processId", options->id);
	if (options->open_stdin)
		json_put_bool(&json, "openStdin", true);
	if (options->auto_cleanup)
		json_put_bool(&json, "autoCleanup", true);
	json_end(&json, '}');
	err = lib_box_post(box, "/api/process/start", &body, &answer);
	if (err)
		return fields_no_cwd(err, box->cove, options->command.cwd);
	if (!*fields_text(answer, "processId"))
		return err_new(BAD_PEER, "bad_reply", "the daemon started a process without an id");
	*out = cove_process_at(box, fields_text(answer, "processId"));
	return OK;
}

enum cove_kind cove_process_start(struct cove_box *box, const struct cove_process_options *options,
				  struct cove_process **out, struct cove_error *error)
{
	return private_call(box->cove, lib_process_start(box, options, out), error);
}

static struct cove_process_info lib_process_info_of(const struct json *process)
{
	const char *status = fields_text(process, "status");

	return (struct cove_process_info){
		.id = fields_text(process, "id"),
		.command = fields_text(process, "command"),
		.status = status,
		.start_time = fields_text(process, "startTime"),
		.end_time = fields_text(process, "endTime"),
		.pid = fields_number(process, "pid", 0),
		.ended = strcmp(status, "running") != 0 && strcmp(status, "starting") != 0,
		.exit_code = (int)fields_number(process, "exitCode", 0),
		.truncated = json_get(process, "totalBytes") != NULL,
		.kept_bytes = (uint64_t)fields_number(process, "keptBytes", 0),
		.output_bytes = (uint64_t)fields_number(process, "totalBytes", 0),
	};
}

static fallible lib_process_look(struct cove_process *process, struct cove_process_info *out)
{
	auto_json answer = NULL;

	TRY(http_call_json(process->cove, "GET", process->base, NULL, &answer));
	if (!json_get(answer, "process"))
		return err_new(BAD_PEER, "bad_reply",
			       "the daemon's answer does not describe the process");
	json_free(process->info);
	process->info = take_ptr(answer);
	*out = lib_process_info_of(json_get(process->info, "process"));
	return OK;
}

enum cove_kind cove_process_info(struct cove_process *process, struct cove_process_info *out,
				 struct cove_error *error)
{
	return private_call(process->cove, lib_process_look(process, out), error);
}

static fallible lib_process_list(struct cove_box *box, cove_process_fn *each, void *arg)
{
	auto_free char *path = lib_box_path(box, "/api/process/list");
	auto_json answer = NULL;
	struct json *all;

	TRY(http_call_json(box->cove, "GET", path, NULL, &answer));
	all = json_get(answer, "processes");
	for (size_t i = 0; all && i < json_count(all); i++) {
		struct cove_process_info info = lib_process_info_of(json_at(all, i));

		if (each(arg, &info))
			return err_new(CANCELLED, "cancelled", "the callback ended the listing");
	}
	return OK;
}

enum cove_kind cove_process_list(struct cove_box *box, cove_process_fn *each, void *arg,
				 struct cove_error *error)
{
	return private_call(box->cove, lib_process_list(box, each, arg), error);
}

enum cove_kind cove_process_kill(struct cove_process *process, struct cove_error *error)
{
	return private_call(
		process->cove,
		http_call_text(process->cove, "DELETE", process->base, NULL, NULL, NULL), error);
}

enum cove_kind cove_process_signal(struct cove_process *process, int signal,
				   struct cove_error *error)
{
	auto_free char *path = mem_fmt("%s/signal", process->base);
	auto_buf body = BUF_INIT(256);

	private_begin(process->cove);
	buf_fmt(&body, "{\"signal\":%d}", signal);
	return private_end(process->cove,
			   http_call_text(process->cove, "POST", path, NULL, &body, NULL), error);
}

fallible process_interrupt(struct cove *cove, const char *base)
{
	auto_free char *signal = mem_fmt("%s/signal", base);
	auto_free char *wait = mem_fmt("%s/wait?timeoutMs=%d", base, INTERRUPT_MS);
	auto_buf body = BUF_INIT(64);
	auto_json ended = NULL;
	auto_err err = OK;

	atomic_store(&cove->cancelled, false); // the cause of the cancellation is known
	private_begin(cove);
	buf_fmt(&body, "{\"signal\":%d}", SIGINT);
	err = http_call_text(cove, "POST", signal, NULL, &body, NULL);
	private_begin(cove);
	if (!err)
		err = http_call_json(cove, "GET", wait, NULL, &ended);
	if (!err && ended)
		return OK;
	private_begin(cove);
	return http_call_text(cove, "DELETE", base, NULL, NULL, NULL);
}

enum cove_kind cove_process_interrupt(struct cove_process *process, struct cove_error *error)
{
	return private_call(process->cove, process_interrupt(process->cove, process->base), error);
}

static fallible kill_all(struct cove_box *box, uint64_t *out_count)
{
	auto_free char *path = lib_box_path(box, "/api/process/kill-all");
	auto_json answer = NULL;

	TRY(http_call_json(box->cove, "DELETE", path, NULL, &answer));
	if (out_count)
		*out_count = (uint64_t)fields_number(answer, "cleanedCount", 0);
	return OK;
}

enum cove_kind cove_process_kill_all(struct cove_box *box, uint64_t *out_count,
				     struct cove_error *error)
{
	return private_call(box->cove, kill_all(box, out_count), error);
}

// Sends one body of any length: it waits as long as the process does not read.
static fallible give_input(struct cove_process *process, struct str bytes, bool close)
{
	auto_free char *path = mem_fmt("%s/stdin?timeoutMs=%llu%s", process->base,
				       (unsigned long long)PATIENCE_MS, close ? "&close=true" : "");
	struct cove_request request = {.cove = process->cove,
				       .method = "POST",
				       .path = path,
				       .type = "application/octet-stream"};
	auto_buf reply = BUF_INIT(1 << 20);
	struct err *err = request_begin(&request);

	if (!err && bytes.len)
		err = request_write(&request, bytes.at, bytes.len);
	if (!err)
		err = request_finish(&request);
	if (!err)
		err = request_body(&request, &reply);
	request_done(&request);
	return err;
}

enum cove_kind cove_process_write(struct cove_process *process, const void *bytes, size_t len,
				  struct cove_error *error)
{
	return private_call(process->cove, give_input(process, (struct str){bytes, len}, false),
			    error);
}

enum cove_kind cove_process_close_stdin(struct cove_process *process, struct cove_error *error)
{
	return private_call(process->cove, give_input(process, STR(""), true), error);
}

static int64_t left_of(int64_t deadline)
{
	int64_t left;

	if (deadline == CLOCK_NEVER)
		return -1;
	left = deadline - clock_ms();
	return left > 0 ? left : 0;
}

static fallible process_open_feed(struct cove_process *process, int64_t deadline)
{
	auto_free char *path = mem_fmt("%s/stream?encoding=base64", process->base);

	return event_reader_resume(&process->feed, process->cove, path, process->reached, deadline);
}

// The stream was cut: resumes it. If the server stays away the error of the cut says more; to the
// caller of cove_exec() in any case.
static fallible process_resume(struct cove_process *process, int64_t deadline, struct err *lost)
{
	auto_err first = lost;
	struct err *err;

	if (!*process->feed.id || !process->id)
		return take_ptr(first);
	process->missed += process->missed_here;
	process->missed_here = 0;
	event_reader_close(&process->feed);
	err = process_open_feed(process, deadline);
	if (!err || (!process->is_exec && !private_is_lost(process->cove, err)))
		return err;
	err_free(err);
	private_begin(process->cove);
	return take_ptr(first);
}

static fallible process_on_event(struct cove_process *process, const struct json *event,
				 struct cove_piece *out, bool *found)
{
	const char *type = fields_text(event, "type");
	bool is_stderr = strcmp(type, "stderr") == 0;

	*found = false;
	if (is_stderr || strcmp(type, "stdout") == 0) {
		buf_clear(&process->bytes);
		TRY(fields_bytes(event, "data", &process->bytes));
		*out = (struct cove_piece){.is_stderr = is_stderr,
					   .bytes = process->bytes.at,
					   .len = process->bytes.len};
		*found = process->bytes.len > 0;
	} else if (strcmp(type, "start") == 0 && *fields_text(event, "processId")) {
		process_set_id(process, fields_text(event, "processId"));
	} else if (strcmp(type, "exit") == 0 || strcmp(type, "complete") == 0) {
		fields_result(event, &process->result);
		process->result.stdout_truncated |= process->cut &&
						    !process->result.stderr_truncated;
		process->result.missed_bytes += process->missed;
		process->ended = true;
		*out = (struct cove_piece){.ended = true};
		*found = true;
	} else if (strcmp(type, "truncated") == 0) {
		process->cut = true;
		process->missed_here = (uint64_t)fields_number(event, "missedBytes", 0);
	} else if (strcmp(type, "error") == 0) {
		return event_reader_error(event);
	}
	return OK;
}

fallible process_next(struct cove_process *process, int64_t timeout_ms, struct cove_piece *out)
{
	int64_t deadline = timeout_ms < 0 ? CLOCK_NEVER : clock_ms() + timeout_ms;
	bool found = false;

	if (process->ended) {
		*out = (struct cove_piece){.ended = true};
		return OK;
	}
	if (!process->feed.open)
		TRY(process_open_feed(process, deadline));
	while (!found) {
		auto_json event = NULL;
		struct err *err = event_reader_next(&process->feed, left_of(deadline), &event);

		if (!err && !event)
			err = err_new(
				BAD_PEER, "cut_stream",
				"the connection to the daemon was lost before the command ended");
		if (err && !private_is_lost(process->cove, err))
			return err;
		if (err) {
			TRY(process_resume(process, deadline, err));
			continue;
		}
		snprintf(process->reached, sizeof(process->reached), "%s", process->feed.id);
		TRY(process_on_event(process, event, out, &found));
	}
	return OK;
}

enum cove_kind cove_process_next(struct cove_process *process, int64_t timeout_ms,
				 struct cove_piece *out, struct cove_error *error)
{
	return private_call(process->cove, process_next(process, timeout_ms, out), error);
}

int cove_process_fd(const struct cove_process *process)
{
	return event_reader_fd(&process->feed);
}

// Reads one stream of the kept output as bytes, piece by piece.
static fallible lib_follow_copy(struct cove_process *process, bool is_stderr,
				const struct cove_sink *sink)
{
	auto_free char *path = mem_fmt("%s/tape?stream=%s", process->base,
				       is_stderr ? "stderr" : "stdout");
	auto_free char *room = mem_new(PIECE);
	struct cove_request request = {.cove = process->cove, .method = "GET", .path = path};
	struct err *err = request_begin(&request);
	size_t n = 1;

	while (!err && n > 0) {
		err = request_read(&request, room, PIECE, PRIVATE_DEFAULT, &n);
		if (!err)
			err = sink_put(sink, is_stderr, (struct str){room, n});
	}
	request_done(&request);
	return err;
}

static fallible follow_logs(struct cove_process *process, bool follow, const struct cove_sink *sink)
{
	struct cove_piece piece = {0};

	if (!follow) {
		TRY(lib_follow_copy(process, false, sink));
		return lib_follow_copy(process, true, sink);
	}
	while (!piece.ended) {
		TRY(process_next(process,
				 process->cove->timeout_ms > 0 ? process->cove->timeout_ms : -1,
				 &piece));
		TRY(sink_put(sink, piece.is_stderr, (struct str){piece.bytes, piece.len}));
	}
	return OK;
}

enum cove_kind cove_process_logs(struct cove_process *process, bool follow,
				 const struct cove_sink *sink, struct cove_error *error)
{
	return private_call(process->cove, follow_logs(process, follow, sink), error);
}

// Repeated when the connection is lost: waiting twice is harmless.
static fallible ask_end(struct cove_process *process, int64_t timeout_ms, struct json **out)
{
	int64_t deadline = timeout_ms < 0 ? CLOCK_NEVER : clock_ms() + timeout_ms;

	for (int i = 0;; i++) {
		int64_t left = left_of(deadline);
		auto_free char *path = NULL;
		struct err *err;

		path = left < 0 ? mem_fmt("%s/wait", process->base)
				: mem_fmt("%s/wait?timeoutMs=%lld", process->base,
					  (long long)(left ? left : 1));
		err = http_call_json(process->cove, "GET", path, NULL, out);
		if (!err || i == HTTP_CALL_RETRIES || !private_is_lost(process->cove, err))
			return err;
		err_free(err);
		private_begin(process->cove);
		if (private_rest(process->cove, HTTP_CALL_RETRY_MS))
			return err_new(CANCELLED, "cancelled", "the call was cancelled");
	}
}

static fallible lib_follow_await(struct cove_process *process, int64_t timeout_ms,
				 struct cove_result *out)
{
	int64_t usual = process->cove->timeout_ms;
	auto_json answer = NULL;
	struct err *err;

	if (process->ended) {
		*out = process->result;
		return OK;
	}
	process->cove->timeout_ms = 0; // this call has its own timeout, which the server applies
	err = ask_end(process, timeout_ms, &answer);
	process->cove->timeout_ms = usual;
	if (err && err_kind(err) == ERR_SLOW_CLIENT)
		return err_recast(err, ERR_TIMEOUT, "timeout", "the process is still running");
	TRY(err);
	fields_result(answer, out);
	return OK;
}

enum cove_kind cove_process_wait(struct cove_process *process, int64_t timeout_ms,
				 struct cove_result *out, struct cove_error *error)
{
	struct cove_result result = {0};
	struct err *err;

	private_begin(process->cove);
	err = lib_follow_await(process, timeout_ms, &result);
	if (!err && out)
		*out = result;
	return private_end(process->cove, err, error);
}

// Joins pieces of one stream to lines.
struct lines {
	regex_t pattern;
	struct buf line[2];
};

static bool lib_follow_match(struct lines *lines, struct buf *line, char **out)
{
	if (!line->at || regexec(&lines->pattern, line->at, 0, NULL, 0) != 0) {
		buf_clear(line);
		return false;
	}
	if (out)
		*out = mem_dup(line->at, line->len);
	return true;
}

static bool lib_follow_search(struct lines *lines, const struct cove_piece *piece, char **out)
{
	struct buf *line = &lines->line[piece->is_stderr];
	struct str rest = {piece->bytes, piece->len};

	while (rest.len) {
		const char *end = memchr(rest.at, '\n', rest.len);
		size_t len = end ? (size_t)(end - rest.at) : rest.len;

		if (line->len + len > LINE_ROOM)
			buf_clear(line); // a line this long is not matched
		buf_add(line, rest.at, len);
		rest = str_skip(rest, end ? len + 1 : len);
		if (end && lib_follow_match(lines, line, out))
			return true;
	}
	return false;
}

static fallible await_line(struct cove_process *process, struct lines *lines, int64_t timeout_ms,
			   char **out)
{
	int64_t deadline = timeout_ms < 0 ? CLOCK_NEVER : clock_ms() + timeout_ms;
	struct cove_piece piece = {0};

	for (;;) {
		TRY(process_next(process, left_of(deadline), &piece));
		if (!piece.ended) {
			if (lib_follow_search(lines, &piece, out))
				return OK;
			continue;
		}
		for (int i = 0; i < 2; i++) // a last line without newline
			if (lines->line[i].len && lib_follow_match(lines, &lines->line[i], out))
				return OK;
		return err_new(GONE, "process_ended",
			       "the process ended, with %d, before it wrote such a line",
			       process->result.exit_code);
	}
}

enum cove_kind cove_process_wait_log(struct cove_process *process, const char *pattern,
				     int64_t timeout_ms, char **out_line, struct cove_error *error)
{
	struct lines lines = {.line = {BUF_INIT(LINE_ROOM + 1), BUF_INIT(LINE_ROOM + 1)}};
	struct cove_process *other;
	struct err *err;

	private_begin(process->cove);
	if (regcomp(&lines.pattern, pattern, REG_EXTENDED | REG_NOSUB) != 0)
		return private_end(process->cove,
				   err_new(INVALID, "bad_pattern",
					   "'%s' is not an extended regular expression", pattern),
				   error);
	other = cove_process_at(process->box, process->id);
	err = await_line(other, &lines, timeout_ms, out_line);
	cove_process_free(other);
	regfree(&lines.pattern);
	buf_done(&lines.line[0]);
	buf_done(&lines.line[1]);
	return private_end(process->cove, err, error);
}
