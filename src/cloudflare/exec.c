// Translates the events of api/execute/stream into the bridge's format: named events with base64
// data. An error after the answer has begun is sent as an event too.
#include "cloudflare/forward.h"
#include "cloudflare/handlers.h"
#include "codec/text.h"

#define LINE_MAX_BYTES (4 << 20)
#define BODY_MAX (4 << 20)
#define TIME_MAX (1ull << 42)

struct exec {
	struct bridge_forward forward;
	struct buf line; // an incomplete line of the inner stream
	struct buf event;
	bool told; // the last event was sent
};

static void exec_done(struct exec *exec)
{
	bridge_forward_done(&exec->forward);
	buf_done(&exec->line);
	buf_done(&exec->event);
}

static fallible bridge_exec_send(struct exec *exec)
{
	struct err *err;

	buf_text(&exec->event, "\n\n");
	if (!buf_ok(&exec->event))
		return err_new(INTERNAL, "internal", "an event did not fit");
	err = bridge_forward_write(&exec->forward, exec->event.at, exec->event.len);
	buf_clear(&exec->event);
	return err;
}

static fallible exec_send_error(struct exec *exec, const char *code, struct str words)
{
	struct json_out out = json_to(&exec->event);

	exec->told = true;
	buf_text(&exec->event, "event: error\ndata: ");
	json_begin(&out, '{');
	json_put_str(&out, "error", words);
	json_put_text(&out, "code", code);
	json_end(&out, '}');
	return bridge_exec_send(exec);
}

static fallible send_output(struct exec *exec, struct str type, const struct json *event)
{
	struct str data = {0}, encoding = {0};

	TRY(json_str(json_get(event, "data"), "data", &data));
	TRY(json_str(json_get(event, "encoding"), "encoding", &encoding));
	if (!data.len)
		return OK;
	buf_fmt(&exec->event, "event: " STR_FMT "\ndata: ", STR_ARG(type));
	if (str_is(encoding, "base64"))
		buf_str(&exec->event, data);
	else
		text_base64(&exec->event, data.at, data.len);
	return bridge_exec_send(exec);
}

static fallible exec_on_event(struct exec *exec, struct str text)
{
	struct str type = {0}, words = STR("the command failed");
	auto_json event = NULL;
	double code = 0;

	TRY(json_read(text, &event));
	TRY(json_str(json_get(event, "type"), "type", &type));
	if (str_is(type, "stdout") || str_is(type, "stderr"))
		return send_output(exec, type, event);
	if (str_is(type, "error")) {
		TRY(json_str(json_get(event, "error"), "error", &words));
		return exec_send_error(exec, "exec_error", words);
	}
	if (!str_is(type, "complete"))
		return OK;
	TRY(json_double(json_get(event, "exitCode"), "exitCode", -255, 255, &code));
	exec->told = true;
	buf_fmt(&exec->event, "event: exit\ndata: {\"exit_code\":%d}", (int)code);
	return bridge_exec_send(exec);
}

static fallible exec_on_bytes(void *arg, struct str bytes)
{
	struct exec *exec = arg;

	while (bytes.len) {
		const char *end = memchr(bytes.at, '\n', bytes.len);
		size_t len = end ? (size_t)(end - bytes.at) : bytes.len;
		struct str line;

		buf_add(&exec->line, bytes.at, len);
		bytes = str_skip(bytes, len + (end != NULL));
		if (!buf_ok(&exec->line))
			return err_new(INTERNAL, "internal", "an event did not fit");
		if (!end)
			break;
		line = buf_view(&exec->line);
		if (str_starts(line, "data: "))
			TRY(exec_on_event(exec, str_skip(line, 6)));
		buf_clear(&exec->line);
	}
	return OK;
}

static fallible exec_invalid(const char *words)
{
	return err_new(INVALID, "invalid_request", "%s", words);
}

// Quotes argv into one line for bash, as Cloudflare's bridge does: builtins work, and a missing
// program is exit code 127.
static fallible write_command(const struct json *argv, struct buf *out)
{
	if (!argv || json_type(argv) != JSON_ARRAY || !json_count(argv))
		return exec_invalid("argv must be a non-empty array");
	for (size_t i = 0; i < json_count(argv); i++) {
		const struct json *word = json_at(argv, i);
		struct str text = {0};

		if (!word || json_type(word) != JSON_STRING)
			return exec_invalid("argv must hold strings only");
		TRY(json_str(word, "argv", &text));
		if (i)
			buf_char(out, ' ');
		path_quote(text, out);
	}
	return OK;
}

static fallible write_ask(struct http *x, const struct json *body, struct buf *out)
{
	auto_buf command = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(out);
	struct str cwd = {0}, session = {0};
	uint64_t time = 0;

	if (!body || json_type(body) != JSON_OBJECT)
		return exec_invalid("Invalid JSON body");
	TRY(write_command(json_get(body, "argv"), &command));
	TRY(json_u64(json_get(body, "timeout_ms"), "timeout_ms", 1, TIME_MAX, &time));
	TRY(json_str(json_get(body, "cwd"), "cwd", &cwd));
	TRY(named_box_session(x, &session));
	if (cwd.at)
		TRY(named_box_path(x, "cwd", cwd, &cwd));
	json_begin(&json, '{');
	json_put_str(&json, "command", buf_view(&command));
	json_put_str(&json, "sessionId", session.len ? session : STR("__DISABLE_SESSION__"));
	json_put_text(&json, "encoding", "base64");
	if (time)
		json_put_int(&json, "timeoutMs", (int64_t)time);
	if (cwd.len)
		json_put_str(&json, "cwd", cwd);
	json_end(&json, '}');
	return buf_ok(out) && buf_ok(&command)
		       ? OK
		       : err_new(TOO_LARGE, "payload_too_large", "the command is too long");
}

static fallible exec_send_end(struct exec *exec, struct err *err)
{
	auto_free char *words = NULL;
	auto_err fault = NULL;

	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	if (!exec->told) {
		if (!err)
			fault = bridge_forward_fault(&exec->forward, "exec_transport_error",
						     "exec failed");
		words = mem_str(err_message(err ? err : fault));
		err_free(exec_send_error(exec, "exec_transport_error", str_of(words)));
	}
	err_free(err);
	http_back(exec->forward.x);
	return http_end(exec->forward.x);
}

fallible bridge_exec(struct http *x)
{
	static const struct in_process_calls calls = {.bytes = exec_on_bytes};
	on_exit_call(exec_done) struct exec exec = {.forward = {.x = x, .probe = HTTP_PROBE_EVENT}};
	auto_buf ask = BUF_INIT(BODY_MAX);
	char id[ID_BOX_LEN + 1];
	auto_json body = NULL;

	TRY(named_box_check(x));
	TRY(gateway_json(x, &body, NULL));
	TRY(write_ask(x, body, &ask));
	TRY(named_box_enter(x, id));
	exec.line = BUF_INIT(LINE_MAX_BYTES);
	exec.event = BUF_INIT(LINE_MAX_BYTES);
	http_be_patient(x);
	http_set(x, "Cache-Control", STR("no-cache"));
	TRY(http_begin(x, 200, "text/event-stream"));
	return exec_send_end(&exec,
			     bridge_forward_ask(&exec.forward, "POST",
						named_box_target(x, id, "/api/execute/stream"),
						NULL, buf_view(&ask), &calls));
}
