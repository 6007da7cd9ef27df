// Parses an execute body field by field. exec_request.field always names the field being read, so
// that an error can say which one was wrong. Limits on sizes are checked here; whether the user,
// directory or program exists is found out in the box.
#include "toolbox/exec_request.h"

#include "codec/text.h"
#include "protocol/talk.h"

#define STDIN_MAX (1 << 20)
#define TIME_MAX (1ull << 42)
#define CWD_MAX 4095
#define USER_MAX 64

void exec_request_done(struct exec_request *request)
{
	env_map_done(&request->env);
	buf_done(&request->stdin_bytes);
}

static bool exec_request_is_blank(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!memchr(" \t\r\n\v\f", text.at[i], 6))
			return false;
	return true;
}

static fallible bad_command(void)
{
	return err_hint(err_new(INVALID, "bad_command", "the command is empty"),
			"send 'command' for a shell, or 'argv' for a program and its arguments");
}

// Looks up a field and notes its name for error messages.
static const struct json *exec_request_field(const struct json *json, const char *name,
					     struct exec_request *request)
{
	request->field = name;
	return json_get(json, name);
}

static fallible exec_request_read_argv(struct http *x, const struct json *list,
				       struct exec_request *request)
{
	size_t count = json_count(list);
	auto_buf shown = BUF_INIT(1 << 20);
	const char **argv;

	TRY(json_want(list, "argv", JSON_ARRAY));
	if (count > TALK_ARGS_MAX)
		return err_new(INVALID, "bad_field", "'argv' may have %d entries", TALK_ARGS_MAX);
	argv = arena_take(x->arena, (count + 1) * sizeof(*argv));
	for (size_t i = 0; i < count; i++) {
		struct str text = {0};

		TRY(json_str(json_at(list, i), "argv", &text));
		if (!text.at)
			return err_new(INVALID, "bad_field", "'argv' must hold strings only");
		argv[i] = arena_dup(x->arena, text.at, text.len);
		buf_fmt(&shown, "%s%s", i ? " " : "", argv[i]);
	}
	if (!count || exec_request_is_blank(str_of(argv[0])))
		return bad_command();
	request->spec.argv = argv;
	request->shown = str_of(arena_dup(x->arena, shown.at ? shown.at : "", shown.len));
	return OK;
}

static fallible read_command(struct http *x, const struct json *json, struct exec_request *request)
{
	const struct json *argv = exec_request_field(json, "argv", request);
	const struct json *command = exec_request_field(json, "command", request);
	struct str text = {0};

	if (argv && command)
		return err_new(INVALID, "bad_field", "'command' and 'argv' exclude each other");
	if (argv) {
		request->field = "argv";
		return exec_request_read_argv(x, argv, request);
	}
	TRY(json_str(command, "command", &text));
	if (!text.at)
		return err_hint(err_new(INVALID, "bad_field", "'command' is missing"),
				"send 'command' for a shell, or 'argv' for a program");
	request->spec.command = arena_dup(x->arena, text.at, text.len);
	request->shown = str_of(request->spec.command);
	return OK;
}

fallible exec_request_session(struct http *x, const struct json *json, struct str *out)
{
	struct str named = {0};

	TRY(json_str(json ? json_get(json, "sessionId") : NULL, "sessionId", &named));
	if (!named.at && http_field(x, "X-Session-Id").len)
		named = http_field(x, "X-Session-Id");
	if (!named.at && http_query(x, "session").len)
		named = http_query(x, "session");
	if (!named.at && http_query(x, "sessionId").len)
		named = http_query(x, "sessionId");
	*out = named;
	return OK;
}

// Whether the body has a field that only a separate command, not a session, can have.
static bool is_apart(const struct json *json)
{
	static const char *const fields[] = {"argv", "stdin", "user", "cpuTimeMs", "encoding"};

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (json_get(json, fields[i]))
			return true;
	return false;
}

static fallible read_session(struct http *x, const struct json *json, struct exec_request *request)
{
	request->field = "sessionId";
	TRY(exec_request_session(x, json, &request->session));
	if (request->session.at && exec_request_is_blank(request->session))
		return err_new(INVALID, "blank_session",
			       "sessionId must not be empty or whitespace");
	if (request->session.at && !str_is(request->session, SESSION_NONE))
		request->in_session = request->session;
	else if (!request->session.at && !is_apart(json))
		request->in_session = STR(SESSION_DEFAULT);
	TRY(json_bool(exec_request_field(json, "background", request), "background",
		      &request->background));
	return OK;
}

static fallible exec_request_read_path_arg(struct http *x, const struct json *json,
					   struct exec_request *request)
{
	struct str cwd = {0}, user = {0};

