// The sessions of a box: a table by id. A session outlives its shell: when that has ended, by
// `exit` or by force, the next command gets a new one, with the environment and directory that the
// session was made with. Those without a shell are not shown, and are the first to go when the
// table is full.
//
// Shares: one of the table, one of each caller, run and task. A session without any takes its shell
// with it.
#include "box/session.h"

#include "base/clock.h"
#include "base/mem.h"
#include "box/procs.h"
#include "box/session_inner.h"
#include "box/word.h"
#include "model/shell_state.h"
#include "wire/text.h"

#define CHANGES_MAX (4 << 20)
#define DUMP_MS 10000
#define PIECE 2048
#define KEPT_MAX (256 * 1024) // bytes of a state that is kept until its session changes
#define KEPT_SUM (16u << 20)  // of all states of a box
#define FORESEE_MS 10000      // a session whose state was asked for will be asked again
#define FORESEE_AFTER_MS 1    // from the end of its last command

char **session_copy_env(const char *const *env)
{
	size_t count = 0, hist = 0;
	char **copy;

	while (env[count]) {
		hist += !strncmp(env[count], SHELL_FIRST_ENV, strlen(SHELL_FIRST_ENV));
		count++;
	}
	copy = mem_new((count + 2) * sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		copy[i] = mem_str(env[i]);
	if (!hist)
		copy[count] = mem_str(SHELL_FIRST_ENV);
	return copy;
}

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
		if (at < session->own) { // the last of its own takes its place
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

void session_hold(struct session *session)
{
	session->refs++;
}

static void close_ghosts(struct session *session)
{
	list_each (at, &session->ghosts) {
		struct ghost *ghost = link_of(at, struct ghost, link);

		link_drop(&ghost->link);
		bash_drop(ghost->shell);
		free(ghost);
	}
}

static void free_session(struct later *later)
{
	struct session *session = link_of(later, struct session, free_later);

	loop_drop_timer(session->box->loop, &session->foresee);
	bash_drop(session->shell);
	close_ghosts(session);
	if (session->box->forsaken)
		tape_leave(session->tape);
	tape_end(session->tape);
	tape_drop(session->tape);
	buf_done(&session->changes);
	buf_done(&session->prelude);
	buf_done(&session->state);
	err_free(session->failure);
	mem_free_list(session->env);
	free(session->start_cwd);
	free(session->cwd);
	free(session->id);
	box_drop(session->box);
	free(session);
}

// Freed at the end of the turn: callbacks of its shell may be up the stack.
void session_drop(struct session *session)
{
	if (--session->refs == 0)
		loop_later(session->box->loop, &session->free_later);
}

// Of one that is listed.
static void forget_text(struct session *session, struct buf *text)
{
	session->box->sessions->kept -= text->len;
	buf_done(text);
	*text = BUF_INIT(KEPT_MAX);
}

// False: it is too large.
static bool keep_text(struct session *session, struct buf *text, struct str fresh)
{
	struct sessions *table = session->box->sessions;

	if (!session->listed)
		return false;
	forget_text(session, text);
	if (fresh.len > KEPT_MAX || table->kept + fresh.len > KEPT_SUM)
		return false;
	buf_str(text, fresh);
	table->kept += fresh.len;
	return true;
}

void session_unlist(struct session *session)
{
	if (!session->listed)
		return;
	forget_text(session, &session->prelude);
	forget_text(session, &session->state);
	session->listed = false;
	map_take(session->box->sessions->by_id, str_of(session->id));
	link_drop(&session->link);
	card_remove(session);
	bell_ring(&session->changed);
	session_drop(session);
}

bool session_is_alive(const struct session *session)
{
	return session->listed && (session->shell || session->starting);
}

static struct sessions *table_of(struct box *box)
{
	if (!box->sessions) {
		box->sessions = mem_new_of(struct sessions);
		box->sessions->by_id = map_new();
		link_init(&box->sessions->all);
	}
	return box->sessions;
}

static void box_session_dress(struct session *session, const struct session_spec *spec)
{
	mem_free_list(session->env);
	free(session->start_cwd);
	free(session->cwd);
	session->env = session_copy_env(spec->env);
	session->own = spec->own;
	session->start_cwd = mem_str(spec->cwd);
	session->cwd = mem_str(spec->cwd);
	session->timeout_ms = spec->timeout_ms;
	session->output_cap = spec->output_cap;
	session->cpu_milli = spec->cpu_milli;
}

static bool box_session_is_blank(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!memchr(" \t\r\n\v\f", text.at[i], 6))
			return false;
	return true;
}

static fallible check_id(struct str id)
{
	if (box_session_is_blank(id))
		return err_new(INVALID, "blank_session",
			       "sessionId must not be empty or whitespace");
	if (id.len > SESSION_ID_MAX || text_has_control(id))
		return err_new(INVALID, "bad_field",
			       "the id of a session may have %d bytes, none a control character",
			       SESSION_ID_MAX);
	if (str_is(id, SESSION_NONE))
		return err_new(INVALID, "bad_field", "'" SESSION_NONE "' is the id of no session");
	return OK;
}

static fallible box_session_make_room(struct sessions *table)
{
	struct session *dead = NULL;

	if (map_count(table->by_id) < SESSION_MAX)
		return OK;
	list_each (at, &table->all) {
		struct session *session = link_of(at, struct session, link);

		if (!dead && !session_is_alive(session) && session->refs == 1)
			dead = session;
	}
	if (!dead)
		return err_hint(err_new(EXHAUSTED, "too_many_sessions",
					"a sandbox has at most %d sessions", SESSION_MAX),
				"delete one with /api/session/delete");
	session_unlist(dead);
	return OK;
}

// What is written between the commands. It outlives the daemon where the session does.
static struct tape *box_session_make_tape(struct session *session)
{
	struct box *box = session->box;
	auto_free char *name = mem_fmt("%s/o%u", box->id, session->card);
	struct tape_label label = {
		.id = str_of(session->id),
		.started_ms = clock_wall_ms(),
		.cap = session->output_cap,
	};
	struct tape *tape;

	if (!session->card)
		return tape_new(box->loop, box->tapes_dir, session->output_cap);
	tape = tape_new_named(box->loop, box->tapes_dir, name);
	tape_set_label(tape, &label);
	box->has_folder = true;
	return tape;
}

static fallible box_session_make(struct box *box, struct str id, const struct session_spec *spec,
				 struct session **out)
{
	struct sessions *table = table_of(box);
	struct session *session;

	TRY(box_session_make_room(table));
	session = mem_new_of(struct session);
	box_hold(box);
	session->box = box;
	session->refs = 1;
	session->listed = true;
	session->id = mem_dup(id.at, id.len);
	session->changes = BUF_INIT(CHANGES_MAX);
	session->prelude = BUF_INIT(KEPT_MAX);
	session->state = BUF_INIT(KEPT_MAX);
	session->free_later.run = free_session;
	link_init(&session->queue);
	link_init(&session->ghosts);
	bell_init(&session->changed);
	box_session_dress(session, spec);
	session->card = box->features & TALK_CAN_RETURN ? ++box->cards : 0;
	session->tape = box_session_make_tape(session);
	tape_bound(session->tape, box_tape_budget(box));
	map_put(table->by_id, id, session);
	link_add(&table->all, &session->link);
	*out = session;
	return OK;
}

struct session *session_find(struct box *box, struct str id)
{
	struct session *session = box->sessions ? map_get(box->sessions->by_id, id) : NULL;

	if (session)
		session_hold(session);
	return session;
}

static fallible check(struct box *box, struct str id)
{
	TRY(check_id(id));
	return box_is_alive(box) ? OK : word_box_lost();
}

fallible session_take(struct box *box, struct str id, const struct session_spec *spec,
		      struct session **out)
{
	struct session *session;

	TRY(check(box, id));
	session = session_find(box, id);
	if (!session) {
		TRY(box_session_make(box, id, spec, &session));
		session_hold(session);
	}
	*out = session;
	return OK;
}

// Until its shell is up.
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
		TRY(bell_wait(&session->changed, CLOCK_NEVER), "wait for a shell");
	}
	if (session->listed)
		return OK;
	if (!box_is_alive(session->box))
		return word_box_lost();
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
	box_session_dress(session, spec);
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

