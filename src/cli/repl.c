// The interactive prompt: reads lines until they form a complete cell, runs it, repeats. An error
// of one cell does not end the prompt; a dead interpreter is restarted.
#include "cli/repl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/edit.h"
#include "cli/interrupt.h"
#include "cli/is_complete.h"
#include "cli/print.h"
#include "cli/tty.h"

#define CELL_MAX (1 << 20)

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

fallible repl_talk(struct call *call, struct snippet *snippet)
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
