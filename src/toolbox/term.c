// Terminals. One WebSocket client has two tasks. The connection's task receives keys and sizes. A
// second one sends: first all output that is kept, then {"type":"ready"}, then new output. It reads
// the terminal's ring at its client's pace; a client that falls behind by more than the ring gets a
// notice on its screen. When the client disconnects, the program is not affected.
//
// A session's terminal is not its shell: it is a separate program that starts in the session's
// current directory. Variables exported since the session began are known only to its shell, which
// is asked for a script. The terminal's bash runs the script, then becomes the wanted shell by
// execve(2). A busy session is not waited for: the terminal then gets the directory and environment
// that the daemon knows. The same holds for exports larger than EXPORTS_MAX.
#include <signal.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/text.h"
#include "gateway/cancel_on_delete.h"
#include "http/upgrade.h"
#include "protocol/shell.h"
#include "protocol/talk.h"
#include "toolbox/cast.h"
#include "toolbox/follow.h"
#include "toolbox/handlers.h"

#define TERM_NAME "xterm-256color"
#define SHELL_DEFAULT "bash"
#define SHELL_MAX 255
#define CWD_MAX 4095
#define USER_MAX 64
#define PRELUDE_MS 1000
#define EXPORTS_MAX (128 * 1024)
#define SCRIPT_MAX (144 * 1024) // with quotes; TALK_SIZE_MAX holds it and the environment
#define PIECE_MAX (96 * 1024)	// of one argument: the kernel's limit is 128 KiB (MAX_ARG_STRLEN)
#define SHOWN_MAX 4096

// The program of a new terminal, as a request describes it: a session's shell, or a command.
struct terminal_command {
	// as requested
	struct str id;	    // of the terminal; len 0: generate one
	struct str session; // len 0: none
	bool must_exist;    // `terminal` was named: only attach
	bool is_command;
	uint64_t cols, rows;
	bool has_after;
	uint64_t after; // output that the client has already, by its offset
	// as it is started
	const char **argv;
	struct env_map env;
	const char *cwd, *user;
	struct buf script; // restores the session's state
	struct str shown;
};

static fallible terminal_command_bad(const char *field, const char *why)
{
	return err_new(INVALID, "bad_field", "'%s' %s", field, why);
}

static fallible read_side(struct http *x, const char *key, uint64_t *out)
{
	struct str text = http_query(x, key);

	if (text.at && !str_to_u64(text, 1, TERM_SIDE_MAX, out))
		return err_new(INVALID, "bad_field", "'%s' must be 1 to %d", key, TERM_SIDE_MAX);
	return OK;
}

static fallible read_after(struct http *x, struct terminal_command *out)
{
	struct str text = http_query(x, "after");

	out->has_after = text.at != NULL;
	if (text.at && !str_to_u64(text, 0, INT64_MAX, &out->after))
		return terminal_command_bad("after", "must be a number of bytes");
	return OK;
}

static bool terminal_command_decode(struct http *x, struct str raw, struct str *out)
{
	auto_buf plain = BUF_INIT(HTTP1_HEAD_MAX);
	auto_buf spaced = BUF_INIT(HTTP1_HEAD_MAX);

	for (size_t i = 0; i < raw.len; i++)
		buf_char(&spaced, raw.at[i] == '+' ? ' ' : raw.at[i]);
	if (!text_unpercent(&plain, buf_view(&spaced)))
		return false;
	*out = (struct str){arena_dup(x->arena, plain.at ? plain.at : "", plain.len), plain.len};
	return true;
}

static bool terminal_command_is_env_name(struct str name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];

		if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
		      (i > 0 && c >= '0' && c <= '9')))
			return false;
	}
	return name.len > 0;
}

static fallible terminal_command_read_env(struct terminal_command *terminal_command,
					  struct str pair)
{
	struct str name;

	if (!pair.len || !memchr(pair.at, '=', pair.len))
		return terminal_command_bad("env", "must be NAME=value");
	str_cut(&pair, '=', &name);
	if (!terminal_command_is_env_name(name) || terminal_command->env.count >= ENV_MAP_ENV_MAX)
		return terminal_command_bad("env", "has a bad name, or there are too many");
	env_map_set(&terminal_command->env, name, pair);
	return OK;
}

