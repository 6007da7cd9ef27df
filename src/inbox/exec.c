// `execute` waits for the end of its command and answers once: a small output in one piece, a large
// one poured from the tape as the client reads, so that no output is ever held whole. A client that
// is gone is not waited with: its connection and its task end, the command runs on.
#include "inbox/exec.h"

#include <stdio.h>

#include "base/clock.h"
#include "door/escort.h"
#include "inbox/job.h"
#include "inbox/pour.h"
#include "inbox/process.h"
#include "inbox/shell.h"

static void inbox_exec_put_result(struct json_out *out, const struct exec_result *result)
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
static struct str inbox_exec_tail_of(const struct use *use, const struct exec_result *result,
				     char *room, size_t size)
{
	if (result->ending != ENDING_WALL_LIMIT)
		return STR("");
	snprintf(room, size, "Command timed out after %llums",
		 (unsigned long long)use_wall_ms(use));
	return str_of(room);
}

static fallible inbox_exec_pour_answer(struct pour *pour, const struct job *job, struct use *use,
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
	TRY(pour_stream(pour, tape, TAPE_STDERR,
			inbox_exec_tail_of(use, result, tail, sizeof(tail))));
	buf_text(pour->out, "\"");
	json_put_str(&out, "command", job->shown);
	json_put_int(&out, "duration", result->duration_ms);
	door_put_now(&out);
	if (job->session.at)
		json_put_str(&out, "sessionId", job->session);
	inbox_exec_put_result(&out, result);
	json_put_text(&out, "encoding", pour->base64 ? "base64" : "utf8");
	json_end(&out, '}');
	return OK;
}

static fallible inbox_exec_answer(struct http *x, const struct job *job, struct use *use,
				  const struct exec_result *result)
{
	struct tape *tape = use_tape(use);
	uint64_t bytes = tape_bytes(tape, TAPE_STDOUT) + tape_bytes(tape, TAPE_STDERR);
	auto_buf out = BUF_INIT(POUR_OUT_MAX + 8 * job->shown.len);
	struct pour pour = {
		.out = &out,
		.base64 = job_is_base64(job->encoding, tape_is_utf8(tape)),
		.no_nul = job->encoding == JOB_UTF8,
	};

	auto_escort escort = escort_begin_reader(use_entry(use), x);

	TRY(pour_begin(&pour, x, bytes, job->shown.len));
	TRY(inbox_exec_pour_answer(&pour, job, use, result));
	return pour_end(&pour, x);
}

static fallible run_apart(struct http *x, struct job *job)
{
	struct exec_result result;
	auto_use use = NULL;
	struct err *err = job_not_blank(job);

	if (!err)
		err = use_start(door_of(x)->fleet, door_who(x), x->params[0], &job->use, &use);
	if (err) {
		job_fail(x, job, "command.execute", err);
		return OK;
	}
	TRY(http_away(x, HTTP_PROBE_HEAD));
	err = use_wait(use, &result);
	http_back(x);
	TRY(err);
	return inbox_exec_answer(x, job, use, &result);
}

// A shell runs what it is told as itself, and reads no stdin.
static fallible check_seat(struct job *job)
{
	const char *odd = NULL;

	if (!job->use.command)
		odd = "argv";
	else if (job->use.stdin_bytes.at)
		odd = "stdin";
	else if (job->use.user)
		odd = "user";
	if (!odd)
		return OK;
	job->field = odd;
	return err_hint(err_new(INVALID, "bad_field", "a session takes no '%s'", odd),
			"leave sessionId out, or send \"" SESSION_NONE "\"");
}

static fallible read_job(struct http *x, struct json **json, struct job *job)
{
	job->field = "body";
	TRY(door_json(x, json, NULL));
	TRY(job_read(x, *json, job));
	return job->seat.at && !job->background ? check_seat(job) : OK;
}

fallible inbox_exec_run(struct http *x)
{
	auto_json json = NULL;
	auto_job job = {0};
	struct err *err = read_job(x, &json, &job);

	if (err) {
		job_fail(x, &job, "command.execute", err);
		return OK;
	}
	http_be_patient(x);
	if (job.background)
		return inbox_process_begin(x, json, &job);
	return job.seat.at ? inbox_shell_run(x, &job) : run_apart(x, &job);
}
