// Runs a command: `execute` waits for its end and answers once, alone or in a session's shell;
// `execute/stream` sends its output as events. A small output is sent in one piece; a large one is
// copied from the tape as the client reads, so that no output is ever held whole in memory. A
// client that disconnects does not affect a running command; a command of a session that has not
// begun is cancelled.
#include "manager/exec.h"

#include <stdio.h>

#include "base/clock.h"
#include "gateway/cancel_on_delete.h"
#include "toolbox/exec_request.h"
#include "toolbox/handlers.h"
#include "toolbox/process.h"
#include "toolbox/stream_json.h"

#define LAST (32 * 1024) // bytes of each stream in an error
#define CONTEXT_MAX (1 << 20)
#define TAIL_MAX 64

// Text appended to the stderr of a command that timed out; empty: it did not.
static struct str exec_timeout_text(const struct exec_result *result, uint64_t wall_ms,
				    char room[TAIL_MAX])
{
	room[0] = 0;
	if (result->ending == ENDING_WALL_LIMIT)
		snprintf(room, TAIL_MAX, "Command timed out after %llums",
			 (unsigned long long)wall_ms);
	return str_of(room);
}

// ------------------------------------------------------------------------ in a session

static struct shell_filter filter_of(const struct exec_request *request, enum tape_stream stream,
				     const struct session_result *result)
{
	return (struct shell_filter){
		.command = str_of(request->spec.command),
		.remarks = stream == TAPE_STDERR,
		.jobs = result->has_jobs,
		.left = result->end == SESSION_TERMINATED,
	};
}

static fallible copy_sifted(struct stream_json *writer, const struct exec_request *request,
			    enum tape_stream stream, struct tape *tape,
			    const struct session_result *result)
{
	struct shell_filter filter = filter_of(request, stream, result);

	writer->filter = &filter;
	TRY(stream_json_member(writer, tape, stream, STR("")));
	writer->filter = NULL;
	return OK;
}

static fallible shell_copy_answer(struct stream_json *writer, const struct exec_request *request,
				  struct tape *tape, const struct session_result *result)
{
	struct json_out out = json_to(writer->out);

	json_begin(&out, '{');
	json_put_bool(&out, "success", result->exit_code == 0);
	json_put_int(&out, "exitCode", result->exit_code);
	TRY(copy_sifted(writer, request, TAPE_STDOUT, tape, result));
	TRY(copy_sifted(writer, request, TAPE_STDERR, tape, result));
	json_put_str(&out, "command", request->shown);
	json_put_int(&out, "duration", result->duration_ms);
	gateway_put_now(&out);
	if (request->session.at)
		json_put_str(&out, "sessionId", request->session);
	json_put_text(&out, "ended", ending_word(result->ending));
	json_put_int(&out, "durationMs", result->duration_ms);
	json_put_bool(&out, "stdoutTruncated", result->stdout_truncated);
	json_put_bool(&out, "stderrTruncated", result->stderr_truncated);
	if (result->restarted)
		json_put_bool(&out, "sessionRestarted", true);
	json_put_text(&out, "encoding", writer->base64 ? "base64" : "utf8");
	json_end(&out, '}');
	return OK;
}

static fallible shell_answer(struct http *x, const struct exec_request *request, struct tape *tape,
			     const struct session_result *result)
{
	uint64_t bytes = tape_bytes(tape, TAPE_STDOUT) + tape_bytes(tape, TAPE_STDERR);
	auto_buf out = BUF_INIT(STREAM_JSON_OUT_MAX + 8 * request->shown.len);
	struct stream_json writer = {
		.out = &out,
		.base64 = exec_request_is_base64(request->encoding, tape_is_utf8(tape)),
		.no_nul = true,
	};

	TRY(stream_json_begin(&writer, x, bytes, request->shown.len));
	TRY(shell_copy_answer(&writer, request, tape, result));
	return stream_json_end(&writer, x);
}

// Keeps the last bytes of a stream.
static void shell_keep_last(void *arg, const char *bytes, size_t len)
{
	struct buf *last = arg;

	if (len > LAST)
		bytes += len - LAST;
	buf_add(last, bytes, len < LAST ? len : LAST);
	if (last->len > LAST)
		buf_drop_front(last, last->len - LAST);
}

static fallible put_last(struct http *x, struct json_out *out, const struct exec_request *request,
			 const char *name, enum tape_stream stream, struct tape *tape,
			 const struct session_result *result)
{
	auto_buf last = BUF_INIT(3 * LAST);
	struct shell_filter filter = filter_of(request, stream, result);
	char *room = arena_take(x->arena, LAST);
	uint64_t offset = 0;
	size_t got;

	filter.give = shell_keep_last;
	filter.arg = &last;
	do {
		enum tape_stream from = stream;

		TRY(tape_read(tape, &offset, &from, room, LAST, &got, CLOCK_NEVER));
		if (from == stream)
			shell_sift(&filter, room, got);
	} while (got);
	shell_sift_end(&filter);
	json_put_str(out, name, last.len ? buf_view(&last) : STR(""));
	return OK;
}

