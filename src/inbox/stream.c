// The command is started as a process and its tape followed from the first byte: the client gets
// all of it. A reader that leaves does not disturb the command.
#include "inbox/stream.h"

#include <stdio.h>

#include "base/clock.h"
#include "door/escort.h"
#include "inbox/process.h"

static void add_start(struct follow *follow, const struct job *job, const struct proc_view *view)
{
	struct json_out out = follow_event(follow, "start");

	json_put_str(&out, "command", job->shown);
	json_put_int(&out, "pid", view->pid);
	json_put_text(&out, "processId", view->id);
	if (job->session.at)
		json_put_str(&out, "sessionId", job->session);
	follow_event_end(follow, &out);
}

static void add_end(struct follow *follow, const struct proc_view *view)
{
	struct json_out out;
	char text[64];

	if (view->result && view->result->ending == ENDING_WALL_LIMIT) {
		snprintf(text, sizeof(text), "Command timed out after %llums",
			 (unsigned long long)view->wall_ms);
		follow_tail(follow, TAPE_STDERR, str_of(text));
	}
	out = follow_event(follow, "complete");
	json_put_int(&out, "exitCode", view->exit_code);
	if (view->result)
		follow_put_result(follow, &out, view->result);
	follow_event_end(follow, &out);
}

static fallible inbox_stream_run(struct follow *follow, const struct job *job, struct proc *proc)
{
	struct proc_view view = proc_look(proc);

	follow_prepare(follow);
	add_start(follow, job, &view);
	TRY(follow_tape(follow));
	if (!proc_is_over(proc)) {
		TRY(follow_flush(follow));
		TRY(proc_wait(proc, CLOCK_NEVER));
	}
	view = proc_look(proc);
	add_end(follow, &view);
	return follow_end(follow);
}

static fallible inbox_stream_start(struct http *x, struct json **json, struct job *job,
				   struct process *out)
{
	struct spawn spec = {0};

	job->field = "body";
	TRY(door_json(x, json, NULL));
	TRY(job_read(x, *json, job));
	TRY(job_not_blank(job));
	http_be_patient(x);
	TRY(visit_begin(door_of(x)->fleet, door_who(x), x->params[0], &out->visit));
	spec.session = job->session;
	spec.seat = job->seat;
	spec.shown = job->shown;
	TRY(spawn_process(&out->visit, &job->use, &spec, &out->proc));
	out->tape = proc_tape(out->proc);
	tape_hold(out->tape);
	return OK;
}

fallible inbox_exec_stream(struct http *x)
{
	auto_json json = NULL;
	auto_job job = {0};
	auto_process process = {0};
	auto_follow follow = {.x = x};
	struct err *err = inbox_stream_start(x, &json, &job, &process);

	if (err) {
		job_fail(x, &job, "command.stream", err);
		return OK;
	}
	auto_escort escort = escort_begin_reader(process.visit.entry, x);

	follow.tape = process.tape;
	follow.encoding = job.encoding;
	follow.out = BUF_INIT(FOLLOW_OUT_MAX + 8 * job.shown.len);
	return inbox_stream_run(&follow, &job, process.proc);
}
