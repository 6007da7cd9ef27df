// A session's terminal is not its shell: it is another program that starts where the session stands
// now. What a session has exported since it began is only known to its shell, which is asked for a
// script; the terminal's bash runs that first and becomes the wanted shell by execve, so the script
// holds nothing else. A session that is busy is not waited for: then the terminal has the directory
// and the environment that are known. The same holds for exports of more than EXPORTS_MAX.
#include "inbox/seat.h"

#include "base/clock.h"
#include "base/mem.h"
#include "model/shell.h"
#include "model/talk.h"
#include "wire/text.h"

#define TERM_NAME "xterm-256color"
#define SHELL_DEFAULT "bash"
#define SHELL_MAX 255
#define CWD_MAX 4095
#define USER_MAX 64
#define PRELUDE_MS 1000
#define EXPORTS_MAX (128 * 1024)
#define SCRIPT_MAX (144 * 1024) // with quotes; TALK_SIZE_MAX holds it and the environment
#define PIECE_MAX (96 * 1024)	// of it as one argument; the kernel takes 128 KiB
#define SHOWN_MAX 4096

static fallible bad(const char *field, const char *why)
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

static bool inbox_seat_decode(struct http *x, struct str raw, struct str *out)
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

static bool inbox_seat_is_env_name(struct str name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.at[i];

		if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
		      (i > 0 && c >= '0' && c <= '9')))
			return false;
	}
	return name.len > 0;
}

static fallible inbox_seat_read_env(struct seat *seat, struct str pair)
{
	struct str name;

	if (!pair.len || !memchr(pair.at, '=', pair.len))
		return bad("env", "must be NAME=value");
	str_cut(&pair, '=', &name);
	if (!inbox_seat_is_env_name(name) || seat->env.count >= PAIRS_ENV_MAX)
		return bad("env", "has a bad name, or there are too many");
	pairs_set(&seat->env, name, pair);
	return OK;
}

// `command` as often as there are words, `env` as often as there are variables.
static fallible inbox_seat_read_lists(struct http *x, struct seat *seat)
{
	struct str rest = x->url.query, key, value, text;
	auto_buf shown = BUF_INIT(SHOWN_MAX);
	size_t count = 0;

	seat->argv = arena_take(x->arena, (TALK_ARGS_MAX + 1) * sizeof(*seat->argv));
	while (url_pair(&rest, &key, &value)) {
		bool is_word = str_is(key, "command");

		if (!is_word && !str_is(key, "env"))
			continue;
		if (!inbox_seat_decode(x, value, &text))
			return bad(is_word ? "command" : "env", "is malformed");
		if (!is_word) {
			TRY(inbox_seat_read_env(seat, text));
			continue;
		}
		if (count == TALK_ARGS_MAX)
			return bad("command", "has too many words");
		buf_fmt(&shown, "%s" STR_FMT, count ? " " : "", STR_ARG(text));
		seat->argv[count++] = text.at;
	}
	if (count && !*seat->argv[0])
		return bad("command", "is empty");
	seat->is_command = count > 0;
	seat->shown = (struct str){arena_dup(x->arena, shown.at ? shown.at : "", shown.len),
				   shown.len};
	return OK;
}

static fallible inbox_seat_read_place(struct http *x, struct seat *seat)
{
	struct str cwd = http_query(x, "cwd"), user = http_query(x, "user");

	if (cwd.len > CWD_MAX || user.len > USER_MAX)
		return bad(cwd.len > CWD_MAX ? "cwd" : "user", "is too long");
	if (cwd.len)
		seat->cwd = arena_dup(x->arena, cwd.at, cwd.len);
	if (user.len)
		seat->user = user.at;
	return OK;
}

fallible seat_read(struct http *x, struct seat *out)
{
	struct str terminal = http_query(x, "terminal"), shell = http_query(x, "shell");

	*out = (struct seat){.cols = 80, .rows = 24, .script = BUF_INIT(SCRIPT_MAX)};
	out->session = http_query(x, "sessionId");
	if (str_is(out->session, SESSION_NONE))
		out->session = (struct str){NULL, 0};
	TRY(read_side(x, "cols", &out->cols));
	TRY(read_side(x, "rows", &out->rows));
	TRY(inbox_seat_read_lists(x, out));
	TRY(inbox_seat_read_place(x, out));
	if (terminal.len > TERM_ID_MAX || out->session.len > TERM_ID_MAX)
		return bad(terminal.len > TERM_ID_MAX ? "terminal" : "sessionId", "is too long");
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
		return bad("shell", "is too long");
	out->argv[0] = shell.len ? shell.at : SHELL_DEFAULT;
	out->shown = str_of(out->argv[0]);
	out->id = out->session;
	return OK;
}

void seat_done(struct seat *seat)
{
	pairs_done(&seat->env);
	buf_done(&seat->script);
}

// The session's shell is asked in a task of its own, for it may be busy for hours.
struct prelude {
	int refs;
	struct session *session;
	struct buf text;
	bool is_done, has_failed;
	struct bell done;
};

static void prelude_drop(struct prelude **held)
{
	struct prelude *prelude = *held;

	if (!prelude || --prelude->refs > 0)
		return;
	session_drop(prelude->session);
	buf_done(&prelude->text);
	free(prelude);
}

