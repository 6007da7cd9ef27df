// Commands and code that run to their end: one answer with the exit code and all output, stdout and
// stderr in order of arrival. A large output is copied from the tape as the client reads. The
// command is no child's stdin: commands read end-of-file.
#include <stdio.h>

#include "daytona/cells.h"
#include "daytona/handlers.h"
#include "daytona/output.h"
#include "gateway/cancel_on_delete.h"
#include "gateway/gateway.h"
#include "manager/contexts.h"

#define TYPESCRIPT_MAX (16u << 20) // bytes of output of one run
#define SECONDS_MAX 1e8
#define ARGUMENT_MAX (96 * 1024) // the kernel takes 128 KiB in one argument
#define ARGS_MAX 256
#define START_FAILED (-1) // Daytona's exit code of a command that could not start

static fallible process_answer(struct http *x, struct manager_exec *run,
			       const struct exec_result *result)
{
	auto_output output = {.x = x, .out = BUF_INIT(OUTPUT_OUT_MAX)};
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(
		manager_exec_entry(run), x);
	struct tape *tape = manager_exec_tape(run);
	bool cut = result->stdout_truncated || result->stderr_truncated;

	buf_fmt(&output.out, "{\"exitCode\":%d,\"result\":\"", result->exit_code);
	TRY(output_add(&output, tape, tape_kept(tape), OUTPUT_BOTH));
	if (cut)
		buf_fmt(&output.out, "\\n[cove: %llu of %llu bytes of output were kept]\\n",
			(unsigned long long)tape_kept(tape),
			(unsigned long long)tape_reached(tape));
	buf_text(&output.out, cut ? "\",\"truncated\":true}" : "\"}");
	return output_end(&output);
}

static fallible process_timed_out(const struct manager_exec *run)
{
	return err_hint(err_new(CONFLICT, "command_timeout",
				"the command was ended by its time limit of %llu ms",
				(unsigned long long)manager_exec_wall_ms(run)),
			"for longer commands raise the timeout, or run them in a session");
}

static fallible answer_not_started(struct http *x, struct err *failure)
{
	auto_err err = failure;
	auto_buf body = BUF_INIT(16 * 1024);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_int(&out, "exitCode", START_FAILED);
	json_put_text(&out, "result", err_message(err));
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

static fallible process_run(struct http *x, const struct manager_exec_spec *spec)
{
	struct exec_result result;
	auto_manager_exec run = NULL;
	struct err *err;

	http_be_patient(x);
	err = manager_exec_start(gateway_of(x)->manager, gateway_who(x), x->params[0], spec, &run);
	if (err && !strcmp(err_reason(err), "no_cwd"))
		return answer_not_started(x, err);
	TRY(err);
	TRY(http_while_away(x, HTTP_PROBE_HEAD, manager_exec_wait(run, &result)));
	if (result.ending == ENDING_WALL_LIMIT)
		return process_timed_out(run);
	return process_answer(x, run, &result);
}

static bool is_blank(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!memchr(" \t\r\n\v\f", text.at[i], 6))
			return false;
	return true;
}

// cwd, envs and timeout. `env` lives as long as the spec.
static fallible read_common(struct http *x, const struct json *body, struct env_map *env,
			    struct manager_exec_spec *spec)
{
	struct str cwd = {0};
	double seconds = 0;

	TRY(json_str(json_get(body, "cwd"), "cwd", &cwd));
	TRY(json_double(json_get(body, "timeout"), "timeout", 0, SECONDS_MAX, &seconds));
	TRY(env_map_read_env(json_get(body, "envs"), env));
	if (cwd.len)
		spec->cwd = arena_dup(x->arena, cwd.at, cwd.len);
	spec->wall_ms = (uint64_t)(seconds * 1000);
	spec->env = env;
	return OK;
}

// The shell's stderr goes where its stdout goes, in one pipe: the order of both is kept. A command
// that is too long for an argument comes by stdin, and is read whole before the first line runs.
static void set_command(struct http *x, struct str command, struct manager_exec_spec *spec)
{
	if (command.len <= ARGUMENT_MAX) {
		spec->command = arena_fmt(x->arena, "exec 2>&1; " STR_FMT, STR_ARG(command));
		return;
	}
	spec->command = "exec 2>&1; _cove=$(cat; echo .) && exec </dev/null; eval \"unset _cove; "
			"${_cove%.}\"";
	spec->stdin_bytes = command;
}

