// The end of a command in a session is an answer. The end of its shell, or a timeout, is an error
// in Cloudflare's format that contains the last bytes of output. A client that disconnects does not
// affect a running command; a command that has not begun is cancelled.
#include "toolbox/shell.h"

#include <stdio.h>

#include "base/clock.h"
#include "gateway/cancel_on_delete.h"
#include "manager/shells.h"
#include "toolbox/stream_json.h"

#define LAST (32 * 1024) // bytes of each stream in an error
#define CONTEXT_MAX (1 << 20)

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
			    const char *name, enum tape_stream stream, struct tape *tape,
			    const struct session_result *result)
{
	struct shell_filter filter = filter_of(request, stream, result);

	writer->filter = &filter;
	buf_fmt(writer->out, ",\"%s\":\"", name);
	TRY(stream_json_stream(writer, tape, stream, STR("")));
	buf_text(writer->out, "\"");
	writer->filter = NULL;
	return OK;
}

static fallible toolbox_shell_copy_answer(struct stream_json *writer,
					  const struct exec_request *request, struct tape *tape,
					  const struct session_result *result)
{
	struct json_out out = json_to(writer->out);

	json_begin(&out, '{');
	json_put_bool(&out, "success", result->exit_code == 0);
	json_put_int(&out, "exitCode", result->exit_code);
	TRY(copy_sifted(writer, request, "stdout", TAPE_STDOUT, tape, result));
	TRY(copy_sifted(writer, request, "stderr", TAPE_STDERR, tape, result));
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

static fallible toolbox_shell_answer(struct http *x, const struct exec_request *request,
				     struct tape *tape, const struct session_result *result)
{
	uint64_t bytes = tape_bytes(tape, TAPE_STDOUT) + tape_bytes(tape, TAPE_STDERR);
	auto_buf out = BUF_INIT(STREAM_JSON_OUT_MAX + 8 * request->shown.len);
	struct stream_json writer = {
		.out = &out,
		.base64 = exec_request_is_base64(request->encoding, tape_is_utf8(tape)),
		.no_nul = true,
	};

	TRY(stream_json_begin(&writer, x, bytes, request->shown.len));
	TRY(toolbox_shell_copy_answer(&writer, request, tape, result));
	return stream_json_end(&writer, x);
}

// Keeps the last bytes of a stream.
static void toolbox_shell_keep_last(void *arg, const char *bytes, size_t len)
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

	filter.give = toolbox_shell_keep_last;
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

static fallible toolbox_shell_write_context(struct http *x, const struct exec_request *request,
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

static fallible toolbox_shell_explain(const struct exec_request *request,
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

static fallible toolbox_shell_refuse(struct http *x, const struct exec_request *request,
				     struct tape *tape, const struct session_result *result)
{
	auto_buf context = BUF_INIT(CONTEXT_MAX);
	struct error_response_detail detail = {.operation = "command.execute"};

	TRY(toolbox_shell_write_context(x, request, tape, result, &context));
	if (buf_ok(&context))
		detail.context = buf_view(&context);
	error_response_answer(x, toolbox_shell_explain(request, result), &detail);
	return OK;
}

static fallible toolbox_shell_run_exec_request(struct http *x, struct box_ref *ref,
					       struct exec_request *request,
					       struct session_run **out,
					       struct session_result *result)
{
	auto_session session = NULL;
	struct session_job order;
	struct err *err;

	TRY(box_ref_begin(gateway_of(x)->manager, gateway_who(x), x->params[0], ref));
	TRY(shells_take(ref, request->in_session, &session));
	order = shells_job(ref, &request->spec);
	TRY(session_run(session, &order, out));
	TRY(http_away(x, HTTP_PROBE_HEAD));
	err = session_run_wait(*out, CLOCK_NEVER, result);
	http_back(x);
	return box_ref_explain(err);
}

fallible toolbox_shell_run(struct http *x, struct exec_request *request)
{
	auto_box_ref ref = {0};
	auto_session_run at = NULL;
	struct session_result result;
	struct err *err = toolbox_shell_run_exec_request(x, &ref, request, &at, &result);

	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	if (err) {
		exec_request_fail(x, request, "command.execute", err);
		return OK;
	}
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	shells_report(&ref, &result);
	if (result.end == SESSION_DONE)
		return toolbox_shell_answer(x, request, session_run_tape(at), &result);
	return toolbox_shell_refuse(x, request, session_run_tape(at), &result);
}
