// The state of a session's shell, as scripts that a shell prints, and its environment. States are
// cached until something may have changed them; the state of a session that processes are started
// from is renewed after each command. Changes of the environment reach the shell with its next
// command.
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/session_private.h"
#include "protocol/shell_state.h"

#define DUMP_MS 10000 // for a shell to print its state
#define PIECE 2048
#define KEPT_SUM (16u << 20) // of all cached states of a box

// Caches `fresh` in `text`, a buffer of the session. False: too large, and not kept.
static bool session_keep_text(struct session *session, struct buf *text, struct str fresh)
{
	struct box *box = session->repl.unit.box;

	if (!session->repl.unit.listed)
		return false;
	session_forget_text(session, text);
	if (fresh.len > SESSION_KEPT_MAX || box->session_texts + fresh.len > KEPT_SUM)
		return false;
	buf_str(text, fresh);
	box->session_texts += fresh.len;
	return true;
}

static fallible session_read_dump(struct session *session, struct tape *tape, struct buf *out)
{
	uint64_t offset = 0;
	size_t got;

	do {
		enum tape_stream stream = TAPE_STDERR;
		char room[PIECE];

		TRY(tape_read(tape, &offset, &stream, room, sizeof(room), &got, CLOCK_NEVER));
		if (stream == TAPE_STDOUT)
			buf_add(out, room, got);
	} while (got);
	if (buf_ok(out))
		return OK;
	return err_hint(err_new(TOO_LARGE, "state_too_large",
				"the variables and functions of session '%s' are too large",
				session_id(session)),
			"at most %d MiB of them go with a process; unset some, or start it in "
			"another session",
			SESSION_PRELUDE_MAX >> 20);
}

static fallible session_err_ended(const struct session *session)
{
	return err_new(GONE, "session_destroyed", "Session '%s' has ended", session_id(session));
}

// Runs a script of ours.
static fallible session_dump(struct session *session, struct str script, struct buf *out,
			     uint64_t *turn)
{
	struct shell_command command = {.text = script, .aside = true};
	auto_session_run run = session_run_new(session, RUN_ASIDE);

	shell_say(&run->run.words, &command);
	run->run.timeout_ms = DUMP_MS;
	repl_run_queue(&run->run);
	TRY(repl_run_wait(&run->run, CLOCK_NEVER));
	if (run->result.end != SESSION_DONE)
		return session_err_ended(session);
	TRY(session_read_dump(session, run->run.tape, out));
	*turn = run->turn;
	return OK;
}

static bool session_is_idle(const struct session *session)
{
	return session_is_free(session) && !session->changes.len;
}

static fallible session_renew_state(struct session *session)
{
	auto_buf text = BUF_INIT(SESSION_PRELUDE_MAX);

	TRY(session_await_ready(session));
	if (session_is_idle(session) && (session->state.len || session->state_large) &&
	    session->stated == session->turns)
		return OK;
	TRY(session_dump(session, STR(SHELL_STATE), &text, &session->stated));
	session->state_large = !session_keep_text(session, &session->state, buf_view(&text));
	return OK;
}

static void session_foresee_task(void *arg)
{
	struct session *session = arg;

	err_free(session_renew_state(session)); // the next caller gets the error
	session_unref(session);
}

static void session_on_foresee(struct timer *timer)
{
	struct session *session = link_of(timer, struct session, foresee);

	if (session->repl.phase != REPL_READY || !session_is_idle(session) ||
	    session->stated == session->turns)
		return;
	unit_ref(&session->repl.unit);
	task_start(session->repl.unit.loop, "session.state", session_foresee_task, session);
}

fallible session_state(struct session *session, struct buf *out)
{
	session->asked_at = loop_now(session->repl.unit.loop);
	session->foresee.due = session_on_foresee;
	TRY(session_renew_state(session));
	buf_str(out, buf_view(&session->state));
	return OK;
}

