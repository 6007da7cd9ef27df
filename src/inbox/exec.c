// Two ways to the same command. `execute` waits for the end and answers once: a small output in one
// piece, a large one poured from the tape as the client reads, so that no output is ever held
// whole. `execute/stream` follows the tape from the first byte and sends each run as an event; a
// client that leaves, or reads slowly, does not disturb the command. One that is gone is not waited
// with: its connection and its task end, the command runs on.
#include "inbox/exec.h"

#include <stdio.h>

#include "base/clock.h"
#include "inbox/job.h"
#include "inbox/pour.h"
#include "wire/text.h"

#define SMALL (32 * 1024) // answers up to this are one piece
#define PIECE (64 * 1024) // of a large one
#define OUT_MAX (1 << 20) // a piece, with every byte escaped
#define RUN (8 * 1024)	  // of one event
#define CUT_MAX 3	  // bytes of a UTF-8 sequence that lacks its end

static void put_now(struct json_out *out)
{
	auto_buf text = BUF_INIT(64);

	clock_iso(clock_wall_ms(), &text);
	json_put_str(out, "timestamp", buf_view(&text));
}

static void put_result(struct json_out *out, const struct exec_result *result)
{
	json_put_text(out, "ended", ending_word(result->ending));
	if (result->signal)
		json_put_int(out, "signal", result->signal);
	json_put_int(out, "durationMs", result->duration_ms);
	json_put_int(out, "cpuMs", (int64_t)result->cpu_ms);
	json_put_int(out, "maxRssBytes", (int64_t)result->max_rss);
	json_put_bool(out, "stdoutTruncated", result->stdout_truncated);
	json_put_bool(out, "stderrTruncated", result->stderr_truncated);
}

// What a command that ran out of time has behind its stderr.
static struct str tail_of(const struct use *use, const struct exec_result *result, char *room,
			  size_t size)
{
	if (result->ending != ENDING_WALL_LIMIT)
		return STR("");
	snprintf(room, size, "Command timed out after %llums",
		 (unsigned long long)use_wall_ms(use));
	return str_of(room);
}

static fallible pour_answer(struct pour *pour, const struct job *job, struct use *use,
			    const struct exec_result *result)
{
	struct json_out out = json_to(pour->out);
	struct tape *tape = use_tape(use);
	char tail[64];

	json_begin(&out, '{');
	json_put_bool(&out, "success", result->exit_code == 0);
	json_put_int(&out, "exitCode", result->exit_code);
	buf_text(pour->out, ",\"stdout\":\"");
	TRY(pour_stream(pour, tape, TAPE_STDOUT, STR("")));
	buf_text(pour->out, "\",\"stderr\":\"");
	TRY(pour_stream(pour, tape, TAPE_STDERR, tail_of(use, result, tail, sizeof(tail))));
	buf_text(pour->out, "\"");
	json_put_str(&out, "command", job->shown);
	json_put_int(&out, "duration", result->duration_ms);
	put_now(&out);
	if (job->session.at)
		json_put_str(&out, "sessionId", job->session);
	put_result(&out, result);
	json_put_text(&out, "encoding", pour->base64 ? "base64" : "utf8");
	json_end(&out, '}');
	return OK;
}

static fallible answer(struct http *x, const struct job *job, struct use *use,
		       const struct exec_result *result)
{
	struct tape *tape = use_tape(use);
	uint64_t bytes = tape_bytes(tape, TAPE_STDOUT) + tape_bytes(tape, TAPE_STDERR);
	bool small = bytes + job->shown.len <= SMALL;
	auto_buf out = BUF_INIT(OUT_MAX + 8 * job->shown.len);
	struct pour pour = {
		.x = small ? NULL : x,
		.out = &out,
		.base64 = job->encoding == JOB_BASE64 ||
			  (job->encoding == JOB_AUTO && !tape_is_utf8(tape)),
		.size = small ? bytes : PIECE,
	};

	pour.room = bytes ? arena_take(x->arena, pour.size) : NULL;
	if (!small)
		TRY(http_begin(x, 200, NULL));
	TRY(pour_answer(&pour, job, use, result));
	if (small)
		return http_reply_json(x, 200, &out);
	TRY(pour_flush(&pour));
	return http_end(x);
}

// Reads the request and starts its command.
static fallible start(struct http *x, struct json **json, struct job *job, struct use **out)
{
	job->field = "body";
	TRY(door_json(x, json, NULL));
	TRY(job_read(x, *json, job));
	http_be_patient(x);
	return use_start(door_of(x)->fleet, door_who(x), x->params[0], &job->use, out);
}

static fallible await_result(struct http *x, struct use *use, struct str probe,
			     struct exec_result *out)
{
	struct err *err;

	TRY(http_away(x, probe));
	err = use_wait(use, out);
	http_back(x);
	return err;
}

fallible inbox_exec_run(struct http *x)
{
	struct exec_result result;
	auto_json json = NULL;
	auto_job job = {0};
	auto_use use = NULL;
	struct err *err = start(x, &json, &job, &use);

	if (err) {
		job_fail(x, &job, "command.execute", err);
		return OK;
	}
	TRY(await_result(x, use, HTTP_PROBE_HEAD, &result));
	return answer(x, &job, use, &result);
}

// One event: data: {json} and an empty line.
static fallible send_event(struct http *x, struct buf *event)
{
	struct err *err;

	buf_text(event, "\n\n");
	if (!buf_ok(event))
		return err_new(INTERNAL, "internal", "an event did not fit");
	err = http_write(x, event->at, event->len);
	buf_clear(event);
	return err;
}

static struct json_out begin_event(struct buf *event, const char *type)
{
	struct json_out out;