const char *session_id(const struct session *session)
{
	return session->id;
}

const char *session_cwd(const struct session *session)
{
	return session->cwd;
}

const char *const *session_env(const struct session *session)
{
	return (const char *const *)session->env;
}

struct tape *session_tape(struct session *session)
{
	return session->tape;
}

void session_each(struct box *box, void (*each)(struct session *session, void *arg), void *arg)
{
	if (!box->sessions)
		return;
	list_each (at, &box->sessions->all) {
		struct session *session = link_of(at, struct session, link);

		if (session_is_alive(session))
			each(session, arg);
	}
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
	// One whose shell could not even start was not in the line any more.
	if (!err && session->listed)
		session_unlist(session);
	card_erase(session);
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
	session->state_large = !keep_text(session, &session->state, buf_view(&text));
	return OK;
}

fallible session_state(struct session *session, struct buf *out)
{
	session->asked_at = loop_now(session->box->loop);
	TRY(renew_state(session));
	buf_str(out, buf_view(&session->state));
	return OK;
}

static void foresee_task(void *arg)
{
	struct session *session = arg;

	err_free(renew_state(session)); // whoever needs it learns why
	session_drop(session);
}

static void on_foresee(struct timer *timer)
{
	struct session *session = link_of(timer, struct session, foresee);

	if (!session->ready || !is_idle(session) || session->stated == session->turns)
		return;
	session_hold(session);
	task_start(session->box->loop, "session.state", foresee_task, session);
}

void session_foresee(struct session *session)
{
	struct loop *loop = session->box->loop;

	session->foresee.due = on_foresee;
	if (session->asked_at && loop_now(loop) - session->asked_at < FORESEE_MS)
		loop_set_timer(loop, &session->foresee, loop_now(loop) + FORESEE_AFTER_MS);
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
	keep_text(session, &session->prelude, buf_view(out));
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

// Variables that pid 1 adds to an environment: our own environment does not have their values.
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
	card_touch(session);
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

static struct session *find_card_busy(struct box *box)
{
	if (box->sessions)
		list_each (at, &box->sessions->all) {
			struct session *session = link_of(at, struct session, link);

			if (session->card_busy)
				return session;
		}
	return NULL;
}

void sessions_settle(struct box *box)
{
	struct session *session;
	struct err *err = OK;

	while (!err && (session = find_card_busy(box))) {
		session_hold(session);
		err = bell_wait(&session->changed, CLOCK_NEVER);
		session_drop(session);
	}
	err_free(err);
}

void sessions_end(struct box *box)
{
	auto_err err = word_box_lost();

	if (!box->sessions)
		return;
	list_each (at, &box->sessions->all) {
		struct session *session = link_of(at, struct session, link);

		session_hold(session);
		session_unlist(session);
		session_abandon(session, err);
		session_drop(session);
	}
	map_free(box->sessions->by_id);
	free(take_ptr(box->sessions));
}
