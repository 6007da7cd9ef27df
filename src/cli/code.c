// run-code, python and js. Code runs in a named context, in the default one of its language, or in
// one that is made here and deleted at the end. run-code without a sandbox makes a temporary one.
//
// A cell shows its events as they come: text and JSON are printed, pictures shown; other results
// (HTML, chart data) are mentioned. During a cell Ctrl-C is for the interpreter: the waiting call
// is cancelled, the interrupt sent on another connection, and the stream read on to the end of the
// cell. The prompt goes on after an error of a cell, and restarts a dead interpreter.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/edit.h"
#include "cli/interrupt.h"
#include "cli/is_complete.h"
#include "cli/picture.h"
#include "cli/print.h"
#include "cli/status.h"
#include "cli/stdio.h"
#include "cli/temporary_box.h"
#include "cli/tty.h"
#include "codec/sse.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "os/fd.h"

#define CODE_MAX ((size_t)1 << 20)
#define CELL_MAX (1 << 20)
#define EVENT_MAX ((size_t)64 << 20)
#define BODY_MAX ((size_t)48 << 20)
#define PIECE 65536

// ---------------------------------------------------------------------------------------- a cell

struct snippet {
	// Set by the caller.
	struct remote *remote;
	const char *box;
	const char *context;  // NULL: the default one of `language`
	const char *language; // NULL: the context's
	int64_t timeout_ms;   // 0: none
	bool raw;	      // print the raw events, a line each
	bool forgiving;	      // Ctrl-C interrupts the cell and nothing else
	// Private.
	enum picture_way way;
	char *left_out; // a kind of result that cannot be shown
	bool failed;
};

// A path beneath /api of its sandbox; owned by the caller.
static char *snippet_path(const char *box, const char *rest)
{
	auto_free char *beneath = mem_fmt("/api%s", rest);

	return remote_path(BOXES_PATH, box, beneath);
}

static void snippet_put_body(const struct snippet *snippet, struct str code, struct buf *body)
{
	struct json_out out = json_to(body);

	json_begin(&out, '{');
	if (snippet->context)
		json_put_text(&out, "context_id", snippet->context);
	if (snippet->language)
		json_put_text(&out, "language", snippet->language);
	if (snippet->timeout_ms)
		json_put_int(&out, "timeout_ms", snippet->timeout_ms);
	json_put_str(&out, "code", code);
	json_end(&out, '}');
}

static fallible put_line(int fd, struct str text)
{
	TRY(stdio_write(fd, text.at, text.len));
	return text.len && text.at[text.len - 1] == '\n' ? OK : stdio_write(fd, "\n", 1);
}

static fallible put_picture(struct snippet *snippet, const char *kind, struct str text)
{
	auto_buf bytes = BUF_INIT(EVENT_MAX);

	if (strcmp(kind, "svg") == 0)
		return picture_show(PICTURE_SAVED, kind, text);
	if (!text_unbase64(&bytes, text))
		return put_line(STDERR_FILENO, STR("[a picture that is none]"));
	if (snippet->way == PICTURE_UNKNOWN)
		snippet->way = picture_way();
	return picture_show(snippet->way, kind, buf_view(&bytes));
}

static fallible snippet_put_json(const struct json *value)
{
	auto_buf flat = BUF_INIT(EVENT_MAX), text = BUF_INIT(2 * EVENT_MAX);
	struct json_out out = json_to(&flat);

	json_add_value(&out, value);
	print_indent(buf_view(&flat), &text);
	return put_line(STDOUT_FILENO, buf_view(&text));
}

static fallible mention(struct snippet *snippet)
{
	auto_free char *kind = take_ptr(snippet->left_out);
	auto_free char *text = kind ? mem_fmt("[%s, which --json shows]", kind) : NULL;

	return text ? put_line(STDOUT_FILENO, str_of(text)) : OK;
}

static fallible snippet_take_result(struct snippet *snippet, const struct json *event)
{
	static const char *const texts[] = {"text", "markdown", "latex"};
	static const char *const pictures[] = {"png", "jpeg", "svg"};
	static const char *const others[] = {"html", "javascript", "chart", "data"};
	const struct json *value;

	for (size_t i = 0; i < 3; i++) {
		value = json_get(event, texts[i]);
		if (value) {
			free(take_ptr(snippet->left_out));
			return put_line(STDOUT_FILENO, json_chars(value));
		}
	}
	value = json_get(event, "json");
	if (value)
		return snippet_put_json(value);
	for (size_t i = 0; i < 3; i++) {
		value = json_get(event, pictures[i]);
		if (value) {
			free(take_ptr(snippet->left_out));
			return put_picture(snippet, pictures[i], json_chars(value));
		}
	}
	// A chart comes with its picture, data with its text.
	for (size_t i = 0; i < 2 && !snippet->left_out; i++)
		if (json_get(event, others[i]))
			snippet->left_out = mem_str(others[i]);
	return OK;
}

