// Two ways to the same command. `execute` waits for the end and answers once: a small output in one
// piece, a large one poured from the tape as the client reads, so that no output is ever held
// whole. `execute/stream` follows the tape from the first byte and sends each run as an event; a
// client that leaves, or reads slowly, does not disturb the command.
#include "api/exec.h"

#include <stdio.h>

#include "api/job.h"
#include "api/pour.h"
#include "base/clock.h"
#include "wire/text.h"

#define SMALL (32 * 1024) // answers up to this are one piece
#define PIECE (64 * 1024) // of a large one
#define OUT_MAX (1 << 20) // a piece, with every byte escaped
#define RUN (8 * 1024)	  // of one event

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
	return use_start(door_of(x)->fleet, door_who(x), x->params[0], &job->use, out);
}

fallible api_exec_run(struct http *x)
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
	TRY(use_wait(use, &result));
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

// A run of output. A sequence that is cut at its end waits in `carry` for the next run of the same
// stream; with len 0 what still waits is given out.
static fallible send_run(struct http *x, bool base64, enum tape_stream stream, const void *bytes,
			 size_t len, struct json_carry *carry, struct buf *event)
{
	struct json_out out = begin_event(event, stream == TAPE_STDOUT ? "stdout" : "stderr");
	size_t before;

	buf_text(event, ",\"data\":\"");
	before = event->len;
	if (base64)
		text_base64(event, bytes, len);
	else
		json_piece(event, bytes, len, carry);
	if (event->len == before) {
		buf_clear(event);
		return OK;
	}
	buf_text(event, "\"");
	put_now(&out);
	json_end(&out, '}');
	return send_event(x, event);
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

static fallible follow(struct http *x, const struct job *job, struct use *use)
{
	bool base64 = job->encoding == JOB_BASE64;
	auto_buf event = BUF_INIT(OUT_MAX + 8 * job->shown.len);
	struct json_carry carry[TAPE_STREAMS] = {0};
	char *room = arena_take(x->arena, RUN);
	struct exec_result result;
	uint64_t offset = 0;
	struct str tail;
	size_t got;

	TRY(send_start(x, job, use, &event));
	do {
		enum tape_stream stream = TAPE_STDOUT;

		TRY(tape_read(use_tape(use), &offset, &stream, room, RUN, &got, CLOCK_NEVER));
		if (got)
			TRY(send_run(x, base64, stream, room, got, &carry[stream], &event));
	} while (got);
	for (int i = 0; i < TAPE_STREAMS && !base64; i++)
		TRY(send_run(x, base64, i, NULL, 0, &carry[i], &event));
	TRY(use_wait(use, &result));
	tail = tail_of(use, &result, room, RUN);
	if (tail.len)
		TRY(send_run(x, base64, TAPE_STDERR, tail.at, tail.len, &carry[TAPE_STDERR],
			     &event));
	return send_complete(x, &result, &event);
}

fallible api_exec_stream(struct http *x)
{
	auto_json json = NULL;
	auto_job job = {0};
	auto_use use = NULL;
	struct err *err = start(x, &json, &job, &use);

	if (err) {
		job_fail(x, &job, "command.stream", err);
		return OK;
	}
	http_set(x, "Cache-Control", STR("no-cache"));
	TRY(http_begin(x, 200, "text/event-stream"));
	TRY(follow(x, &job, use));
	return http_end(x);
}