fallible daytona_process_execute(struct http *x)
{
	struct manager_exec_spec spec = {0};
	struct str command = {0};
	auto_json body = NULL;
	auto_pairs env = {0};

	TRY(gateway_object(x, &body));
	TRY(json_str(json_get(body, "command"), "command", &command));
	if (is_blank(command))
		return err_new(INVALID, "bad_command", "'command' is empty");
	TRY(read_common(x, body, &env, &spec));
	set_command(x, command, &spec);
	return process_run(x, &spec);
}

// The program that reads the code from its stdin, with the arguments of the request.
static fallible read_program(struct http *x, const struct json *body, const char ***out)
{
	static const struct {
		const char *language, *program;
	} programs[] = {{"python", "python3"}, {"javascript", "node"}};
	const struct json *list = json_get(body, "argv");
	struct str language = STR("python");
	const char **argv, *program = NULL;
	size_t count = 0, at = 0;

	TRY(json_str(json_get(body, "language"), "language", &language));
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		if (str_is(language, programs[i].language))
			program = programs[i].program;
	if (!program)
		return err_new(INVALID, "bad_field",
			       "'language' must be python, javascript or typescript");
	if (list) {
		TRY(json_want(list, "argv", JSON_ARRAY));
		count = json_count(list);
	}
	if (count > ARGS_MAX)
		return err_new(INVALID, "bad_field", "'argv' may have %d entries", ARGS_MAX);
	argv = arena_take(x->arena, (count + 8) * sizeof(*argv));
	argv[at++] = "sh";
	argv[at++] = "-c";
	argv[at++] = "exec \"$@\" 2>&1";
	argv[at++] = "sh";
	argv[at++] = program;
	argv[at++] = "-";
	for (size_t i = 0; i < count; i++) {
		struct str word = {0};

		TRY(json_str(json_at(list, i), "argv", &word));
		if (!word.at)
			return err_new(INVALID, "bad_field", "'argv' must hold strings only");
		argv[at++] = arena_dup(x->arena, word.at, word.len);
	}
	*out = argv;
	return OK;
}

// ------------------------------------------------------------------------------------- TypeScript

// A cell before the code appends the arguments, and lets process.exit() end the process, which it
// does not in a context that goes on.
static fallible typescript_put_argv(const struct json *body, struct buf *out)
{
	const struct json *list = json_get(body, "argv");
	struct json_out json = json_to(out);

	buf_text(out, "process.exit = (code) => process.reallyExit(code ?? 0); "
		      "process.argv.push(...");
	json_begin(&json, '[');
	if (list)
		TRY(json_want(list, "argv", JSON_ARRAY));
	for (size_t i = 0; list && i < json_count(list); i++) {
		TRY(json_want(json_at(list, i), "argv", JSON_STRING));
		json_add_value(&json, json_at(list, i));
	}
	json_end(&json, ']');
	buf_text(out, "); undefined");
	return buf_ok(out) ? OK : err_new(INVALID, "bad_field", "'argv' is too long");
}

static fallible typescript_take(void *arg, enum tape_stream stream, struct str text)
{
	struct buf *out = arg;

	(void)stream;
	if (out->len + text.len < TYPESCRIPT_MAX)
		buf_str(out, text);
	return OK;
}