static fallible take_error(struct snippet *snippet, const struct json *event)
{
	const struct json *trace = json_get(event, "traceback");
	size_t lines = trace && json_type(trace) == JSON_ARRAY ? json_count(trace) : 0;
	auto_free char *last = mem_fmt("%s: %s", fields_text(event, "ename"),
				       fields_text(event, "evalue"));

	snippet->failed = true;
	for (size_t i = 0; i < lines; i++)
		TRY(put_line(STDERR_FILENO, json_chars(json_at(trace, i))));
	return lines ? OK : put_line(STDERR_FILENO, str_of(last));
}

static fallible snippet_take(struct snippet *snippet, const struct sse_event *event)
{
	auto_json json = NULL;
	auto_err err = json_read_any(event->data, &json);
	const char *type;

	if (err || json_type(json) != JSON_OBJECT)
		return err_new(BAD_PEER, "bad_event", "the daemon sent an event that is none");
	type = fields_text(json, "type");
	if (snippet->raw) {
		snippet->failed |= strcmp(type, "error") == 0;
		return put_line(STDOUT_FILENO, event->data);
	}
	if (strcmp(type, "result") == 0)
		return snippet_take_result(snippet, json);
	TRY(mention(snippet));
	if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0) {
		struct str text = json_chars(json_get(json, "text"));

		return stdio_write(type[3] == 'o' ? STDOUT_FILENO : STDERR_FILENO, text.at,
				   text.len);
	}
	return strcmp(type, "error") == 0 ? take_error(snippet, json) : OK;
}

static fallible snippet_interrupt(struct snippet *snippet)
{
	auto_free char *rest = mem_fmt("/contexts/%s/interrupt", snippet->context);
	auto_free char *path = snippet_path(snippet->box, rest);

	return remote_ask(snippet->remote, "POST", path, NULL, NULL, NULL);
}

// False: an error other than a Ctrl-C that was passed on.
static bool is_passed_on(struct snippet *snippet, struct err *err)
{
	auto_err failure = OK;

	if (err_kind(err) != ERR_CANCELLED || !snippet->forgiving || !interrupt_take())
		return false;
	err_free(err);
	failure = snippet_interrupt(snippet);
	// The signal may have come between two calls and cancelled this one.
	if (failure && err_kind(failure) == ERR_CANCELLED && !interrupt_signal()) {
		err_free(failure);
		failure = snippet_interrupt(snippet);
	}
	if (failure)
		print_error(failure, false);
	return true;
}

static fallible snippet_read_events(struct snippet *snippet, struct cove_request *request,
				    struct sse_reader *reader)
{
	auto_free char *room = mem_new(PIECE);

	for (;;) {
		struct sse_event event;
		struct str in;
		size_t got = 0;
		struct err *err = remote_did(
			snippet->remote,
			cove_request_read(request, room, PIECE, &got, &snippet->remote->error));

		if (err && is_passed_on(snippet, err))
			continue;
		if (err)
			return err;
		if (!got)
			return mention(snippet);
		in = (struct str){room, got};
		while (sse_read(reader, &in, &event) == SSE_EVENT) {
			err = snippet_take(snippet, &event);
			if (err && !is_passed_on(snippet, err))
				return err;
		}
	}
}

// A stream that has not begun cannot be resumed: a Ctrl-C waits for that.
static fallible snippet_begin(struct snippet *snippet, const struct buf *body,
			      struct cove_request **out)
{
	auto_free char *path = snippet_path(snippet->box, "/execute/code");
	struct remote *remote = snippet->remote;
	struct err *err;

	interrupt_shield(snippet->forgiving);
	err = remote_did(remote, cove_request_open(remote->cove, "POST", path, "application/json",
						   out, &remote->error));
	if (!err)
		err = remote_did(remote,
				 cove_request_write(*out, body->at, body->len, &remote->error));
	if (!err)
		err = remote_did(remote, cove_request_finish(*out, &remote->error));
	interrupt_shield(false);
	return err;
}

