// `execute` waits for its command to end and answers once. A small output is sent in one piece; a
// large one is copied from the tape as the client reads, so that no output is ever held whole in
// memory. When the client disconnects, its connection and its task end; the command runs on.
#include <stdio.h>

#include "base/clock.h"
#include "gateway/cancel_on_delete.h"
#include "toolbox/exec_request.h"
#include "toolbox/handlers.h"
#include "toolbox/process.h"
#include "toolbox/shell.h"
#include "toolbox/stream_json.h"

static void toolbox_exec_put_result(struct json_out *out, const struct exec_result *result)
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

// Text appended to the stderr of a command that timed out.
static struct str toolbox_exec_tail_of(const struct manager_exec *run,
				       const struct exec_result *result, char *room, size_t size)
{
	if (result->ending != ENDING_WALL_LIMIT)
		return STR("");
	snprintf(room, size, "Command timed out after %llums",
		 (unsigned long long)manager_exec_wall_ms(run));
	return str_of(room);
}

static fallible toolbox_exec_copy_answer(struct stream_json *writer,
					 const struct exec_request *request,
					 struct manager_exec *run, const struct exec_result *result)
{
	struct json_out out = json_to(writer->out);
	struct tape *tape = manager_exec_tape(run);
	char tail[64];

	json_begin(&out, '{');
	json_put_bool(&out, "success", result->exit_code == 0);
	json_put_int(&out, "exitCode", result->exit_code);
	buf_text(writer->out, ",\"stdout\":\"");
	TRY(stream_json_stream(writer, tape, TAPE_STDOUT, STR("")));
	buf_text(writer->out, "\",\"stderr\":\"");
	TRY(stream_json_stream(writer, tape, TAPE_STDERR,
			       toolbox_exec_tail_of(run, result, tail, sizeof(tail))));
	buf_text(writer->out, "\"");
	json_put_str(&out, "command", request->shown);
	json_put_int(&out, "duration", result->duration_ms);
	gateway_put_now(&out);
	if (request->session.at)
		json_put_str(&out, "sessionId", request->session);
	toolbox_exec_put_result(&out, result);
	json_put_text(&out, "encoding", writer->base64 ? "base64" : "utf8");
	json_end(&out, '}');
	return OK;
}

static fallible toolbox_exec_answer(struct http *x, const struct exec_request *request,
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
	TRY(toolbox_exec_copy_answer(&writer, request, run, result));
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
	if (err) {
		exec_request_fail(x, request, "command.execute", err);
		return OK;
	}
	TRY(http_away(x, HTTP_PROBE_HEAD));
	err = manager_exec_wait(run, &result);
	http_back(x);
	TRY(err);
	return toolbox_exec_answer(x, request, run, &result);
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

	if (err) {
		exec_request_fail(x, &request, "command.execute", err);
		return OK;
	}
	http_be_patient(x);
	if (request.background)
		return toolbox_process_begin(x, json, &request);
	return request.in_session.at ? toolbox_shell_run(x, &request) : run_apart(x, &request);
}