// `command` is repeated for each word, `env` for each variable.
static fallible terminal_command_read_lists(struct http *x,
					    struct terminal_command *terminal_command)
{
	struct str rest = x->url.query, key, value, text;
	auto_buf shown = BUF_INIT(SHOWN_MAX);
	size_t count = 0;

	terminal_command->argv = arena_take(x->arena,
					    (TALK_ARGS_MAX + 1) * sizeof(*terminal_command->argv));
	while (url_pair(&rest, &key, &value)) {
		bool is_word = str_is(key, "command");

		if (!is_word && !str_is(key, "env"))
			continue;
		if (!terminal_command_decode(x, value, &text))
			return terminal_command_bad(is_word ? "command" : "env", "is malformed");
		if (!is_word) {
			TRY(terminal_command_read_env(terminal_command, text));
			continue;
		}
		if (count == TALK_ARGS_MAX)
			return terminal_command_bad("command", "has too many words");
		buf_fmt(&shown, "%s" STR_FMT, count ? " " : "", STR_ARG(text));
		terminal_command->argv[count++] = text.at;
	}
	if (count && !*terminal_command->argv[0])
		return terminal_command_bad("command", "is empty");
	terminal_command->is_command = count > 0;
	terminal_command->shown = (struct str){
		arena_dup(x->arena, shown.at ? shown.at : "", shown.len), shown.len};
	return OK;
}

static fallible terminal_command_read_path_arg(struct http *x,
					       struct terminal_command *terminal_command)
{
	struct str cwd = http_query(x, "cwd"), user = http_query(x, "user");

	if (cwd.len > CWD_MAX || user.len > USER_MAX)
		return terminal_command_bad(cwd.len > CWD_MAX ? "cwd" : "user", "is too long");
	if (cwd.len)
		terminal_command->cwd = arena_dup(x->arena, cwd.at, cwd.len);
	if (user.len)
		terminal_command->user = user.at;
	return OK;
}

// Parses the query. INVALID bad_field.
static fallible terminal_command_read(struct http *x, struct terminal_command *out)
{
	struct str terminal = http_query(x, "terminal"), shell = http_query(x, "shell");

	*out = (struct terminal_command){.cols = 80, .rows = 24, .script = BUF_INIT(SCRIPT_MAX)};
	out->session = http_query(x, "sessionId");
	if (str_is(out->session, SESSION_NONE))
		out->session = (struct str){NULL, 0};
	TRY(read_side(x, "cols", &out->cols));
	TRY(read_side(x, "rows", &out->rows));
	TRY(read_after(x, out));
	TRY(terminal_command_read_lists(x, out));
	TRY(terminal_command_read_path_arg(x, out));
	if (terminal.len > TERM_ID_MAX || out->session.len > TERM_ID_MAX)
		return terminal_command_bad(terminal.len > TERM_ID_MAX ? "terminal" : "sessionId",
					    "is too long");
	if (terminal.len) {
		out->id = terminal;
		out->must_exist = !out->is_command;
		return OK;
	}
	if (out->is_command)
		return OK;
	if (!str_trim(out->session).len)
		return err_hint(err_new(INVALID, "bad_field", "'sessionId' is missing"),
				"name the session whose terminal it is to be");
	if (shell.len > SHELL_MAX)
		return terminal_command_bad("shell", "is too long");
	out->argv[0] = shell.len ? shell.at : SHELL_DEFAULT;
	out->shown = str_of(out->argv[0]);
	out->id = out->session;
	return OK;
}

// The session's shell is asked in a separate task, because it may be busy for hours.
struct prelude {
	int refs;
	struct session *session;
	struct buf text;
	bool is_done, has_failed;
	struct condition done;
};

static void prelude_drop(struct prelude **held)
{
	struct prelude *prelude = *held;

	if (!prelude || --prelude->refs > 0)
		return;
	session_unref(prelude->session);
	buf_done(&prelude->text);
	free(prelude);
}

static void prelude_task(void *arg)
{
	on_exit_call(prelude_drop) struct prelude *prelude = arg;
	auto_err err = session_exports(prelude->session, &prelude->text);

	prelude->is_done = true;
	prelude->has_failed = err || !buf_ok(&prelude->text);
	condition_signal(&prelude->done);
}

