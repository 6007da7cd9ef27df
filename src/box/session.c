// Requests to a session beside its commands: create, delete, read its state, change its
// environment. A session outlives its shell: after `exit` or a kill the next command gets a new
// shell with the environment and directory of the session's creation.
//
// References: the table, each caller, run and task. The last one drops the shell.
#include "box/session.h"

#include "base/clock.h"
#include "base/mem.h"
#include "box/exec_message.h"
#include "box/procs.h"
#include "box/session_private.h"
#include "codec/text.h"
#include "protocol/shell_state.h"

#define DUMP_MS 10000
#define PIECE 2048

static void set_env(struct session *session, struct str name, const char *value)
{
	size_t count = 0, at = SIZE_MAX;

	for (; session->env[count]; count++)
		if (!strncmp(session->env[count], name.at, name.len) &&
		    session->env[count][name.len] == '=')
			at = count;
	if (at != SIZE_MAX && value) {
		free(session->env[at]);
		session->env[at] = mem_fmt(STR_FMT "=%s", STR_ARG(name), value);
		return;
	}
	if (at != SIZE_MAX) {
		free(session->env[at]);
		if (at < session->own) { // the last own variable takes its place
			session->env[at] = session->env[--session->own];
			at = session->own;
		}
		session->env[at] = session->env[--count];
		session->env[count] = NULL;
	}
	if (!value)
		return;
	session->env = mem_grow(session->env, count + 2, sizeof(*session->env));
	session->env[count] = mem_fmt(STR_FMT "=%s", STR_ARG(name), value);
	session->env[count + 1] = NULL;
}

// Waits until the shell is up.
static fallible box_session_await_ready(struct session *session)
{
	if (!session_is_alive(session))
		err_free(take_ptr(session->failure));
	while (session->listed && !session->ready) {
		if (session->failure)
			return err_from(err_kind(session->failure), err_reason(session->failure),
					err_message(session->failure),
					err_hint_of(session->failure));
		session_start(session);
		TRY(condition_wait(&session->changed, CLOCK_NEVER), "wait for a shell");
	}
	if (session->listed)
		return OK;
	if (!box_is_alive(session->box))
		return exec_message_box_lost();
	return err_new(GONE, "session_destroyed", "Session '%s' was deleted", session->id);
}

fallible session_create(struct box *box, struct str id, const struct session_spec *spec,
			struct session **out)
{
	auto_session session = NULL;
	struct err *err;

	TRY(session_take(box, id, spec, &session));
	if (session_is_alive(session))
		return err_hint(err_new(CONFLICT, "session_exists", "Session '%s' already exists",
					session->id),
				"use it, or delete it first");
	session_configure(session, spec);
	buf_clear(&session->changes);
	err = box_session_await_ready(session);
	if (err) {
		if (!session_is_alive(session))
			session_unlist(session);
		return err;
	}
	*out = take_ptr(session);
	return OK;
}

fallible session_delete(struct session *session, bool now)
{
	struct session_run *run = run_new(session, RUN_DELETE);
	struct err *err;

	if (now) {
		session_unlist(session);
		session_fail_all(session, NULL);
		run_break_lock(session);
		task_shield(true);
		if (session->shell)
			bash_kill_wait(session->shell);
		task_shield(false);
	}
	run_queue(run);
	err = run_await(run, CLOCK_NEVER);
	// A session whose shell could not start was not in the queue any more.
	if (!err && session->listed)
		session_unlist(session);
	state_file_erase(session);
	session_run_drop(run);
	return err;
}

static fallible read_dump(struct session *session, struct tape *tape, struct buf *out)
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
				session->id),
			"at most %d MiB of them go with a process; unset some, or start it in "
			"another session",
			SESSION_PRELUDE_MAX >> 20);
}

static fallible dump(struct session *session, struct str script, struct buf *out, uint64_t *turn)
{
	struct shell_command command = {.text = script, .aside = true};
	auto_session_run run = run_new(session, RUN_ASIDE);

	shell_say(&run->words, &command);
	run->timeout_ms = DUMP_MS;
	run_queue(run);
	TRY(run_await(run, CLOCK_NEVER));
	if (run->result.end != SESSION_DONE)
		return err_new(GONE, "session_destroyed", "Session '%s' has ended", session->id);
	TRY(read_dump(session, run->tape, out));
	*turn = run->turn;
	return OK;
}

static bool is_idle(const struct session *session)
{
	return !session->run && link_empty(&session->queue) && !session->changes.len;
}

