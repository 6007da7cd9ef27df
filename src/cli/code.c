// run-code, python and js. Code runs in a named context, in the default one of its language, or in
// one that is made here and deleted at the end. run-code without a sandbox makes a temporary one.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/repl.h"
#include "cli/status.h"
#include "cli/stdio.h"
#include "cli/temporary_box.h"
#include "lib/fields.h"
#include "os/fd.h"

#define CODE_MAX ((size_t)1 << 20)
#define BODY_MAX ((size_t)4 << 20)
#define PIECE 65536

// ----------------------------------------------------------------------------------- a context

static fallible make_context(const struct snippet *snippet, const struct cove_command *command,
			     char **out)
{
	auto_free char *path = snippet_path(snippet->box, "/contexts");
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);
	auto_json made = NULL;

	json_begin(&json, '{');
	json_put_text(&json, "language", snippet->language);
	if (command->cwd)
		json_put_text(&json, "cwd", command->cwd);
	if (command->timeout_ms)
		json_put_int(&json, "timeout_ms", command->timeout_ms);
	TRY(fields_pairs(&json, "env_vars", command->env));
	json_end(&json, '}');
	TRY(remote_ask(snippet->remote, "POST", path, &body, NULL, &made));
	*out = mem_str(fields_text(made, "contextId"));
	return OK;
}

// With a second client, which no signal cancels.
static void drop_context(const struct snippet *snippet)
{
	auto_free char *rest = mem_fmt("/contexts/%s", snippet->context);
	auto_free char *path = snippet_path(snippet->box, rest);
	auto_remote fresh = {0};
	auto_err err = remote_open_at(&fresh, cove_url(snippet->remote->cove),
				      cove_token(snippet->remote->cove));

	if (!err)
		err = remote_ask(&fresh, "DELETE", path, NULL, NULL, NULL);
	if (err && err_kind(err) != ERR_NOT_FOUND)
		print_note("a context could not be deleted: %s", err_message(err));
}

// ------------------------------------------------------------------------------------ run-code

static fallible read_code(const char *name, struct buf *out)
{
	bool is_stdin = strcmp(name, "-") == 0, fits = true;
	const char *shown = is_stdin ? "standard input" : name;
	auto_fd fd = is_stdin ? -1 : open(name, O_RDONLY | O_CLOEXEC);

	if (!is_stdin && fd < 0)
		return err_new(NOT_FOUND, "no_file", "cannot read '%s': %s", name, strerror(errno));
	TRY(stdio_read_all(is_stdin ? STDIN_FILENO : fd, out, &fits), "read %s", shown);
	if (!fits || out->len > CODE_MAX)
		return err_new(TOO_LARGE, "code_too_large", "'%s' exceeds 1 MiB", shown);
	return OK;
}

// The option, else the file's extension; NULL: the named context has one.
static const char *language_of(const struct call *call, const char *file)
{
	static const struct {
		const char *end, *language;
	} rows[] = {{".py", "python"},	    {".js", "javascript"}, {".mjs", "javascript"},
		    {".cjs", "javascript"}, {".ts", "typescript"}, {".mts", "typescript"}};
	size_t len = strlen(file);

	if (call_has(call, OPT_LANGUAGE))
		return call_value(call, OPT_LANGUAGE);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t end = strlen(rows[i].end);

		if (len > end && strcmp(file + len - end, rows[i].end) == 0)
			return rows[i].language;
	}
	return call_has(call, OPT_CONTEXT) ? NULL : "python";
}

struct job {
	struct str code;
	const char *language;
	const struct cove_command *command;
};

static fallible run_in(struct call *call, struct remote *remote, const char *box,
		       const struct job *job)
{
	struct snippet snippet = {
		.remote = remote,
		.box = box,
		.context = call_value(call, OPT_CONTEXT),
		.language = job->language,
		.timeout_ms = job->command->timeout_ms,
		.raw = call_has(call, OPT_JSON),
	};
	auto_free char *own = NULL;
	bool failed = false;
	struct err *err;

	if (!snippet.context && (job->command->env || job->command->cwd)) {
		TRY(make_context(&snippet, job->command, &own));
		snippet.context = own;
	}
	err = snippet_run(&snippet, job->code, &failed);
	if (own)
		drop_context(&snippet);
	if (!err && failed)
		call->exit = 1;
	return err;
}

static fallible run_fresh(struct call *call, struct remote *remote, struct cove_box *box, void *arg)
{
	return run_in(call, remote, cove_box_id(box), arg);
}

static fallible check_fresh(const struct call *call, bool fresh)
{
	static const enum opt needs[] = {OPT_KEEP, OPT_MEMORY, OPT_TEMPLATE};

	if (fresh && call_has(call, OPT_CONTEXT))
		return err_hint(err_new(INVALID, "no_sandbox_named",
					"a context is one of a sandbox, and none is named"),
				"cove run-code --context ID BOX FILE");
	for (size_t i = 0; !fresh && i < sizeof(needs) / sizeof(*needs); i++)
		if (call_has(call, needs[i]))
			return err_new(INVALID, "sandbox_named",
				       "--keep, --memory and --template are for a fresh sandbox");
	return OK;
}

fallible code_run(struct call *call)
{
	bool fresh = call->word_count == 1;
	const char *file = call->words[call->word_count - 1];
	auto_buf code = BUF_INIT(CODE_MAX + 2 * PIECE);
	auto_body body = {0};
	auto_body cell = {0};
	auto_remote remote = {0};
	struct job job = {.language = language_of(call, file), .command = &cell.command};

	TRY(check_fresh(call, fresh));
	TRY(body_box(call, &body));
	TRY(body_cell(call, &cell));
	TRY(read_code(file, &code));
	job.code = buf_view(&code);
	if (fresh) {
		body.box.ephemeral = !call_has(call, OPT_KEEP);
		return temporary_box_run(call, &body.box, run_fresh, &job);
	}
	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	return status_end(call, run_in(call, &remote, call->words[0], &job));
}

// ---------------------------------------------------------------------------------- prompts

// Input that is not a terminal is one cell, as with the interpreters themselves.
static fallible use(struct call *call, struct snippet *snippet)
{
	auto_buf code = BUF_INIT(CODE_MAX + 2 * PIECE);
	bool failed = false;

	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		return repl_talk(call, snippet);
	TRY(read_code("-", &code));
	TRY(snippet_run(snippet, buf_view(&code), &failed));
	call->exit = failed;
	return OK;
}

static fallible converse(struct call *call, const char *language)
{
	auto_body body = {0};
	auto_remote remote = {0};
	auto_free char *own = NULL;
	struct snippet snippet = {
		.remote = &remote,
		.box = call->words[0],
		.context = call_value(call, OPT_CONTEXT),
		.language = language,
	};
	struct err *err;

	TRY(body_cell(call, &body));
	if (snippet.context && (body.command.env || body.command.cwd))
		return err_new(INVALID, "context_named",
			       "--env and --workdir are for a new context");
	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	snippet.timeout_ms = body.command.timeout_ms;
	if (!snippet.context) {
		TRY(status_end(call, make_context(&snippet, &body.command, &own)));
		snippet.context = own;
	}
	err = status_end(call, use(call, &snippet));
	if (own)
		drop_context(&snippet);
	return err;
}

fallible code_python(struct call *call)
{
	return converse(call, "python");
}

fallible code_js(struct call *call)
{
	return converse(call, call_has(call, OPT_TYPESCRIPT) ? "typescript" : "javascript");
}
