// The table of a box's sessions by id, and a session in memory: create, find, list, free. When the
// table is full, sessions without a shell are evicted first. A session is freed at the end of the
// loop turn in which the last reference is dropped.
#include "base/clock.h"
#include "base/mem.h"
#include "box/box_file.h"
#include "box/exec_message.h"
#include "box/session_private.h"
#include "codec/text.h"
#include "protocol/shell.h"

#define CHANGES_MAX (4 << 20)
#define KEPT_MAX (256 * 1024) // bytes of a cached state
#define KEPT_SUM (16u << 20)  // of all cached states of a box

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

void session_ref(struct session *session)
{
	session->refs++;
}

static void close_orphans(struct session *session)
{
	list_each (at, &session->orphans) {
		struct orphan *orphan = link_of(at, struct orphan, link);

		link_drop(&orphan->link);
		bash_drop(orphan->shell);
		free(orphan);
	}
}

static void free_session(struct deferred *deferred)
{
	struct session *session = link_of(deferred, struct session, free_later);

	loop_drop_timer(session->box->loop, &session->foresee);
	bash_drop(session->shell);
	close_orphans(session);
	if (session->box->abandoned)
		tape_leave(session->tape);
	tape_end(session->tape);
	tape_unref(session->tape);
	buf_done(&session->changes);
	buf_done(&session->prelude);
	buf_done(&session->state);
	err_free(session->failure);
	mem_free_list(session->env);
	free(session->start_cwd);
	free(session->cwd);
	free(session->id);
	box_unref(session->box);
	free(session);
}

// Freed at the end of the loop turn: callbacks of its shell may be on the stack.
void session_unref(struct session *session)
{
	if (--session->refs == 0)
		loop_defer(session->box->loop, &session->free_later);
}

// Of a listed session.
static void forget_text(struct session *session, struct buf *text)
{
	session->box->sessions->kept -= text->len;
	buf_done(text);
	*text = BUF_INIT(KEPT_MAX);
}

bool session_keep_text(struct session *session, struct buf *text, struct str fresh)
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

void state_file_remove(struct session *session)
{
	if (session->state_file && !session->state_file_busy && !session->box->abandoned)
		box_file_remove_later(session->box, 's', session->state_file);
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
	state_file_remove(session);
	condition_signal(&session->changed);
	session_unref(session);
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

void session_configure(struct session *session, const struct session_spec *spec)
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

// The tape for output between commands. It outlives the daemon if the session does.
static struct tape *box_session_make_tape(struct session *session)
{
	struct box *box = session->box;
	auto_free char *name = mem_fmt("%s/o%u", box->id, session->state_file);
	struct tape_label label = {
		.id = str_of(session->id),
		.started_ms = clock_wall_ms(),
		.cap = session->output_cap,
	};
	struct tape *tape;

	if (!session->state_file)
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
	box_ref(box);
	session->box = box;
	session->refs = 1;
	session->listed = true;
	session->id = mem_dup(id.at, id.len);
	session->changes = BUF_INIT(CHANGES_MAX);
	session->prelude = BUF_INIT(KEPT_MAX);
	session->state = BUF_INIT(KEPT_MAX);
	session->free_later.run = free_session;
	link_init(&session->queue);
	link_init(&session->orphans);
	condition_init(&session->changed);
	session_configure(session, spec);
	session->state_file = box->features & TALK_CAN_RETURN ? ++box->units[UNIT_SESSION].files
							      : 0;
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
		session_ref(session);
	return session;
}

static fallible check(struct box *box, struct str id)
{
	TRY(check_id(id));
	return box_is_alive(box) ? OK : exec_message_box_lost();
}

fallible session_take(struct box *box, struct str id, const struct session_spec *spec,
		      struct session **out)
{
	struct session *session;

	TRY(check(box, id));
	session = session_find(box, id);
	if (!session) {
		TRY(box_session_make(box, id, spec, &session));
		session_ref(session);
	}
	*out = session;
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
