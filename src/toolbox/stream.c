// The command is started as a process and its tape is followed from the first byte, so the client
// gets all output. A client that disconnects does not affect the command.
#include <stdio.h>

#include "base/clock.h"
#include "gateway/cancel_on_delete.h"
#include "toolbox/handlers.h"
#include "toolbox/process.h"

static void add_start(struct follow *follow, const struct exec_request *request,
		      const struct proc_view *view)
{
	struct json_out out = follow_event(follow, "start");

	json_put_str(&out, "command", request->shown);
	json_put_int(&out, "pid", view->pid);
	json_put_text(&out, "processId", view->id);
	if (request->session.at)
		json_put_str(&out, "sessionId", request->session);
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

static fallible toolbox_stream_run(struct follow *follow, const struct exec_request *request,
				   struct proc *proc)
{
	struct proc_view view = proc_look(proc);

	follow_prepare(follow);
	add_start(follow, request, &view);
	TRY(follow_tape(follow));
	if (!proc_is_over(proc)) {
		TRY(follow_flush(follow));
		TRY(proc_wait(proc, CLOCK_NEVER));
	}
	view = proc_look(proc);
	add_end(follow, &view);
	return follow_end(follow);
}

static fallible toolbox_stream_start(struct http *x, struct json **json,
				     struct exec_request *request, struct process *out)
{
	struct spawn spec = {0};

	request->field = "body";
	TRY(gateway_json(x, json, NULL));
	TRY(exec_request_read(x, *json, request));
	TRY(exec_request_not_blank(request));
	http_be_patient(x);
	TRY(box_ref_begin(gateway_of(x)->manager, gateway_who(x), x->params[0], &out->ref));
	spec.session = request->session;
	spec.seat = request->in_session;
	spec.shown = request->shown;
	TRY(spawn_process(&out->ref, &request->spec, &spec, &out->proc));
	out->tape = proc_tape(out->proc);
	tape_ref(out->tape);
	return OK;
}

fallible toolbox_exec_stream(struct http *x)
{
	auto_json json = NULL;
	auto_exec_request request = {0};
	auto_process process = {0};
	auto_follow follow = {.x = x};
	struct err *err = toolbox_stream_start(x, &json, &request, &process);

	if (err) {
		exec_request_fail(x, &request, "command.stream", err);
		return OK;
	}
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(process.ref.entry,
									       x);

	follow.tape = process.tape;
	follow.encoding = request.encoding;
	follow.out = BUF_INIT(FOLLOW_OUT_MAX + 8 * request.shown.len);
	return toolbox_stream_run(&follow, &request, process.proc);
}
