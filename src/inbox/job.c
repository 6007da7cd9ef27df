#include "inbox/job.h"

#include "model/talk.h"
#include "wire/text.h"

#define STDIN_MAX (1 << 20)
#define TIME_MAX (1ull << 42)
#define CWD_MAX 4095
#define USER_MAX 64

void job_done(struct job *job)
{
	pairs_done(&job->env);
	buf_done(&job->stdin_bytes);
}

static bool job_is_blank(struct str text)
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

// The next field, by name, for whoever has to say which one was wrong.
static const struct json *field(const struct json *json, const char *name, struct job *job)
{
	job->field = name;
	return json_get(json, name);
}

static fallible job_read_argv(struct http *x, const struct json *list, struct job *job)
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
	if (!count || job_is_blank(str_of(argv[0])))
		return bad_command();
	job->use.argv = argv;
	job->shown = str_of(arena_dup(x->arena, shown.at ? shown.at : "", shown.len));
	return OK;
}

static fallible read_command(struct http *x, const struct json *json, struct job *job)
{
	const struct json *argv = field(json, "argv", job);
	const struct json *command = field(json, "command", job);
	struct str text = {0};

	if (argv && command)
		return err_new(INVALID, "bad_field", "'command' and 'argv' exclude each other");
	if (argv) {
		job->field = "argv";
		return job_read_argv(x, argv, job);
	}
	TRY(json_str(command, "command", &text));
	if (!text.at)
		return err_hint(err_new(INVALID, "bad_field", "'command' is missing"),
				"send 'command' for a shell, or 'argv' for a program");
	job->use.command = arena_dup(x->arena, text.at, text.len);
	job->shown = str_of(job->use.command);
	return OK;
}

fallible job_session(struct http *x, const struct json *json, struct str *out)
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

// What only a command of its own can have.
static bool is_apart(const struct json *json)
{
	static const char *const fields[] = {"argv", "stdin", "user", "cpuTimeMs", "encoding"};

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (json_get(json, fields[i]))
			return true;
	return false;
}

static fallible read_session(struct http *x, const struct json *json, struct job *job)
{
	job->field = "sessionId";
	TRY(job_session(x, json, &job->session));
	if (job->session.at && job_is_blank(job->session))
		return err_new(INVALID, "blank_session",
			       "sessionId must not be empty or whitespace");
	if (job->session.at && !str_is(job->session, SESSION_NONE))
		job->seat = job->session;
	else if (!job->session.at && !is_apart(json))
		job->seat = STR(SESSION_DEFAULT);
	TRY(json_bool(field(json, "background", job), "background", &job->background));
	return OK;
}

static fallible job_read_place(struct http *x, const struct json *json, struct job *job)
{
	struct str cwd = {0}, user = {0};

	TRY(json_str(field(json, "cwd", job), "cwd", &cwd));
	if (cwd.len > CWD_MAX)
		return err_new(INVALID, "bad_field", "'cwd' may have %d bytes", CWD_MAX);
	if (cwd.len)
		job->use.cwd = arena_dup(x->arena, cwd.at, cwd.len);
	TRY(json_str(field(json, "user", job), "user", &user));
	if (user.len > USER_MAX)
		return err_new(INVALID, "bad_field", "'user' may have %d bytes", USER_MAX);
	if (user.len)
		job->use.user = arena_dup(x->arena, user.at, user.len);
	return OK;
}

static fallible read_stdin(const struct json *json, struct job *job)
{
	struct str text = {0}, how = STR("utf8");

	TRY(json_str(field(json, "stdinEncoding", job), "stdinEncoding", &how));
	TRY(json_str(field(json, "stdin", job), "stdin", &text));
	if (str_is(how, "utf8")) {
		job->use.stdin_bytes = text;
		return OK;
	}
	job->field = "stdinEncoding";
	if (!str_is(how, "base64"))
		return err_new(INVALID, "bad_field", "'stdinEncoding' must be utf8 or base64");
	job->field = "stdin";
	job->stdin_bytes = BUF_INIT(STDIN_MAX);
	if (text.at && !text_unbase64(&job->stdin_bytes, text))
		return err_new(INVALID, "bad_field", "'stdin' is not base64");
	if (text.at)
		job->use.stdin_bytes = (struct str){job->stdin_bytes.at ? job->stdin_bytes.at : "",
						    job->stdin_bytes.len};
	return OK;
}

static fallible job_read_rest(const struct json *json, struct job *job)
{
	struct str encoding = {0};

	TRY(json_u64(field(json, "timeoutMs", job), "timeoutMs", 1, TIME_MAX, &job->use.wall_ms));
	TRY(json_u64(field(json, "cpuTimeMs", job), "cpuTimeMs", 1, TIME_MAX, &job->use.cpu_ms));
	TRY(pairs_read_env(field(json, "env", job), &job->env));
	job->use.env = &job->env;
	TRY(json_str(field(json, "encoding", job), "encoding", &encoding));
	if (str_is(encoding, "auto"))
		job->encoding = JOB_AUTO;
	else if (str_is(encoding, "base64"))
		job->encoding = JOB_BASE64;
	else if (encoding.at && !str_is(encoding, "utf8") && !str_is(encoding, "utf-8"))
		return err_new(INVALID, "bad_field", "'encoding' must be utf8, base64 or auto");
	else if (encoding.at || job->session.at || job->seat.at)
		job->encoding = JOB_UTF8; // as whoever names a session expects it
	return OK;
}

fallible job_not_blank(const struct job *job)
{
	return job_is_blank(job->shown) ? bad_command() : OK;
}

fallible job_read(struct http *x, const struct json *json, struct job *job)
{
	job->field = "body";
	if (!json)
		return err_new(INVALID, "bad_field", "the body is empty");
	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(read_command(x, json, job));
	TRY(read_session(x, json, job));
	TRY(job_read_place(x, json, job));
	TRY(read_stdin(json, job));
	TRY(job_read_rest(json, job));
	job->field = NULL;
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

static void job_write_context(struct buf *text, const struct job *job, const struct err *err)
{
	struct json_out out = json_to(text);
	struct str shown = job->shown;

	if (shown.len > 4096)
		shown.len = 4096;
	json_begin(&out, '{');
	json_put_str(&out, "command", shown);
	json_put_text(&out, "stderr", err_message(err));
	if (exit_code_of(err))
		json_put_int(&out, "exitCode", exit_code_of(err));
	json_end(&out, '}');
}

void job_fail(struct http *x, const struct job *job, const char *operation, struct err *err)
{
	auto_buf context = BUF_INIT(32 * 1024);
	struct fail_detail detail = {
		.operation = operation,
		.exit_code = exit_code_of(err),
		.field = job->field,
	};

	job_write_context(&context, job, err);
	detail.context = buf_view(&context);
	fail_answer(x, err, &detail);
}