	TRY(json_str(exec_request_field(json, "cwd", request), "cwd", &cwd));
	if (cwd.len > CWD_MAX)
		return err_new(INVALID, "bad_field", "'cwd' may have %d bytes", CWD_MAX);
	if (cwd.len)
		request->spec.cwd = arena_dup(x->arena, cwd.at, cwd.len);
	TRY(json_str(exec_request_field(json, "user", request), "user", &user));
	if (user.len > USER_MAX)
		return err_new(INVALID, "bad_field", "'user' may have %d bytes", USER_MAX);
	if (user.len)
		request->spec.user = arena_dup(x->arena, user.at, user.len);
	return OK;
}

static fallible read_stdin(const struct json *json, struct exec_request *request)
{
	struct str text = {0}, how = STR("utf8");

	TRY(json_str(exec_request_field(json, "stdinEncoding", request), "stdinEncoding", &how));
	TRY(json_str(exec_request_field(json, "stdin", request), "stdin", &text));
	if (str_is(how, "utf8")) {
		request->spec.stdin_bytes = text;
		return OK;
	}
	request->field = "stdinEncoding";
	if (!str_is(how, "base64"))
		return err_new(INVALID, "bad_field", "'stdinEncoding' must be utf8 or base64");
	request->field = "stdin";
	request->stdin_bytes = BUF_INIT(STDIN_MAX);
	if (text.at && !text_unbase64(&request->stdin_bytes, text))
		return err_new(INVALID, "bad_field", "'stdin' is not base64");
	if (text.at)
		request->spec.stdin_bytes = (struct str){
			request->stdin_bytes.at ? request->stdin_bytes.at : "",
			request->stdin_bytes.len};
	return OK;
}

static fallible exec_request_read_rest(const struct json *json, struct exec_request *request)
{
	struct str encoding = {0};

	TRY(json_u64(exec_request_field(json, "timeoutMs", request), "timeoutMs", 1, TIME_MAX,
		     &request->spec.wall_ms));
	TRY(json_u64(exec_request_field(json, "cpuTimeMs", request), "cpuTimeMs", 1, TIME_MAX,
		     &request->spec.cpu_ms));
	TRY(env_map_read_env(exec_request_field(json, "env", request), &request->env));
	request->spec.env = &request->env;
	TRY(json_str(exec_request_field(json, "encoding", request), "encoding", &encoding));
	if (str_is(encoding, "auto"))
		request->encoding = EXEC_REQUEST_AUTO;
	else if (str_is(encoding, "base64"))
		request->encoding = EXEC_REQUEST_BASE64;
	else if (encoding.at && !str_is(encoding, "utf8") && !str_is(encoding, "utf-8"))
		return err_new(INVALID, "bad_field", "'encoding' must be utf8, base64 or auto");
	else if (encoding.at || request->session.at || request->in_session.at)
		request->encoding = EXEC_REQUEST_UTF8; // clients that name a session expect text
	return OK;
}

fallible exec_request_not_blank(const struct exec_request *request)
{
	return exec_request_is_blank(request->shown) ? bad_command() : OK;
}

fallible exec_request_read(struct http *x, const struct json *json, struct exec_request *request)
{
	request->field = "body";
	if (!json)
		return err_new(INVALID, "bad_field", "the body is empty");
	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(read_command(x, json, request));
	TRY(read_session(x, json, request));
	TRY(exec_request_read_path_arg(x, json, request));
	TRY(read_stdin(json, request));
	TRY(exec_request_read_rest(json, request));
	request->field = NULL;
	return OK;
}

static int exit_code_of(const struct err *err)
{
	if (!strcmp(err_reason(err), "command_not_found"))
		return 127;
	if (!strcmp(err_reason(err), "not_executable"))
		return 126;
	return 0;
}

static void exec_request_write_context(struct buf *text, const struct exec_request *request,
				       const struct err *err)
{
	struct json_out out = json_to(text);
	struct str shown = request->shown;

	if (shown.len > 4096)
		shown.len = 4096;
	json_begin(&out, '{');
	json_put_str(&out, "command", shown);
	json_put_text(&out, "stderr", err_message(err));
	if (exit_code_of(err))
		json_put_int(&out, "exitCode", exit_code_of(err));
	json_end(&out, '}');
}

fallible exec_request_fail(struct http *x, const struct exec_request *request,
			   const char *operation, struct err *err)
{
	auto_buf context = BUF_INIT(32 * 1024);
	struct error_response_detail detail = {
		.operation = operation,
		.exit_code = exit_code_of(err),
		.field = request->field,
	};

	exec_request_write_context(&context, request, err);
	detail.context = buf_view(&context);
	return error_response_answer(x, err, &detail);
}