// Empty: nothing to restore, or the session is busy.
static void ask_prelude(struct loop *loop, struct session *session, struct buf *out)
{
	on_exit_call(prelude_drop) struct prelude *prelude = mem_new_of(struct prelude);
	auto_err err = OK;

	prelude->refs = 2;
	prelude->session = session; // takes the reference
	prelude->text = BUF_INIT(2 * SESSION_PRELUDE_MAX);
	condition_init(&prelude->done);
	task_start(loop, "term.prelude", prelude_task, prelude);
	while (!err && !prelude->is_done)
		err = condition_wait(&prelude->done, loop_now(loop) + PRELUDE_MS);
	if (prelude->is_done && !prelude->has_failed && prelude->text.len <= out->ceiling)
		buf_str(out, buf_view(&prelude->text));
}

static void terminal_command_add_env(struct env_map *env, const char *const *from)
{
	for (; from && *from; from++) {
		struct str value = str_of(*from), name;

		str_cut(&value, '=', &name);
		if (!env_map_get(env, name) && strcmp(*from, SHELL_FIRST_ENV) != 0)
			env_map_set(env, name, value);
	}
}

// Wraps argv: a bash restores the state, then executes the wanted program.
static void terminal_command_wrap(struct http *x, struct terminal_command *terminal_command,
				  struct str prelude, const char *cwd)
{
	auto_buf command = BUF_INIT(128 * 1024);
	const char **argv = arena_take(x->arena, (6 + SCRIPT_MAX / PIECE_MAX) * sizeof(*argv));
	size_t argc = 0;

	buf_text(&command, "\\builtin unset HISTFILE PS1 PS2;\\builtin exec --");
	for (const char **word = terminal_command->argv; *word; word++) {
		buf_char(&command, ' ');
		shell_quote(&command, str_of(*word));
	}
	shell_wrap(&terminal_command->script, prelude, &terminal_command->env, cwd,
		   buf_view(&command));
	if (!buf_ok(&terminal_command->script) || !buf_ok(&command))
		return;
	argv[argc++] = "bash";
	argv[argc++] = "-c";
	argv[argc++] = "IFS=;\\builtin eval \"\\builtin unset -v IFS;$*\"";
	argv[argc++] = "bash";
	for (size_t at = 0; at < terminal_command->script.len; at += PIECE_MAX) {
		size_t left = terminal_command->script.len - at;

		argv[argc++] = arena_dup(x->arena, terminal_command->script.at + at,
					 left < PIECE_MAX ? left : PIECE_MAX);
	}
	argv[argc] = NULL;
	terminal_command->argv = argv;
}

// Takes the directory and state of the session, if it exists; does not create it.
static void stand_there(struct http *x, const struct box_ref *ref,
			struct terminal_command *terminal_command)
{
	struct session *session = terminal_command->session.len
					  ? session_find(ref->box, terminal_command->session)
					  : NULL;
	auto_buf prelude = BUF_INIT(EXPORTS_MAX);
	const char *asked = terminal_command->cwd;

	if (!env_map_get(&terminal_command->env, STR("TERM")))
		env_map_set(&terminal_command->env, STR("TERM"), STR(TERM_NAME));
	if (!session)
		return;
	if (!terminal_command->cwd)
		terminal_command->cwd = arena_fmt(x->arena, "%s", session_cwd(session));
	if (session_is_alive(session) && !terminal_command->user) {
		auto_pairs rest = {0};

		terminal_command_add_env(&rest, session_env(session));
		ask_prelude(gateway_of(x)->loop, session, &prelude);
		if (prelude.len)
			terminal_command_wrap(x, terminal_command, buf_view(&prelude), asked);
		for (size_t i = 0; i < rest.count; i++)
			if (!env_map_get(&terminal_command->env, str_of(rest.at[i].name)))
				env_map_set(&terminal_command->env, str_of(rest.at[i].name),
					    str_of(rest.at[i].value));
		return;
	}
	session_unref(session);
}

// Attaches to the terminal, or starts it in its session's directory. Waits.
static fallible terminal_command_take(struct http *x, const struct box_ref *ref,
				      struct terminal_command *terminal_command, struct term **out)
{
	struct term *term = terminal_command->id.len ? term_find(ref->box, terminal_command->id)
						     : NULL;
	auto_exec_env exec_env = {0};
	struct manager_exec_spec run = {0};
	struct term_spec spec = {
		.id = terminal_command->id,
		.is_command = terminal_command->is_command,
		.shown = terminal_command->shown,
		.exec = &exec_env.spec,
	};
	bool is_new = false;
	struct err *err;

