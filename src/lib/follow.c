// The output of a process, resumed after lost connections. A position is the id of the last event;
// bytes that the server no longer has are counted as missed.
#include <regex.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lib/fields.h"
#include "lib/http_call.h"
#include "lib/process.h"
#include "lib/sink.h"

#define LINE_ROOM ((size_t)1 << 20)
#define RETRIES 20
#define PIECE (64 * 1024)
#define RETRY_MS 250

static int64_t left_of(int64_t deadline)
{
	int64_t left;

	if (deadline == CLOCK_NEVER)
		return -1;
	left = deadline - clock_ms();
	return left > 0 ? left : 0;
}

// Requests the stream from the last position. A server that is unreachable for a while, as in a
// restart, is retried.
static fallible lib_follow_reach(struct cove_process *process, int64_t deadline)
{
	auto_free char *path = mem_fmt("%s/stream?encoding=base64", process->base);

	for (int i = 0; !process->feed.open; i++) {
		struct err *err = event_reader_open(&process->feed, process->cove, "GET", path,
						    (struct str){0}, process->reached);

		if (!err)
			return OK;
		event_reader_close(&process->feed);
		if (!*process->reached || i == RETRIES || !private_is_lost(process->cove, err))
			return err;
		err_free(err);
		private_begin(process->cove);
		if (deadline - clock_ms() < RETRY_MS)
			return err_new(TIMEOUT, "timeout", "the call timed out");
		if (private_rest(process->cove, RETRY_MS))
			return err_new(CANCELLED, "cancelled", "the call was cancelled");
	}
	return OK;
}

static fallible lib_follow_on_event(struct cove_process *process, const struct json *event,
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
	} else if (strcmp(type, "exit") == 0 || strcmp(type, "complete") == 0) {
		fields_result(event, &process->result);
		process->result.stdout_truncated |= process->cut &&
						    !process->result.stderr_truncated;
		process->ended = true;
		*out = (struct cove_piece){.ended = true};
		*found = true;
	} else if (strcmp(type, "truncated") == 0) {
		process->cut = true;
	} else if (strcmp(type, "error") == 0) {
		return event_reader_error(event);
	}
	return OK;
}

static fallible lib_follow_next(struct cove_process *process, int64_t timeout_ms,
				struct cove_piece *out)
{
	int64_t deadline = timeout_ms < 0 ? CLOCK_NEVER : clock_ms() + timeout_ms;
	bool found = false;

	if (process->ended) {
		*out = (struct cove_piece){.ended = true};
		return OK;
	}
	while (!found) {
		auto_json event = NULL;
		struct err *err;

		TRY(lib_follow_reach(process, deadline));
		err = event_reader_next(&process->feed, left_of(deadline), &event);
		if (err && !private_is_lost(process->cove, err))
			return err;
		if (err || !event) { // lost: resume from the current position
			if (!*process->feed.id)
				return err ? err
					   : err_new(BAD_PEER, "cut_stream",
						     "the connection to the daemon was lost");
			err_free(err);
			event_reader_close(&process->feed);
			continue;
		}
		snprintf(process->reached, sizeof(process->reached), "%s", process->feed.id);
		TRY(lib_follow_on_event(process, event, out, &found));
	}
	return OK;
}

enum cove_kind cove_process_next(struct cove_process *process, int64_t timeout_ms,
				 struct cove_piece *out, struct cove_error *error)
{
	private_begin(process->cove);
	return private_end(process->cove, lib_follow_next(process, timeout_ms, out), error);
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
		TRY(lib_follow_next(process,
				    process->cove->timeout_ms > 0 ? process->cove->timeout_ms : -1,
				    &piece));
		TRY(sink_put(sink, piece.is_stderr, (struct str){piece.bytes, piece.len}));
	}
	return OK;
}

enum cove_kind cove_process_logs(struct cove_process *process, bool follow,
				 const struct cove_sink *sink, struct cove_error *error)
{
	private_begin(process->cove);
	return private_end(process->cove, follow_logs(process, follow, sink), error);
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
		if (!err || i == RETRIES || !private_is_lost(process->cove, err))
			return err;
		err_free(err);
		private_begin(process->cove);
		if (private_rest(process->cove, RETRY_MS))
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
		TRY(lib_follow_next(process, left_of(deadline), &piece));
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
