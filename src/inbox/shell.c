// The end of a command in a session is an answer; that of its shell, or of its time, is an error in
// Cloudflare's words that carries the last of what was written. A client that leaves does not
// disturb the command, only one that has not begun is given up.
#include "inbox/shell.h"

#include <stdio.h>

#include "base/clock.h"
#include "door/escort.h"
#include "fleet/shells.h"
#include "inbox/pour.h"

#define LAST (32 * 1024) // of each stream, in an error
#define CONTEXT_MAX (1 << 20)

static struct shell_sieve sieve_of(const struct job *job, enum tape_stream stream,
				   const struct session_result *result)
{
	return (struct shell_sieve){
		.command = str_of(job->use.command),
		.remarks = stream == TAPE_STDERR,
		.jobs = result->has_jobs,
		.left = result->end == SESSION_TERMINATED,
	};
}

static fallible pour_sifted(struct pour *pour, const struct job *job, const char *name,
			    enum tape_stream stream, struct tape *tape,
			    const struct session_result *result)
{
	struct shell_sieve sieve = sieve_of(job, stream, result);

	pour->sieve = &sieve;
	buf_fmt(pour->out, ",\"%s\":\"", name);
	TRY(pour_stream(pour, tape, stream, STR("")));
	buf_text(pour->out, "\"");
	pour->sieve = NULL;
	return OK;
}

static fallible inbox_shell_pour_answer(struct pour *pour, const struct job *job, struct tape *tape,
					const struct session_result *result)
{
	struct json_out out = json_to(pour->out);

	json_begin(&out, '{');
	json_put_bool(&out, "success", result->exit_code == 0);
	json_put_int(&out, "exitCode", result->exit_code);
	TRY(pour_sifted(pour, job, "stdout", TAPE_STDOUT, tape, result));
	TRY(pour_sifted(pour, job, "stderr", TAPE_STDERR, tape, result));
	json_put_str(&out, "command", job->shown);
	json_put_int(&out, "duration", result->duration_ms);
	door_put_now(&out);
	if (job->session.at)
		json_put_str(&out, "sessionId", job->session);
	json_put_text(&out, "ended", ending_word(result->ending));
	json_put_int(&out, "durationMs", result->duration_ms);
	json_put_bool(&out, "stdoutTruncated", result->stdout_truncated);
	json_put_bool(&out, "stderrTruncated", result->stderr_truncated);
	if (result->restarted)
		json_put_bool(&out, "sessionRestarted", true);
	json_put_text(&out, "encoding", pour->base64 ? "base64" : "utf8");
	json_end(&out, '}');
	return OK;
}

static fallible inbox_shell_answer(struct http *x, const struct job *job, struct tape *tape,
				   const struct session_result *result)
{
	uint64_t bytes = tape_bytes(tape, TAPE_STDOUT) + tape_bytes(tape, TAPE_STDERR);
	auto_buf out = BUF_INIT(POUR_OUT_MAX + 8 * job->shown.len);
	struct pour pour = {
		.out = &out,
		.base64 = job_is_base64(job->encoding, tape_is_utf8(tape)),
		.no_nul = true,
	};

	TRY(pour_begin(&pour, x, bytes, job->shown.len));
	TRY(inbox_shell_pour_answer(&pour, job, tape, result));
	return pour_end(&pour, x);
}

// The last bytes of a stream.
static void inbox_shell_keep_last(void *arg, const char *bytes, size_t len)
{
	struct buf *last = arg;

	if (len > LAST)
		bytes += len - LAST;
	buf_add(last, bytes, len < LAST ? len : LAST);
	if (last->len > LAST)
		buf_drop_front(last, last->len - LAST);
}

static fallible put_last(struct http *x, struct json_out *out, const struct job *job,
			 const char *name, enum tape_stream stream, struct tape *tape,
			 const struct session_result *result)
{
	auto_buf last = BUF_INIT(3 * LAST);
	struct shell_sieve sieve = sieve_of(job, stream, result);
	char *room = arena_take(x->arena, LAST);
	uint64_t offset = 0;
	size_t got;

	sieve.give = inbox_shell_keep_last;
	sieve.arg = &last;
	do {
		enum tape_stream from = stream;

		TRY(tape_read(tape, &offset, &from, room, LAST, &got, CLOCK_NEVER));
		if (from == stream)
			shell_sift(&sieve, room, got);
	} while (got);
	shell_sift_end(&sieve);
	json_put_str(out, name, last.len ? buf_view(&last) : STR(""));
	return OK;
}