	if (!term && terminal_command->must_exist)
		return err_absent("no_terminal", "terminal", terminal_command->id);
	if (!term) {
		TRY(box_ref_admit(ref));
		stand_there(x, ref, terminal_command);
	} else {
		term_unref(term); // looked up again, and awaited, below
	}
	run = (struct manager_exec_spec){.argv = terminal_command->argv,
					 .env = &terminal_command->env,
					 .cwd = terminal_command->cwd,
					 .user = terminal_command->user};
	exec_env_make(ref, &run, &exec_env);
	exec_env.spec.cols = (uint16_t)terminal_command->cols;
	exec_env.spec.rows = (uint16_t)terminal_command->rows;
	exec_env.spec.cpu_ms = exec_env.spec.wall_ms = 0; // a terminal has no time limit
	err = term_open(ref->box, &spec, out, &is_new);
	if (err)
		return box_ref_explain(err);
	return is_new ? OK : term_resize(*out, terminal_command->cols, terminal_command->rows);
}

// ------------------------------------------------------------------------------ clients

#define MESSAGE_MAX (1u << 20) // longest input message
#define PIECE (32 * 1024)
#define TYPE_MS 10000
#define TEXT_MAX 4096
#define CODE_BOX_GONE 4410

struct watcher {
	int refs;
	struct task *sender; // NULL: the sender has ended
	struct term *term;
	struct wsock *ws;
	uint64_t at; // output offset sent so far
	bool has_after;
	uint64_t after; // what the client has
	char *room;	// PIECE
};

static void watcher_drop(struct watcher *watcher)
{
	if (--watcher->refs > 0)
		return;
	term_unref(watcher->term);
	wsock_unref(watcher->ws);
	free(watcher->room);
	free(watcher);
}

static fallible send_text(struct wsock *ws, const struct buf *text)
{
	return wsock_send(ws, WSOCK_TEXT, buf_view(text));
}

static fallible send_word(struct wsock *ws, const char *type, const char *key, const char *value)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_text(&out, "type", type);
	if (key)
		json_put_text(&out, key, value);
	json_end(&out, '}');
	return send_text(ws, &text);
}

static fallible send_exit(struct wsock *ws, const struct exec_result *result)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&text);
	const char *name = result->signal ? sigabbrev_np(result->signal) : NULL;
	auto_buf signal_name = BUF_INIT(64);

	json_begin(&out, '{');
	json_put_text(&out, "type", "exit");
	json_put_int(&out, "code", result->exit_code);
	if (name)
		buf_fmt(&signal_name, "SIG%s", name);
	else if (result->signal)
		buf_fmt(&signal_name, "SIG%d", result->signal);
	if (signal_name.len)
		json_put_str(&out, "signal", buf_view(&signal_name));
	json_end(&out, '}');
	return send_text(ws, &text);
}

static fallible tell_skipped(struct wsock *ws, uint64_t bytes)
{
	auto_buf text = BUF_INIT(TEXT_MAX);

	buf_fmt(&text, "\r\n\033[0m[cove: %llu bytes were skipped]\r\n", (unsigned long long)bytes);
	return wsock_send(ws, WSOCK_BINARY, buf_view(&text));
}

static fallible send_number(struct wsock *ws, const char *type, const char *key, uint64_t value,
			    const char *terminal)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_text(&out, "type", type);
	if (terminal)
		json_put_text(&out, "terminal", terminal);
	json_put_int(&out, key, (int64_t)value);
	json_end(&out, '}');
	return send_text(ws, &text);
}

// Sends what the client lacks of the kept output in one frame. All of it starts at a complete UTF-8
// sequence; what follows on `after` starts there.
static fallible toolbox_term_replay(struct watcher *watcher)
{
	struct term_view view = term_view(watcher->term);
	uint64_t skipped;
	size_t len, cut = 0;
	auto_free char *kept = NULL;
	bool goes_on = watcher->has_after && watcher->after <= view.bytes;

	watcher->at = term_kept(watcher->term);
	if (goes_on && watcher->after < watcher->at)
		TRY(send_number(watcher->ws, "gap", "bytes", watcher->at - watcher->after, NULL));
	else if (goes_on)
		watcher->at = watcher->after;
	len = (size_t)(view.bytes - watcher->at);
	if (len > 0) {
		kept = mem_grow(NULL, len, 1);
		len = term_read(watcher->term, &watcher->at, kept, len, &skipped);
		while (!goes_on && watcher->at > len && cut < 3 && cut < len &&
		       ((unsigned char)kept[cut] & 0xc0) == 0x80)
			cut++;
		TRY(wsock_send(watcher->ws, WSOCK_BINARY, (struct str){kept + cut, len - cut}));
	}
	return send_number(watcher->ws, "ready", "offset", watcher->at,
			   view.is_command ? view.id : NULL);
}