static fallible typescript_answer(struct http *x, const struct buf *result, int exit_code)
{
	auto_buf body = BUF_INIT(8u * TYPESCRIPT_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_int(&out, "exitCode", exit_code);
	json_put_str(&out, "result", result->at ? buf_view(result) : STR(""));
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

static fallible typescript_follow(struct http *x, struct context_run *run)
{
	auto_buf text = BUF_INIT(2u * TYPESCRIPT_MAX), room = BUF_INIT(TYPESCRIPT_MAX);
	struct cells_sink sink = {.arg = &text, .text = typescript_take};
	struct context_result result = {0};
	struct cells_error error = {0};

	TRY(http_while_away(x, HTTP_PROBE_HEAD,
			    cells_follow_run(run, &sink, &room, &error, &result)));
	if (result.timed_out)
		return err_new(CONFLICT, "command_timeout",
			       "the code was ended by its time limit of %llu ms",
			       (unsigned long long)result.timeout_ms);
	if (result.end == CONTEXT_DIED)
		return typescript_answer(x, &text, result.exec.exit_code);
	if (result.status) {
		struct str shown = error.traceback.len ? error.traceback : error.value;

		buf_str(&text, shown);
		buf_text(&text, "\n");
	}
	return typescript_answer(x, &text, result.status);
}

// Runs in a context that lasts as long as the code.
static fallible typescript_run(struct http *x, const struct json *body,
			       const struct manager_exec_spec *spec)
{
	struct contexts_spec wanted = {
		.language = CONTEXT_TYPESCRIPT, .env = spec->env, .cwd = spec->cwd};
	auto_buf argv = BUF_INIT(ARGUMENT_MAX);
	auto_context_run first = NULL;
	auto_context_run run = NULL;
	auto_context context = NULL;
	auto_box_ref ref = {0};
	struct err *err;

	TRY(typescript_put_argv(body, &argv));
	http_be_patient(x);
	TRY(gateway_box(x, &ref));
	TRY(http_while_away(x, HTTP_PROBE_HEAD, contexts_create(&ref, &wanted, &context)));
	err = contexts_run(&ref, context, buf_view(&argv), 0, &first);
	if (!err)
		err = contexts_run(&ref, context, spec->stdin_bytes, spec->wall_ms, &run);
	if (!err)
		err = typescript_follow(x, run);
	context_delete(context);
	return err;
}

fallible daytona_process_code_run(struct http *x)
{
	struct manager_exec_spec spec = {0};
	struct str language = {0};
	const char **argv = NULL;
	auto_json body = NULL;
	auto_pairs env = {0};

	TRY(gateway_object(x, &body));
	TRY(json_str(json_get(body, "language"), "language", &language));
	TRY(json_str(json_get(body, "code"), "code", &spec.stdin_bytes));
	if (is_blank(spec.stdin_bytes))
		return err_new(INVALID, "bad_field", "'code' is empty");
	TRY(read_common(x, body, &env, &spec));
	if (str_is(language, "typescript"))
		return typescript_run(x, body, &spec);
	TRY(read_program(x, body, &argv));
	spec.argv = argv;
	return process_run(x, &spec);
}

static fallible answer_dir(struct http *x, struct str dir)
{
	auto_buf body = BUF_INIT(32 * 1024);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_str(&out, "dir", dir);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible daytona_process_work_dir(struct http *x)
{
	auto_entry entry = NULL;

	TRY(gateway_entry(x, ACCESS_USE, &entry));
	return answer_dir(x, str_of(record_workdir(&entry->record)));
}

// The home directory of the user that commands run as: the sandbox knows it.
fallible daytona_process_home_dir(struct http *x)
{
	struct manager_exec_spec spec = {.command = "cd && pwd"};
	auto_buf dir = BUF_INIT(16 * 1024);
	struct exec_result result;
	auto_manager_exec run = NULL;
	enum tape_stream stream;
	char room[1024];
	uint64_t offset = 0;
	size_t len;

	TRY(manager_exec_start(gateway_of(x)->manager, gateway_who(x), x->params[0], &spec, &run));
	TRY(http_while_away(x, HTTP_PROBE_HEAD, manager_exec_wait(run, &result)));
	do {
		TRY(tape_read(manager_exec_tape(run), &offset, &stream, room, sizeof(room), &len,
			      CLOCK_NEVER));
		if (stream == TAPE_STDOUT)
			buf_add(&dir, room, len);
	} while (len);
	if (result.exit_code || dir.len < 2 || !buf_ok(&dir))
		return err_new(NOT_FOUND, "no_file", "the user has no home directory");
	return answer_dir(x, (struct str){dir.at, dir.len - 1});
}