	buf_text(event, "data: ");
	out = json_to(event);
	json_begin(&out, '{');
	json_put_text(&out, "type", type);
	return out;
}

static fallible send_start(struct http *x, const struct job *job, const struct use *use,
			   struct buf *event)
{
	struct json_out out = begin_event(event, "start");

	json_put_str(&out, "command", job->shown);
	json_put_int(&out, "pid", use_pid(use));
	if (job->session.at)
		json_put_str(&out, "sessionId", job->session);
	put_now(&out);
	json_end(&out, '}');
	return send_event(x, event);
}

struct follower {
	struct http *x;
	enum job_encoding encoding;
	struct buf event;
	struct json_carry text[TAPE_STREAMS]; // JOB_UTF8
	struct {
		char bytes[CUT_MAX];
		size_t len;
	} cut[TAPE_STREAMS]; // JOB_AUTO
};

static fallible send_data(struct follower *f, enum tape_stream stream, struct str bytes,
			  bool base64)
{
	struct buf *event = &f->event;
	struct json_out out = begin_event(event, stream == TAPE_STDOUT ? "stdout" : "stderr");
	size_t before;

	if (base64)
		json_put_text(&out, "encoding", "base64");
	buf_text(event, ",\"data\":\"");
	before = event->len;
	if (base64)
		text_base64(event, bytes.at, bytes.len);
	else
		json_piece(event, bytes.at, bytes.len, &f->text[stream]);
	if (event->len == before) {
		buf_clear(event);
		return OK;
	}
	buf_text(event, "\"");
	put_now(&out);
	json_end(&out, '}');
	return send_event(f->x, event);
}

// How much of it is text from its start on; what is left is a cut sequence, or bad when longer.
static size_t text_len(struct str bytes)
{
	struct str rest = bytes;
	size_t len;

	while (rest.len && str_utf8(rest, &len) == STR_UTF8_GOOD)
		rest = str_skip(rest, len);
	return bytes.len - rest.len;
}

// `room` has CUT_MAX bytes free in front of the run.
static fallible send_auto(struct follower *f, enum tape_stream stream, char *room, size_t len)
{
	size_t waited = f->cut[stream].len, good, left;
	struct str bytes = {room - waited, waited + len};

	if (!bytes.len)
		return OK;
	memcpy(room - waited, f->cut[stream].bytes, waited);
	f->cut[stream].len = 0;
	good = text_len(bytes);
	left = bytes.len - good;
	if (left && (!len || str_utf8(str_skip(bytes, good), &waited) != STR_UTF8_CUT))
		return send_data(f, stream, bytes, true);
	memcpy(f->cut[stream].bytes, bytes.at + good, left);
	f->cut[stream].len = left;
	bytes.len = good;
	return send_data(f, stream, bytes, false);
}

// A run of output: base64 when that is asked for, and for bytes that are no text unless text is
// asked for. A sequence that is cut at the end of a run waits for the next one of the same stream;
// with len 0 what still waits is given out.
static fallible send_run(struct follower *f, enum tape_stream stream, char *room, size_t len)
{
	struct str bytes = {room, len};

	if (f->encoding == JOB_AUTO)
		return send_auto(f, stream, room, len);
	return send_data(f, stream, bytes, f->encoding == JOB_BASE64);
}

static fallible send_complete(struct http *x, const struct exec_result *result, struct buf *event)
{
	struct json_out out = begin_event(event, "complete");

	json_put_int(&out, "exitCode", result->exit_code);
	put_result(&out, result);
	put_now(&out);
	json_end(&out, '}');
	return send_event(x, event);
}

// The next run of the tape; the client may leave meanwhile.
static fallible await_run(struct http *x, struct tape *tape, uint64_t *offset,
			  enum tape_stream *stream, char *room, size_t *out)
{
	struct err *err;

	TRY(http_away(x, HTTP_PROBE_EVENT));
	err = tape_read(tape, offset, stream, room, RUN, out, CLOCK_NEVER);
	http_back(x);
	return err;
}

static void follower_done(struct follower *f)
{
	buf_done(&f->event);
}

static fallible follow(struct follower *f, const struct job *job, struct use *use)
{
	char *room = (char *)arena_take(f->x->arena, CUT_MAX + RUN) + CUT_MAX;
	struct exec_result result;
	uint64_t offset = 0;
	struct str tail;
	size_t got;

	TRY(send_start(f->x, job, use, &f->event));
	do {
		enum tape_stream stream = TAPE_STDOUT;

		TRY(await_run(f->x, use_tape(use), &offset, &stream, room, &got));
		if (got)
			TRY(send_run(f, stream, room, got));
	} while (got);
	for (int i = 0; i < TAPE_STREAMS; i++)
		TRY(send_run(f, i, room, 0));
	TRY(await_result(f->x, use, HTTP_PROBE_EVENT, &result));
	tail = tail_of(use, &result, room, RUN);
	if (tail.len)
		TRY(send_run(f, TAPE_STDERR, room, tail.len));
	return send_complete(f->x, &result, &f->event);
}

fallible inbox_exec_stream(struct http *x)
{
	auto_json json = NULL;
	auto_job job = {0};
	auto_use use = NULL;
	on_exit_call(follower_done) struct follower f = {.x = x};
	struct err *err = start(x, &json, &job, &use);

	if (err) {
		job_fail(x, &job, "command.stream", err);
		return OK;
	}
	http_set(x, "Cache-Control", STR("no-cache"));
	TRY(http_begin(x, 200, "text/event-stream"));
	f.encoding = job.encoding;
	f.event = BUF_INIT(OUT_MAX + 8 * job.shown.len);
	TRY(follow(&f, &job, use));
	return http_end(x);
}