fallible session_prelude(struct session *session, struct buf *out)
{
	auto_buf text = BUF_INIT(SESSION_PRELUDE_MAX);
	bool idle;

	TRY(session_await_ready(session));
	idle = session_is_idle(session);
	if (idle && session->fresh)
		return OK;
	if (idle && session->prelude.len && session->dumped == session->turns) {
		buf_str(out, buf_view(&session->prelude));
		return OK;
	}
	TRY(session_dump(session, STR(SHELL_DUMP), &text, &session->dumped));
	if (!shell_read_dump(buf_view(&text), out))
		return session_err_ended(session);
	session_keep_text(session, &session->prelude, buf_view(out));
	return OK;
}

fallible session_exports(struct session *session, struct buf *out)
{
	auto_buf text = BUF_INIT(SESSION_PRELUDE_MAX);
	uint64_t turn;

	TRY(session_await_ready(session));
	if (session_is_idle(session) && session->fresh)
		return OK;
	TRY(session_dump(session, STR(SHELL_DUMP_EXPORTS), &text, &turn));
	return shell_read_dump(buf_view(&text), out) ? OK : session_err_ended(session);
}

// --------------------------------------------------------------------------------- its environment

static char **session_find_env(const struct session *session, struct str name)
{
	for (char **at = session->repl.env; *at; at++)
		if (!strncmp(*at, name.at, name.len) && (*at)[name.len] == '=')
			return at;
	return NULL;
}

static void session_replace_env(struct session *session, struct str name, const char *value)
{
	char ***env = &session->repl.env, **at = session_find_env(session, name);
	size_t count = 0;

	while ((*env)[count])
		count++;
	if (at && value) {
		free(*at);
		*at = mem_fmt(STR_FMT "=%s", STR_ARG(name), value);
		return;
	}
	if (at) {
		free(*at);
		if (at < *env + session->own) { // the last own variable takes its place
			*at = (*env)[--session->own];
			at = *env + session->own;
		}
		*at = (*env)[--count];
		(*env)[count] = NULL;
	}
	if (!value)
		return;
	*env = mem_grow(*env, count + 2, sizeof(**env));
	(*env)[count] = mem_fmt(STR_FMT "=%s", STR_ARG(name), value);
	(*env)[count + 1] = NULL;
}

// Variables that pid 1 adds: the session's environment does not have their values.
static bool session_is_of_user(struct str name)
{
	return str_is(name, "HOME") || str_is(name, "USER");
}

static void session_update_env(struct session *session, struct str name, const char *value,
			       bool offers)
{
	char **at = session_find_env(session, name);
	auto_free char *was = at ? mem_str(*at + name.len + 1) : NULL;

	if (at && offers && at < session->repl.env + session->own)
		return;
	session_replace_env(session, name, value);
	if (session->repl.phase != REPL_DOWN) {
		if (offers && (was || !session_is_of_user(name)))
			shell_offer(&session->changes, name, was, value);
		else
			shell_export(&session->changes, name, value);
	}
	repl_file_touch(&session->repl);
}

void session_set_env(struct box *box, struct str name, const char *value)
{
	units_each (at, box, &session_kind)
		session_update_env(unit_of(at, struct session), name, value, false);
}

void session_offer_env(struct box *box, struct str name, const char *value)
{
	units_each (at, box, &session_kind)
		session_update_env(unit_of(at, struct session), name, value, true);
}

static struct session *session_find_busy_file(struct box *box)
{
	units_each (at, box, &session_kind)
		if (unit_of(at, struct session)->repl.file_busy)
			return unit_of(at, struct session);
	return NULL;
}

void sessions_settle(struct box *box)
{
	struct session *session;
	struct err *err = OK;

	while (!err && (session = session_find_busy_file(box))) {
		unit_ref(&session->repl.unit);
		err = condition_wait(&session->repl.unit.changed, CLOCK_NEVER);
		session_unref(session);
	}
	err_free(err);
}