static fallible shell_write_context(struct http *x, const struct exec_request *request,
				    struct tape *tape, const struct session_result *result,
				    struct buf *context)
{
	struct json_out out = json_to(context);
	struct str shown = request->shown;

	if (shown.len > LAST)
		shown.len = LAST;
	json_begin(&out, '{');
	if (result->end == SESSION_TIMED_OUT) {
		json_put_str(&out, "command", shown);
		json_put_int(&out, "timeoutMs", (int64_t)result->timeout_ms);
		json_put_bool(&out, "sessionRestarted", result->restarted);
	}
	json_put_str(&out, "sessionId", request->in_session);
	if (result->end == SESSION_TERMINATED)
		json_put_int(&out, "exitCode", result->exit_code);
	json_put_text(&out, "ended", ending_word(result->ending));
	TRY(put_last(x, &out, request, "stdout", TAPE_STDOUT, tape, result));
	TRY(put_last(x, &out, request, "stderr", TAPE_STDERR, tape, result));
	json_end(&out, '}');
	return OK;
}

static fallible shell_explain(const struct exec_request *request,
			      const struct session_result *result)
{
	int shown = (int)(request->shown.len < LAST ? request->shown.len : LAST);

	switch (result->end) {
	case SESSION_TIMED_OUT: // not a TIMEOUT: that would be logged, with the command
		return err_hint(err_new(CONFLICT, "command_timeout",
					"Failed to execute command '%.*s' in session '" STR_FMT
					"': Command timeout after %llums",
					shown, request->shown.at, STR_ARG(request->in_session),
					(unsigned long long)result->timeout_ms),
				result->restarted ? "its shell did not answer and was replaced: "
						    "the state of the session is lost"
						  : "the session goes on; for longer commands "
						    "start a process");
	case SESSION_TERMINATED:
		return err_hint(err_new(GONE, "session_terminated",
					"Session '" STR_FMT "' shell exited (exit code: %d)",
					STR_ARG(request->in_session), result->exit_code),
				"the next command has a new shell");
	default:
		return err_new(GONE, "session_destroyed", "Session '" STR_FMT "' was destroyed",
			       STR_ARG(request->in_session));
	}
}

static fallible shell_refuse(struct http *x, const struct exec_request *request, struct tape *tape,
			     const struct session_result *result)
{
	auto_buf context = BUF_INIT(CONTEXT_MAX);
	struct error_response_detail detail = {.operation = "command.execute"};

	TRY(shell_write_context(x, request, tape, result, &context));
	if (buf_ok(&context))
		detail.context = buf_view(&context);
	return error_response_answer(x, shell_explain(request, result), &detail);
}

static fallible shell_run_exec_request(struct http *x, struct box_ref *ref,
				       struct exec_request *request, struct session_run **out,
				       struct session_result *result)
{
	auto_session session = NULL;
	struct session_job order;

	TRY(gateway_box(x, ref));
	TRY(shells_take(ref, request->in_session, &session));
	order = shells_job(ref, &request->spec);
	TRY(session_run(session, &order, out));
	return box_ref_explain(
		http_while_away(x, HTTP_PROBE_HEAD, session_run_wait(*out, CLOCK_NEVER, result)));
}

static fallible shell_run(struct http *x, struct exec_request *request)
{
	auto_box_ref ref = {0};
	auto_session_run at = NULL;
	struct session_result result = {0};
	struct err *err = shell_run_exec_request(x, &ref, request, &at, &result);

	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	if (err)
		return exec_request_fail(x, request, "command.execute", err);
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	shells_report(&ref, &result);
	if (result.end == SESSION_DONE)
		return shell_answer(x, request, session_run_tape(at), &result);
	return shell_refuse(x, request, session_run_tape(at), &result);
}

// --------------------------------------------------------------------------- as events

// The command is started as a process, whose tape is followed from the first byte.
static void add_start(struct follow *follow, const struct exec_request *request,
		      const struct proc_view *view)
{
	struct json_out out = follow_event(follow, "start");

	json_put_str(&out, "command", request->shown);
	json_put_int(&out, "pid", view->pid);
	json_put_text(&out, "processId", view->id);
	if (request->session.at)
		json_put_str(&out, "sessionId", request->session);
	follow_event_end(&out);
}

static void add_end(struct follow *follow, const struct proc_view *view)
{
	struct json_out out;
	char tail[TAIL_MAX];

	if (view->result)
		follow_tail(follow, TAPE_STDERR,
			    exec_timeout_text(view->result, view->wall_ms, tail));
	out = follow_event(follow, "complete");
	json_put_int(&out, "exitCode", view->exit_code);
	if (view->result)
		follow_put_result(follow, &out, view->result);
	follow_event_end(&out);
}