// Runs the cell to its end. *out_failed: it ended with an error, which was shown.
static fallible snippet_run(struct snippet *snippet, struct str code, bool *out_failed)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct sse_reader reader = SSE_READER(EVENT_MAX);
	struct cove_request *request = NULL;
	struct err *err;

	snippet->failed = false;
	snippet_put_body(snippet, code, &body);
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "code_too_large", "the code is too large for a cell");
	err = snippet_begin(snippet, &body, &request);
	if (!err)
		err = snippet_read_events(snippet, request, &reader);
	cove_request_free(request);
	sse_done(&reader);
	free(take_ptr(snippet->left_out));
	if (!err)
		*out_failed = snippet->failed;
	return err;
}

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

// ------------------------------------------------------------------------------------ the prompt

struct repl {
	struct snippet *snippet;
	struct edit *edit;
	bool python;
	bool over;
};

// The history file in the user's state directory; NULL: none. Owned by the caller.
static char *history_file(const char *language)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	auto_free char *room = NULL;
	auto_free char *own = NULL;

	if (state && *state == '/')
		room = mem_str(state);
	else if (home && *home == '/')
		room = mem_fmt("%s/.local/state", home);
	else
		return NULL;
	own = mem_fmt("%s/cove", room);
	for (char *at = strchr(own + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(own, 0700);
		*at = '/';
	}
	if (mkdir(own, 0700) != 0 && errno != EEXIST)
		return NULL;
	return mem_fmt("%s/%s_history", own, language);
}

// Reads lines until they form a cell; empty: none, and repl->over says whether input has ended.
static fallible read_cell(struct repl *repl, struct buf *cell)
{
	auto_buf line = BUF_INIT(EDIT_LINE_MAX);
	const char *first = repl->python ? ">>> " : "> ";
	enum edit_end end = EDIT_LINE;

	for (bool begun = false;; begun = true) {
		TRY(edit_line(repl->edit, begun ? "... " : first, &line, &end));
		if (end == EDIT_CANCEL || end == EDIT_OVER) {
			repl->over = end == EDIT_OVER && !begun;
			buf_clear(cell);
			return OK;
		}
		edit_remember(repl->edit, buf_view(&line));
		if (begun)
			buf_char(cell, '\n');
		buf_str(cell, buf_view(&line));
		if (!buf_ok(cell))
			return err_new(TOO_LARGE, "code_too_large", "a cell may have 1 MiB");
		if (end == EDIT_LINE && (repl->python ? is_complete_python(buf_view(cell))
						      : is_complete_script(buf_view(cell))))
			return OK;
	}
}

static bool is_blank(struct str text)
{
	return str_trim(text).len == 0;
}

static fallible revive(struct repl *repl)
{
	struct snippet *snippet = repl->snippet;
	auto_free char *rest = mem_fmt("/contexts/%s/restart", snippet->context);
	auto_free char *path = snippet_path(snippet->box, rest);

	TRY(remote_ask(snippet->remote, "POST", path, NULL, NULL, NULL));
	print_note("the interpreter had ended; this is a new one, without the state of the old");
	return OK;
}

// An error of one cell ends nothing, unless the daemon or the sandbox is gone.
static fallible survive(struct repl *repl, struct err *err)
{
	if (!err)
		return OK;
	if (interrupt_signal() || err_kind(err) == ERR_NOT_FOUND ||
	    strcmp(err_reason(err), "pipe_closed") == 0)
		return err;
	if (strcmp(err_reason(err), "context_died") == 0) {
		err_free(err);
		return revive(repl);
	}
	print_error(err, false);
	err_free(err);
	return OK;
}

static fallible cli_repl_talk(struct repl *repl)
{
	while (!repl->over) {
		auto_buf cell = BUF_INIT(CELL_MAX);
		bool failed;
		struct err *err = read_cell(repl, &cell);

		// A Ctrl-C by signal, not by key, while a line was edited.
		if (err && err_kind(err) == ERR_CANCELLED && interrupt_take()) {
			err_free(err);
			continue;
		}
		if (!err && !is_blank(buf_view(&cell)))
			err = snippet_run(repl->snippet, buf_view(&cell), &failed);
		TRY(survive(repl, err));
	}
	return OK;
}

// Runs until ctrl-d, in the context of `snippet`.
static fallible repl_talk(struct call *call, struct snippet *snippet)
{
	auto_free char *file = history_file(snippet->language);
	auto_edit edit = edit_new(file);
	struct repl repl = {
		.snippet = snippet,
		.edit = edit,
		.python = strcmp(snippet->language, "python") == 0,
	};
	struct err *err;

	snippet->forgiving = true;
	if (!call_has(call, OPT_QUIET))
		print_note("%s in %s; ctrl-c interrupts, ctrl-d leaves", snippet->language,
			   snippet->box);
	tty_type_ahead(STDIN_FILENO);
	err = cli_repl_talk(&repl);
	tty_restore();
	return err;
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