static fallible inbox_shell_write_context(struct http *x, const struct job *job, struct tape *tape,
					  const struct session_result *result, struct buf *context)
{
	struct json_out out = json_to(context);
	struct str shown = job->shown;

	if (shown.len > LAST)
		shown.len = LAST;
	json_begin(&out, '{');
	if (result->end == SESSION_TIMED_OUT) {
		json_put_str(&out, "command", shown);
		json_put_int(&out, "timeoutMs", (int64_t)result->timeout_ms);
		json_put_bool(&out, "sessionRestarted", result->restarted);
	}
	json_put_str(&out, "sessionId", job->seat);
	if (result->end == SESSION_TERMINATED)
		json_put_int(&out, "exitCode", result->exit_code);
	json_put_text(&out, "ended", ending_word(result->ending));
	TRY(put_last(x, &out, job, "stdout", TAPE_STDOUT, tape, result));
	TRY(put_last(x, &out, job, "stderr", TAPE_STDERR, tape, result));
	json_end(&out, '}');
	return OK;
}

static fallible inbox_shell_explain(const struct job *job, const struct session_result *result)
{
	int shown = (int)(job->shown.len < LAST ? job->shown.len : LAST);

	switch (result->end) {
	case SESSION_TIMED_OUT: // not a TIMEOUT: that would be logged, with the command
		return err_hint(err_new(CONFLICT, "command_timeout",
					"Failed to execute command '%.*s' in session '" STR_FMT
					"': Command timeout after %llums",
					shown, job->shown.at, STR_ARG(job->seat),
					(unsigned long long)result->timeout_ms),
				result->restarted ? "its shell did not answer and was replaced: "
						    "the state of the session is lost"
						  : "the session goes on; for longer commands "
						    "start a process");
	case SESSION_TERMINATED:
		return err_hint(err_new(GONE, "session_terminated",
					"Session '" STR_FMT "' shell exited (exit code: %d)",
					STR_ARG(job->seat), result->exit_code),
				"the next command has a new shell");
	default:
		return err_new(GONE, "session_destroyed", "Session '" STR_FMT "' was destroyed",
			       STR_ARG(job->seat));
	}
}

static fallible inbox_shell_refuse(struct http *x, const struct job *job, struct tape *tape,
				   const struct session_result *result)
{
	auto_buf context = BUF_INIT(CONTEXT_MAX);
	struct fail_detail detail = {.operation = "command.execute"};

	TRY(inbox_shell_write_context(x, job, tape, result, &context));
	if (buf_ok(&context))
		detail.context = buf_view(&context);
	fail_answer(x, inbox_shell_explain(job, result), &detail);
	return OK;
}

static fallible inbox_shell_run_job(struct http *x, struct visit *visit, struct job *job,
				    struct session_run **out, struct session_result *result)
{
	auto_session session = NULL;
	struct session_job order;
	struct err *err;

	TRY(visit_begin(door_of(x)->fleet, door_who(x), x->params[0], visit));
	TRY(shells_take(visit, job->seat, &session));
	order = shells_job(visit, &job->use);
	TRY(session_run(session, &order, out));
	TRY(http_away(x, HTTP_PROBE_HEAD));
	err = session_run_wait(*out, CLOCK_NEVER, result);
	http_back(x);
	return visit_explain(err);
}

fallible inbox_shell_run(struct http *x, struct job *job)
{
	auto_visit visit = {0};
	auto_session_run at = NULL;
	struct session_result result;
	struct err *err = inbox_shell_run_job(x, &visit, job, &at, &result);

	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	if (err) {
		job_fail(x, job, "command.execute", err);
		return OK;
	}
	auto_escort escort = escort_begin_reader(visit.entry, x);

	shells_report(&visit, &result);
	if (result.end == SESSION_DONE)
		return inbox_shell_answer(x, job, session_run_tape(at), &result);
	return inbox_shell_refuse(x, job, session_run_tape(at), &result);
}