static fallible stream_run(struct follow *follow, const struct exec_request *request,
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

static fallible stream_start(struct http *x, struct json **json, struct exec_request *request,
			     struct process *out)
{
	struct spawn spec = {0};

	request->field = "body";
	TRY(gateway_json(x, json, NULL));
	TRY(exec_request_read(x, *json, request));
	TRY(exec_request_not_blank(request));
	http_be_patient(x);
	TRY(gateway_box(x, &out->ref));
	spec.session = request->session;
	spec.state_of = request->in_session;
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
	struct err *err = stream_start(x, &json, &request, &process);

	if (err)
		return exec_request_fail(x, &request, "command.stream", err);
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(process.ref.entry,
									       x);

	follow.tape = process.tape;
	follow.encoding = request.encoding;
	follow.out = BUF_INIT(FOLLOW_OUT_MAX + 8 * request.shown.len);
	return stream_run(&follow, &request, process.proc);
}

// ------------------------------------------------------------------------------- alone

static fallible exec_copy_answer(struct stream_json *writer, const struct exec_request *request,
				 struct manager_exec *run, const struct exec_result *result)
{
	struct json_out out = json_to(writer->out);
	struct tape *tape = manager_exec_tape(run);
	char tail[TAIL_MAX];

	json_begin(&out, '{');
	json_put_bool(&out, "success", result->exit_code == 0);
	json_put_int(&out, "exitCode", result->exit_code);
	TRY(stream_json_member(writer, tape, TAPE_STDOUT, STR("")));
	TRY(stream_json_member(writer, tape, TAPE_STDERR,
			       exec_timeout_text(result, manager_exec_wall_ms(run), tail)));
	json_put_str(&out, "command", request->shown);
	json_put_int(&out, "duration", result->duration_ms);
	gateway_put_now(&out);
	if (request->session.at)
		json_put_str(&out, "sessionId", request->session);
	follow_put_ending(&out, result);
	json_put_text(&out, "encoding", writer->base64 ? "base64" : "utf8");
	json_end(&out, '}');
	return OK;
}

static fallible exec_answer(struct http *x, const struct exec_request *request,
			    struct manager_exec *run, const struct exec_result *result)
{
	struct tape *tape = manager_exec_tape(run);
	uint64_t bytes = tape_bytes(tape, TAPE_STDOUT) + tape_bytes(tape, TAPE_STDERR);
	auto_buf out = BUF_INIT(STREAM_JSON_OUT_MAX + 8 * request->shown.len);
	struct stream_json writer = {
		.out = &out,
		.base64 = exec_request_is_base64(request->encoding, tape_is_utf8(tape)),
		.no_nul = request->encoding == EXEC_REQUEST_UTF8,
	};

	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(
		manager_exec_entry(run), x);

	TRY(stream_json_begin(&writer, x, bytes, request->shown.len));
	TRY(exec_copy_answer(&writer, request, run, result));
	return stream_json_end(&writer, x);
}

static fallible run_apart(struct http *x, struct exec_request *request)
{
	struct exec_result result;
	auto_manager_exec run = NULL;
	struct err *err = exec_request_not_blank(request);

	if (!err)
		err = manager_exec_start(gateway_of(x)->manager, gateway_who(x), x->params[0],
					 &request->spec, &run);
	if (err)
		return exec_request_fail(x, request, "command.execute", err);
	TRY(http_while_away(x, HTTP_PROBE_HEAD, manager_exec_wait(run, &result)));
	return exec_answer(x, request, run, &result);
}

// A session's shell runs commands as its own user and without stdin: refuse fields that ask for
// more.
static fallible check_terminal_command(struct exec_request *request)
{
	const char *odd = NULL;

	if (!request->spec.command)
		odd = "argv";
	else if (request->spec.stdin_bytes.at)
		odd = "stdin";
	else if (request->spec.user)
		odd = "user";
	if (!odd)
		return OK;
	request->field = odd;
	return err_hint(err_new(INVALID, "bad_field", "a session takes no '%s'", odd),
			"leave sessionId out, or send \"" SESSION_NONE "\"");
}

static fallible read_exec_request(struct http *x, struct json **json, struct exec_request *request)
{
	request->field = "body";
	TRY(gateway_json(x, json, NULL));
	TRY(exec_request_read(x, *json, request));
	return request->in_session.at && !request->background ? check_terminal_command(request)
							      : OK;
}

fallible toolbox_exec_run(struct http *x)
{
	auto_json json = NULL;
	auto_exec_request request = {0};
	struct err *err = read_exec_request(x, &json, &request);

	if (err)
		return exec_request_fail(x, &request, "command.execute", err);
	http_be_patient(x);
	if (request.background)
		return toolbox_process_begin(x, json, &request);
	return request.in_session.at ? shell_run(x, &request) : run_apart(x, &request);
}