static void prelude_task(void *arg)
{
	on_exit_call(prelude_drop) struct prelude *prelude = arg;
	auto_err err = session_exports(prelude->session, &prelude->text);

	prelude->is_done = true;
	prelude->has_failed = err || !buf_ok(&prelude->text);
	bell_ring(&prelude->done);
}

// Empty: nothing to restore, or the session is busy.
static void ask_prelude(struct loop *loop, struct session *session, struct buf *out)
{
	on_exit_call(prelude_drop) struct prelude *prelude = mem_new_of(struct prelude);
	auto_err err = OK;

	prelude->refs = 2;
	prelude->session = session; // taken over
	prelude->text = BUF_INIT(2 * SESSION_PRELUDE_MAX);
	bell_init(&prelude->done);
	task_start(loop, "term.prelude", prelude_task, prelude);
	while (!err && !prelude->is_done)
		err = bell_wait(&prelude->done, loop_now(loop) + PRELUDE_MS);
	if (prelude->is_done && !prelude->has_failed && prelude->text.len <= out->ceiling)
		buf_str(out, buf_view(&prelude->text));
}

static void inbox_seat_add_env(struct pairs *env, const char *const *from)
{
	for (; from && *from; from++) {
		struct str value = str_of(*from), name;

		str_cut(&value, '=', &name);
		if (!pairs_get(env, name) && strcmp(*from, SHELL_FIRST_ENV) != 0)
			pairs_set(env, name, value);
	}
}

// The bash that restores the state makes room for what was asked for.
static void inbox_seat_wrap(struct http *x, struct seat *seat, struct str prelude, const char *cwd)
{
	auto_buf command = BUF_INIT(128 * 1024);
	const char **argv = arena_take(x->arena, (6 + SCRIPT_MAX / PIECE_MAX) * sizeof(*argv));
	size_t argc = 0;

	buf_text(&command, "\\builtin unset HISTFILE PS1 PS2;\\builtin exec --");
	for (const char **word = seat->argv; *word; word++) {
		buf_char(&command, ' ');
		shell_quote(&command, str_of(*word));
	}
	shell_wrap(&seat->script, prelude, &seat->env, cwd, buf_view(&command));
	if (!buf_ok(&seat->script) || !buf_ok(&command))
		return;
	argv[argc++] = "bash";
	argv[argc++] = "-c";
	argv[argc++] = "IFS=;\\builtin eval \"\\builtin unset -v IFS;$*\"";
	argv[argc++] = "bash";
	for (size_t at = 0; at < seat->script.len; at += PIECE_MAX) {
		size_t left = seat->script.len - at;

		argv[argc++] = arena_dup(x->arena, seat->script.at + at,
					 left < PIECE_MAX ? left : PIECE_MAX);
	}
	argv[argc] = NULL;
	seat->argv = argv;
}

// Where the session stands, if there is one; it is not made for this.
static void stand_there(struct http *x, const struct visit *visit, struct seat *seat)
{
	struct session *session = seat->session.len ? session_find(visit->box, seat->session)
						    : NULL;
	auto_buf prelude = BUF_INIT(EXPORTS_MAX);
	const char *asked = seat->cwd;

	if (!pairs_get(&seat->env, STR("TERM")))
		pairs_set(&seat->env, STR("TERM"), STR(TERM_NAME));
	if (!session)
		return;
	if (!seat->cwd)
		seat->cwd = arena_fmt(x->arena, "%s", session_cwd(session));
	if (session_is_alive(session) && !seat->user) {
		auto_pairs rest = {0};

		inbox_seat_add_env(&rest, session_env(session));
		ask_prelude(door_of(x)->loop, session, &prelude);
		if (prelude.len)
			inbox_seat_wrap(x, seat, buf_view(&prelude), asked);
		for (size_t i = 0; i < rest.count; i++)
			if (!pairs_get(&seat->env, str_of(rest.at[i].name)))
				pairs_set(&seat->env, str_of(rest.at[i].name),
					  str_of(rest.at[i].value));
		return;
	}
	session_drop(session);
}

fallible seat_take(struct http *x, const struct visit *visit, struct seat *seat, struct term **out)
{
	struct term *term = seat->id.len ? term_find(visit->box, seat->id) : NULL;
	auto_outfit outfit = {0};
	struct use_spec use = {0};
	struct term_spec spec = {
		.id = seat->id,
		.is_command = seat->is_command,
		.shown = seat->shown,
		.exec = &outfit.spec,
	};
	bool is_new = false;
	struct err *err;

	if (!term && seat->must_exist)
		return err_absent("no_terminal", "terminal", seat->id);
	if (!term) {
		TRY(visit_admit(visit));
		stand_there(x, visit, seat);
	} else {
		term_drop(term); // it is looked up again, and awaited, below
	}
	use = (struct use_spec){
		.argv = seat->argv, .env = &seat->env, .cwd = seat->cwd, .user = seat->user};
	outfit_make(visit, &use, &outfit);
	outfit.spec.cols = (uint16_t)seat->cols;
	outfit.spec.rows = (uint16_t)seat->rows;
	outfit.spec.cpu_ms = outfit.spec.wall_ms = 0; // a terminal is as long as somebody wants it
	err = term_open(visit->box, &spec, out, &is_new);
	if (err)
		return visit_explain(err);
	return is_new ? OK : term_resize(*out, seat->cols, seat->rows);
}