static fallible term_follow(struct watcher *watcher)
{
	struct exec_result result;
	bool box_gone = false;

	for (;;) {
		uint64_t skipped;
		size_t len = term_read(watcher->term, &watcher->at, watcher->room, PIECE, &skipped);

		if (skipped)
			TRY(tell_skipped(watcher->ws, skipped));
		if (len) {
			TRY(wsock_send(watcher->ws, WSOCK_BINARY,
				       (struct str){watcher->room, len}));
			continue;
		}
		if (term_ended(watcher->term, &result, &box_gone))
			break;
		TRY(term_await(watcher->term, watcher->at, CLOCK_NEVER));
	}
	if (box_gone) {
		TRY(send_word(watcher->ws, "error", "message", "the sandbox is gone"));
		wsock_close(watcher->ws, CODE_BOX_GONE, "the sandbox is gone");
		return OK;
	}
	TRY(send_exit(watcher->ws, &result));
	term_forget(watcher->term);
	wsock_close(watcher->ws, WS_NORMAL, "the terminal has ended");
	return OK;
}

static void sender_task(void *arg)
{
	struct watcher *watcher = arg;
	struct err *err = toolbox_term_replay(watcher);

	err_free(err ? err : term_follow(watcher));
	watcher->sender = NULL;
	watcher_drop(watcher);
}

// A text frame is a control message to the terminal.
static fallible term_take_text(struct watcher *watcher, struct str text)
{
	uint64_t cols = 0, rows = 0;
	struct str type = {NULL, 0};
	auto_json json = NULL;
	struct err *err = json_read(text, &json);

	if (!err)
		err = json_want(json, "message", JSON_OBJECT);
	if (!err)
		err = json_str(json_get(json, "type"), "type", &type);
	if (!err && !str_is(type, "resize"))
		err = err_new(INVALID, "bad_field", "'type' must be resize");
	if (!err)
		err = json_u64(json_get(json, "cols"), "cols", 1, TERM_SIDE_MAX, &cols);
	if (!err)
		err = json_u64(json_get(json, "rows"), "rows", 1, TERM_SIDE_MAX, &rows);
	if (!err)
		err = term_resize(watcher->term, cols, rows);
	return err;
}

static fallible term_receive(struct watcher *watcher)
{
	struct loop *loop = task_loop();

	for (;;) {
		struct wsock_message message;
		auto_err err = OK;

		TRY(wsock_recv(watcher->ws, CLOCK_NEVER, &message));
		if (message.kind == WSOCK_CLOSED)
			return OK;
		if (message.kind == WSOCK_TEXT)
			err = term_take_text(watcher, message.body);
		else
			err = term_type(watcher->term, message.body.at, message.body.len,
					loop_now(loop) + TYPE_MS);
		if (err && err_kind(err) == ERR_CANCELLED)
			return take_ptr(err);
		if (err && err_kind(err) == ERR_TIMEOUT)
			TRY(send_word(watcher->ws, "error", "message",
				      "the program does not read what is typed"));
		else if (err && strcmp(err_reason(err), "terminal_ended") != 0)
			TRY(send_word(watcher->ws, "error", "message", err_message(err)));
	}
}

static fallible toolbox_term_watch(struct wsock *ws, struct term *term,
				   const struct terminal_command *command)
{
	struct watcher *watcher = mem_new_of(struct watcher);
	struct err *err;

	watcher->refs = 2;
	watcher->term = term; // takes the reference
	watcher->has_after = command->has_after;
	watcher->after = command->after;
	watcher->ws = ws;
	wsock_ref(ws);
	watcher->room = mem_grow(NULL, PIECE, 1);
	term_attach(term, 1);
	watcher->sender = task_start(task_loop(), "term.send", sender_task, watcher);
	err = term_receive(watcher);
	term_attach(term, -1);
	if (watcher->sender)
		task_cancel(watcher->sender);
	watcher_drop(watcher);
	return err;
}

struct opening {
	struct box_ref ref;
	struct terminal_command command;
};