static fallible renew_state(struct session *session)
{
	auto_buf text = BUF_INIT(SESSION_PRELUDE_MAX);

	TRY(box_session_await_ready(session));
	if (is_idle(session) && (session->state.len || session->state_large) &&
	    session->stated == session->turns)
		return OK;
	TRY(dump(session, STR(SHELL_STATE), &text, &session->stated));
	session->state_large = !session_keep_text(session, &session->state, buf_view(&text));
	return OK;
}

static void foresee_task(void *arg)
{
	struct session *session = arg;

	err_free(renew_state(session)); // the next caller gets the error
	session_unref(session);
}

static void on_foresee(struct timer *timer)
{
	struct session *session = link_of(timer, struct session, foresee);

	if (!session->ready || !is_idle(session) || session->stated == session->turns)
		return;
	session_ref(session);
	task_start(session->box->loop, "session.state", foresee_task, session);
}

fallible session_state(struct session *session, struct buf *out)
{
	session->asked_at = loop_now(session->box->loop);
	session->foresee.due = on_foresee;
	TRY(renew_state(session));
	buf_str(out, buf_view(&session->state));
	return OK;
}

fallible session_prelude(struct session *session, struct buf *out)
{
	auto_buf text = BUF_INIT(SESSION_PRELUDE_MAX);
	bool idle;

	TRY(box_session_await_ready(session));
	idle = is_idle(session);
	if (idle && session->fresh)
		return OK;
	if (idle && session->prelude.len && session->dumped == session->turns) {
		buf_str(out, buf_view(&session->prelude));
		return OK;
	}
	TRY(dump(session, STR(SHELL_DUMP), &text, &session->dumped));
	if (!shell_read_dump(buf_view(&text), out))
		return err_new(GONE, "session_destroyed", "Session '%s' has ended", session->id);
	session_keep_text(session, &session->prelude, buf_view(out));
	return OK;
}

fallible session_exports(struct session *session, struct buf *out)
{
	auto_buf text = BUF_INIT(SESSION_PRELUDE_MAX);
	uint64_t turn;

	TRY(box_session_await_ready(session));
	if (is_idle(session) && session->fresh)
		return OK;
	TRY(dump(session, STR(SHELL_DUMP_EXPORTS), &text, &turn));
	if (!shell_read_dump(buf_view(&text), out))
		return err_new(GONE, "session_destroyed", "Session '%s' has ended", session->id);
	return OK;
}

static const char *box_session_get_env(const struct session *session, struct str name,
				       size_t *out_at)
{
	for (size_t i = 0; session->env[i]; i++)
		if (!strncmp(session->env[i], name.at, name.len) &&
		    session->env[i][name.len] == '=') {
			*out_at = i;
			return session->env[i] + name.len + 1;
		}
	return NULL;
}

// Variables that pid 1 adds: the session's environment does not have their values.
static bool is_of_user(struct str name)
{
	return str_is(name, "HOME") || str_is(name, "USER");
}

static void box_session_change_env(struct session *session, struct str name, const char *value,
				   bool offers)
{
	size_t at = 0;
	const char *found = box_session_get_env(session, name, &at);
	auto_free char *was = found ? mem_str(found) : NULL;

	if (found && offers && at < session->own)
		return;
	set_env(session, name, value);
	if (session->shell || session->starting) {
		if (offers && (was || !is_of_user(name)))
			shell_offer(&session->changes, name, was, value);
		else
			shell_export(&session->changes, name, value);
	}
	state_file_touch(session);
}

void session_set_env(struct box *box, struct str name, const char *value)
{
	if (box->sessions)
		list_each (at, &box->sessions->all)
			box_session_change_env(link_of(at, struct session, link), name, value,
					       false);
}

void session_offer_env(struct box *box, struct str name, const char *value)
{
	if (box->sessions)
		list_each (at, &box->sessions->all)
			box_session_change_env(link_of(at, struct session, link), name, value,
					       true);
}

static struct session *find_state_file_busy(struct box *box)
{
	if (box->sessions)
		list_each (at, &box->sessions->all) {
			struct session *session = link_of(at, struct session, link);

			if (session->state_file_busy)
				return session;
		}
	return NULL;
}

void sessions_settle(struct box *box)
{
	struct session *session;
	struct err *err = OK;

	while (!err && (session = find_state_file_busy(box))) {
		session_ref(session);
		err = condition_wait(&session->changed, CLOCK_NEVER);
		session_unref(session);
	}
	err_free(err);
}

void sessions_end(struct box *box)
{
	auto_err err = exec_message_box_lost();

	if (!box->sessions)
		return;
	list_each (at, &box->sessions->all) {
		struct session *session = link_of(at, struct session, link);

		session_ref(session);
		session_unlist(session);
		session_abandon(session, err);
		session_unref(session);
	}
	map_free(box->sessions->by_id);
	free(take_ptr(box->sessions));
}