static fallible term_talk(struct http *x, struct wsock *ws, void *arg)
{
	struct opening *opening = arg;
	struct term *term = NULL;
	auto_err err = terminal_command_take(x, &opening->ref, &opening->command, &term);

	if (!err)
		return toolbox_term_watch(ws, term, &opening->command);
	if (err_kind(err) == ERR_CANCELLED)
		return take_ptr(err);
	TRY(send_word(ws, "error", "message", err_message(err)));
	wsock_close(ws, WS_INTERNAL, err_reason(err));
	return OK;
}

static void opening_done(struct opening *opening)
{
	box_ref_end(&opening->ref);
	env_map_done(&opening->command.env);
	buf_done(&opening->command.script);
}

fallible toolbox_term_pty(struct http *x)
{
	struct wsock_options options = {.max = MESSAGE_MAX, .speaks_first = true};
	on_exit_call(opening_done) struct opening opening = {0};

	TRY(upgrade_check(x));
	TRY(gateway_box(x, &opening.ref));
	TRY(terminal_command_read(x, &opening.command));
	{
		auto_term term = opening.command.id.len
					 ? term_find(opening.ref.box, opening.command.id)
					 : NULL;

		if (!term && opening.command.must_exist)
			return err_hint(err_absent("no_terminal", "terminal", opening.command.id),
					"GET /api/terminals lists them");
		// A WebSocket that opens promises a terminal: check the limit before the upgrade.
		if (!term)
			TRY(term_ask_room(opening.ref.box));
	}
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(opening.ref.entry,
									       x);

	return upgrade_run(x, &options, term_talk, &opening);
}

static void put_term(struct term *term, void *arg)
{
	struct term_view view = term_view(term);
	struct json_out *out = arg;

	json_begin(out, '{');
	json_put_text(out, "id", view.id);
	json_put_text(out, "command", view.shown);
	json_put_bool(out, "isCommand", view.is_command);
	json_put_text(out, "status", view.has_ended ? "ended" : "running");
	json_put_int(out, "pid", view.pid);
	json_put_int(out, "cols", view.cols);
	json_put_int(out, "rows", view.rows);
	json_put_int(out, "attached", view.attached);
	json_put_int(out, "outputBytes", (int64_t)view.bytes);
	json_put_time(out, "startedAt", view.started_ms);
	json_end(out, '}');
}

fallible toolbox_term_list(struct http *x)
{
	auto_buf body = BUF_INIT(1 << 20);
	struct json_out out = gateway_success(&body);
	auto_box_ref ref = {0};

	TRY(gateway_box(x, &ref));
	json_put_begin(&out, "terminals", '[');
	term_each(ref.box, put_term, &out);
	json_end(&out, ']');
	return gateway_answer(x, &out);
}

static fallible toolbox_term_find(struct http *x, struct box_ref *ref, struct term **out)
{
	TRY(gateway_box(x, ref));
	*out = term_find(ref->box, x->params[1]);
	return *out ? OK : err_absent("no_terminal", "terminal", x->params[1]);
}

// Sends what the tape has now; does not wait for more.
fallible toolbox_term_log(struct http *x)
{
	auto_box_ref ref = {0};
	auto_term term = NULL;
	struct follow_raw raw = {.all = true};

	TRY(toolbox_term_find(x, &ref, &term));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	raw.until = tape_kept(term_tape(term));
	TRY(http_begin(x, 200, "application/octet-stream"));
	return follow_raw(x, term_tape(term), &raw);
}

fallible toolbox_term_cast(struct http *x)
{
	auto_box_ref ref = {0};
	auto_term term = NULL;
	struct term_view view;
	struct cast_head head;

	TRY(toolbox_term_find(x, &ref, &term));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	view = term_view(term);
	head = (struct cast_head){.width = (uint32_t)view.cols,
				  .height = (uint32_t)view.rows,
				  .started_ms = view.started_ms,
				  .command = str_of(view.shown)};
	return toolbox_cast_send(x, term_tape(term), &head, true);
}

fallible toolbox_term_kill(struct http *x)
{
	auto_box_ref ref = {0};
	auto_term term = NULL;
	auto_buf body = BUF_INIT(TEXT_MAX);
	struct json_out out = gateway_success(&body);

	TRY(toolbox_term_find(x, &ref, &term));
	term_kill(term);
	term_forget(term);
	json_put_text(&out, "id", term_view(term).id);
	return gateway_answer(x, &out);
}
