// A shell session is a REPL whose process is an interactive bash. Commands run one after another; a
// shell that ends takes the active command with it, but not the queue. A session outlives its
// shell: after `exit` or a kill the next command gets a new shell with the environment and
// directory of the session's creation.
//
// State file "BOX/sN"; the tape "BOX/oN" has the output between commands. When the table is full,
// sessions without a shell are evicted first.
//
// syscalls: clock_gettime
#include "box/session.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "box/box.h"
#include "box/box_file.h"
#include "box/exec_cgroup.h"
#include "box/exec_message.h"
#include "box/procs.h"
#include "box/session_private.h"
#include "box/session_record.h"
#include "codec/text.h"

#define CHANGES_MAX (4 << 20)
#define ORPHANS_MAX 8 // ended shells whose pipes a process still holds
#define SESSION_TAPE 'o'

static const char *const shell_argv[] = {"bash", "--norc", "--noediting", "-i", NULL};

struct orphan {
	struct link link;
	struct session *session;
	struct bash *shell;
};

// --------------------------------------------------------------------------------------- the table

void session_unref(struct session *session)
{
	unit_unref(&session->repl.unit);
}

static void session_free(struct repl *repl)
{
	struct session *session = (struct session *)repl;

	loop_drop_timer(repl->unit.loop, &session->foresee);
	list_each (at, &session->orphans) {
		struct orphan *orphan = link_of(at, struct orphan, link);

		link_drop(&orphan->link);
		bash_drop(orphan->shell);
		free(orphan);
	}
	if (repl->unit.box->abandoned)
		tape_leave(repl->unit.tape);
	buf_done(&session->changes);
	buf_done(&session->prelude);
	buf_done(&session->state);
}

// Of a listed session.
void session_forget_text(struct session *session, struct buf *text)
{
	session->repl.unit.box->session_texts -= text->len;
	buf_done(text);
	*text = BUF_INIT(SESSION_KEPT_MAX);
}

static void session_unlist(struct session *session)
{
	if (!session->repl.unit.listed)
		return;
	session_forget_text(session, &session->prelude);
	session_forget_text(session, &session->state);
	unit_ref(&session->repl.unit);
	unit_unlist(&session->repl.unit);
	repl_file_drop(&session->repl);
	session_unref(session);
}

static bool session_evict(struct unit *unit)
{
	if (unit->refs > 1 || repl_is_alive((struct repl *)unit))
		return false;
	session_unlist((struct session *)unit);
	return true;
}

bool session_is_alive(const struct session *session)
{
	return repl_is_alive(&session->repl);
}

// bash writes no history.
static char **session_copy_env(const char *const *env)
{
	char **copy = repl_copy_env(env);
	size_t count = 0;

	for (; copy[count]; count++)
		if (!strncmp(copy[count], SHELL_FIRST_ENV, strlen(SHELL_FIRST_ENV)))
			return copy;
	copy = mem_grow(copy, count + 2, sizeof(*copy));
	copy[count] = mem_str(SHELL_FIRST_ENV);
	copy[count + 1] = NULL;
	return copy;
}

static void session_configure(struct session *session, const struct session_spec *spec)
{
	struct repl_spec parameters = {
		.cwd = spec->cwd,
		.timeout_ms = spec->timeout_ms,
		.output_cap = spec->output_cap,
		.cpu_milli = spec->cpu_milli,
	};

	repl_configure(&session->repl, &parameters, session_copy_env(spec->env));
	session->own = spec->own;
}

static fallible session_check_id(struct str id)
{
	bool is_blank = true;

	for (size_t i = 0; i < id.len; i++)
		is_blank &= memchr(" \t\r\n\v\f", id.at[i], 6) != NULL;
	if (is_blank)
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

// Without a tape; the caller holds it.
static struct session *session_new(struct box *box, struct str id, const struct session_spec *spec,
				   uint32_t file)
{
	struct session *session = mem_new_of(struct session);

	repl_init(&session->repl, &session_kind, box, id);
	session->changes = BUF_INIT(CHANGES_MAX);
	session->prelude = BUF_INIT(SESSION_KEPT_MAX);
	session->state = BUF_INIT(SESSION_KEPT_MAX);
	link_init(&session->orphans);
	session_configure(session, spec);
	session->repl.unit.file = file;
	unit_list(&session->repl.unit);
	return session;
}

// The tape for output between commands. It outlives the daemon if the session does.
static void session_make_tape(struct session *session)
{
	struct unit *unit = &session->repl.unit;
	struct tape_label label = {
		.id = str_of(unit->id),
		.started_ms = clock_wall_ms(),
		.cap = session->repl.output_cap,
	};

	unit->tape = unit_new_tape(unit->box, SESSION_TAPE, unit->file, &label);
}

struct session *session_find(struct box *box, struct str id)
{
	return (struct session *)unit_find(box, &session_kind, id);
}

static fallible session_make_room(struct box *box)
{
	if (units_have_room(box, &session_kind))
		return OK;
	return err_hint(err_new(EXHAUSTED, "too_many_sessions", "a sandbox has at most %d sessions",
				SESSION_MAX),
			"delete one with /api/session/delete");
}

fallible session_take(struct box *box, struct str id, const struct session_spec *spec,
		      struct session **out)
{
	struct session *session;

	TRY(session_check_id(id));
	TRY(box_is_alive(box) ? OK : exec_message_box_lost());
	session = session_find(box, id);
	if (!session) {
		TRY(session_make_room(box));
		session = session_new(box, id, spec, unit_next_file(box, &session_kind));
		session_make_tape(session);
	}
	*out = session;
	return OK;
}

const char *session_id(const struct session *session)
{
	return session->repl.unit.id;
}

const char *session_cwd(const struct session *session)
{
	return session->repl.cwd;
}

const char *const *session_env(const struct session *session)
{
	return (const char *const *)session->repl.env;
}

struct tape *session_tape(struct session *session)
{
	return session->repl.unit.tape;
}

void session_each(struct box *box, void (*each)(struct session *session, void *arg), void *arg)
{
	units_each (at, box, &session_kind) {
		struct session *session = unit_of(at, struct session);

		if (session_is_alive(session))
			each(session, arg);
	}
}

// ---------------------------------------------------------------------------------------- the runs

static void session_on_limit(struct repl_run *run)
{
	session_stop((struct session_run *)run, ENDING_WALL_LIMIT);
}

static void session_on_spent(struct repl *repl)
{
	struct session_run *run = (struct session_run *)repl->run;

	if (run && run->kind == RUN_COMMAND)
		session_stop(run, ENDING_CPU_LIMIT);
}

static uint64_t session_boot_ms(void)
{
	struct timespec at;

	clock_gettime(CLOCK_BOOTTIME, &at);
	return (uint64_t)at.tv_sec * 1000 + (uint64_t)at.tv_nsec / 1000000;
}

// Held by the caller. A run that is not begun ends as destroyed.
struct session_run *session_run_new(struct session *session, enum session_run_kind kind)
{
	struct session_run *run = mem_new_of(struct session_run);
	struct box *box = session->repl.unit.box;
	uint64_t cap = session->repl.output_cap;
	struct tape *tape = NULL;

	// The state must be complete.
	if (kind == RUN_ASIDE && cap < 2 * SESSION_PRELUDE_MAX)
		cap = 2 * SESSION_PRELUDE_MAX;
	if (kind < RUN_LOCK) {
		tape = tape_new(box->loop, box->tapes_dir, cap);
		tape_bound(tape, box_tape_budget(box));
	}
	repl_run_init(&run->run, &session->repl, SESSION_WORDS_MAX, tape);
	run->kind = kind;
	run->run.must_run = kind == RUN_DELETE;
	run->result.end = SESSION_DESTROYED;
	return run;
}

// A delete and a lock need no shell; all else needs one that is up.
static bool session_may_begin(struct repl *repl, struct repl_run *base)
{
	enum session_run_kind kind = ((struct session_run *)base)->kind;

	if (kind == RUN_LOCK)
		return true;
	if (kind == RUN_DELETE)
		return repl->phase == REPL_DOWN || repl->phase == REPL_READY;
	if (repl->shell && repl->shell->done)
		return false; // it is ending
	repl_start(repl);
	return repl->phase == REPL_READY;
}

// Kills the shell with its background jobs and waits until it is gone.
static void session_delete_task(void *arg)
{
	struct session_run *run = arg;
	struct repl *repl = run->run.repl;

	task_shield(true);
	if (repl->shell)
		bash_kill_wait(repl->shell);
	while (repl->shell && !session_run_is_over(run)) // shielded: cannot be cancelled
		err_free(condition_wait(&run->run.condition, CLOCK_NEVER));
	session_run_finish(run);
}

static void session_begin_delete(struct session *session, struct session_run *run)
{
	struct unit *unit = &session->repl.unit;

	session_unlist(session);
	repl_fail_all(&session->repl, NULL);
	procs_end_session(unit->box, str_of(unit->id));
	if (session->repl.shell) {
		run->run.phase = RUN_STOPPING;
		task_start(unit->loop, "session.delete", session_delete_task, run);
	} else {
		session_run_finish(run);
	}
}

static void session_begin_command(struct session *session, struct session_run *run)
{
	struct bash *shell = session->repl.shell;
	const char *back = run->has_cwd ? session->repl.cwd : NULL;

	if (session->changes.len) {
		struct buf words = BUF_INIT(SESSION_WORDS_MAX);

		shell_say_changes(&words, buf_view(&session->changes));
		buf_str(&words, buf_view(&run->run.words));
		buf_done(&run->run.words);
		run->run.words = words;
		buf_clear(&session->changes);
		repl_file_touch(&session->repl);
		session->turns++;
	}
	if (run->kind == RUN_COMMAND) {
		session->fresh = false;
		session->turns++;
	}
	run->turn = session->turns;
	run->job = shell->job;
	run->begun_us = clock_us();
	run->begun_boot_ms = session_boot_ms();
	run->oom_kills = box_oom_kills(session->repl.unit.box);
	run->result.end = SESSION_DONE;
	if (run->run.timeout_ms)
		repl_run_limit(&run->run, (int64_t)run->run.timeout_ms);
	if (run->cpu_ms)
		bash_limit_cpu(shell, run->cpu_ms * 1000);
	bash_send(shell, &run->run.words, run->kind == RUN_ASIDE, back, run->run.tape);
}

static void session_begin(struct repl *repl, struct repl_run *base)
{
	struct session *session = (struct session *)repl;
	struct session_run *run = (struct session_run *)base;

	if (run->kind == RUN_LOCK)
		condition_signal(&base->condition);
	else if (run->kind == RUN_DELETE)
		session_begin_delete(session, run);
	else
		session_begin_command(session, run);
}

static void session_run_take_result(struct session_run *run)
{
	struct session_result *result = &run->result;

	result->duration_ms = (clock_us() - run->begun_us) / 1000;
	result->timeout_ms = run->run.timeout_ms;
	result->stdout_truncated = tape_truncated(run->run.tape, TAPE_STDOUT);
	result->stderr_truncated = tape_truncated(run->run.tape, TAPE_STDERR);
}

static void session_on_answered(struct repl *repl)
{
	((struct session *)repl)->fresh = true;
}

static void session_on_ended(struct repl *repl, struct repl_run *base)
{
	struct session_run *run = (struct session_run *)base;
	struct bash *shell = repl->shell;
	bool oom = shell->status == 128 + SIGKILL && box_oom_kills(repl->unit.box) > run->oom_kills;

	if (run->cpu_ms)
		bash_limit_cpu(shell, 0);
	session_run_take_result(run);
	run->result.has_jobs = shell->job != run->job;
	run->result.end = SESSION_DONE;
	run->result.exit_code = shell->status;
	run->result.ending = oom ? ENDING_OOM : ENDING_EXITED;
	session_run_report(run);
}

// --------------------------------------------------------------------------------------- the shell

static void session_on_orphan_closed(struct bash *shell)
{
	struct orphan *orphan = shell->owner;

	link_drop(&orphan->link);
	orphan->session->orphan_count--;
	bash_drop(shell);
	free(orphan);
}

// Background jobs hold the pipes of the ended shell: their output is still read.
static void session_detach(struct session *session, struct bash *shell)
{
	struct orphan *orphan;

	if (pipes_ended(&shell->pipes)) {
		bash_drop(shell);
		return;
	}
	if (session->orphan_count == ORPHANS_MAX)
		session_on_orphan_closed(
			link_of(session->orphans.next, struct orphan, link)->shell);
	orphan = mem_new_of(struct orphan);
	*orphan = (struct orphan){.session = session, .shell = shell};
	shell->owner = orphan;
	shell->spent = NULL;
	shell->closed = session_on_orphan_closed;
	link_add(&session->orphans, &orphan->link);
	session->orphan_count++;
}

static void session_end_with_shell(struct session_run *run, const struct exec_result *result)
{
	struct unit *unit = &run->run.repl->unit;

	if (run->kind != RUN_DELETE) {
		session_run_take_result(run);
		run->result.end = unit->listed ? SESSION_TERMINATED : SESSION_DESTROYED;
		run->result.exit_code = result->exit_code;
		run->result.ending = result->ending;
		run->result.restarted = run->run.phase != RUN_ACTIVE;
		run->result.has_jobs = true; // unknown: the shell could not report them
		if (!box_is_alive(unit->box)) {
			err_free(run->run.failure);
			run->run.failure = exec_message_box_lost();
		}
	}
	session_run_report(run);
}

static void session_on_lost(struct repl *repl, struct bash *shell, enum repl_phase was)
{
	struct session *session = (struct session *)repl;
	struct session_run *run = (struct session_run *)repl->run;
	struct exec_result result = shell->exec->result;

	session->turns++;
	if (was != REPL_READY) {
		err_free(repl->failure);
		repl->failure = err_new(EXHAUSTED, "no_shell",
					"the shell of the session ended at once");
		repl_fail_all(repl, repl->failure);
	}
	if (repl->unit.listed && box_is_alive(repl->unit.box))
		session_detach(session, shell);
	else
		bash_drop(shell);
	if (run && run->kind != RUN_LOCK)
		session_end_with_shell(run, &result);
}

static fallible session_explain(struct err *err)
{
	if (!err || strcmp(err_reason(err), "command_not_found") != 0)
		return err;
	return err_hint(err_recast(err, ERR_NOT_OFFERED, "no_bash",
				   "the sandbox has no bash, which sessions need"),
			"install bash in the template, or send \"" SESSION_NONE "\" as sessionId");
}

static fallible session_spawn(struct repl *repl, struct bash **out)
{
	// The environment may change while we wait.
	char **env = repl_copy_env((const char *const *)repl->env);
	struct exec_label label = {
		.kind = EXEC_LABEL_SESSION,
		.file = repl->unit.file,
		.id = str_of(repl->unit.id),
	};
	struct exec_spec spec = {
		.label = &label,
		.argv = shell_argv,
		.env = (const char *const *)env,
		.cwd = "/",
		.user = "",
		.dialogue = true,
		.cpu_milli = repl->cpu_milli,
	};
	struct exec *exec = NULL;
	struct err *err;

	repl_file_write(repl);
	err = session_explain(exec_start(repl->unit.box, &spec, &exec));
	mem_free_list(env);
	return err ? err : bash_open(exec, repl->unit.tape, repl->start_cwd, out);
}

// ------------------------------------------------------------------------------------ its requests

static fallible session_err_deleted(const struct repl *repl)
{
	return err_new(GONE, "session_destroyed", "Session '%s' was deleted", repl->unit.id);
}

fallible session_await_ready(struct session *session)
{
	return repl_await_ready(&session->repl, repl_start, CLOCK_NEVER);
}

static fallible session_ask_room(const struct session *session)
{
	if (!session->repl.unit.listed)
		return session_err_deleted(&session->repl);
	if (session->repl.waiting >= SESSION_WAITING_MAX)
		return err_hint(err_new(EXHAUSTED, "session_busy",
					"too many commands wait for session '%s'",
					session->repl.unit.id),
				"use more sessions, or \"" SESSION_NONE "\"");
	return OK;
}

fallible session_run(struct session *session, const struct session_job *job,
		     struct session_run **out)
{
	struct shell_command command = {
		.text = job->command,
		.cwd = job->cwd,
		.env = job->env,
	};
	struct session_run *run;

	TRY(session_ask_room(session));
	run = session_run_new(session, RUN_COMMAND);
	shell_say(&run->run.words, &command);
	if (!buf_ok(&run->run.words) ||
	    run->run.words.len + 4 * SHELL_END_MAX > SESSION_WORDS_MAX) {
		session_run_drop(run);
		return err_new(TOO_LARGE, "command_too_large", "the command is too large");
	}
	if (job->record) {
		tape_unref(run->run.tape);
		run->run.tape = session_record_tape(session->repl.unit.box, session_id(session),
						    session->repl.output_cap, job->record);
	}
	run->has_cwd = job->cwd != NULL;
	run->run.timeout_ms = job->timeout_ms ? job->timeout_ms : session->repl.timeout_ms;
	run->cpu_ms = job->cpu_ms;
	repl_run_queue(&run->run);
	*out = run;
	return OK;
}

fallible session_run_wait(struct session_run *run, int64_t deadline, struct session_result *out)
{
	TRY(repl_run_wait(&run->run, deadline));
	*out = run->result;
	return OK;
}

struct tape *session_run_tape(struct session_run *run)
{
	return run->run.tape;
}

void session_run_drop(struct session_run *run)
{
	repl_run_drop(&run->run);
}

bool session_is_free(const struct session *session)
{
	return !session->repl.run && link_empty(&session->repl.queue);
}

fallible session_lock(struct session *session, struct session_run **out)
{
	struct session_run *run;
	struct err *err = OK;

	TRY(session_ask_room(session));
	run = session_run_new(session, RUN_LOCK);
	repl_run_queue(&run->run);
	while (!err && run->run.phase == RUN_QUEUED)
		err = condition_wait(&run->run.condition, CLOCK_NEVER);
	if (!err && run->run.phase != RUN_ACTIVE)
		err = run->run.failure ? repl_copy_err(run->run.failure)
				       : session_err_deleted(&session->repl);
	if (err) {
		session_unlock(run);
		return err;
	}
	*out = run;
	return OK;
}

void session_unlock(struct session_run *lock)
{
	if (lock->run.phase == RUN_ACTIVE)
		session_run_finish(lock);
	session_run_drop(lock);
}

fallible session_create(struct box *box, struct str id, const struct session_spec *spec,
			struct session **out)
{
	auto_session session = NULL;
	struct err *err;

	TRY(session_take(box, id, spec, &session));
	if (session_is_alive(session))
		return err_hint(err_new(CONFLICT, "session_exists", "Session '%s' already exists",
					session_id(session)),
				"use it, or delete it first");
	session_configure(session, spec);
	buf_clear(&session->changes);
	err = session_await_ready(session);
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
	struct session_run *run = session_run_new(session, RUN_DELETE), *active;
	struct err *err;

	if (now) {
		session_unlist(session);
		repl_fail_all(&session->repl, NULL);
		active = (struct session_run *)session->repl.run;
		if (active && active->kind == RUN_LOCK)
			session_run_finish(active); // its holder continues without it
		repl_kill_wait(&session->repl);
	}
	repl_run_queue(&run->run);
	err = repl_run_wait(&run->run, CLOCK_NEVER);
	// A session whose shell could not start was not in the queue any more.
	if (!err)
		session_unlist(session);
	repl_file_erase(&session->repl);
	session_run_drop(run);
	return err;
}

// ---------------------------------------------------------------------- end with the box, adoption

void sessions_end(struct box *box)
{
	auto_err err = exec_message_box_lost();

	units_each (at, box, &session_kind) {
		struct session *session = unit_of(at, struct session);
		struct repl_run *run = session->repl.run;

		unit_ref(&session->repl.unit);
		session_unlist(session);
		repl_fail_all(&session->repl, err);
		if (session->repl.shell)
			repl_step(&session->repl, REPL_LOST);
		bash_drop(take_ptr(session->repl.shell));
		if (run) { // its shell will not report its end any more
			err_free(run->failure);
			run->failure = repl_copy_err(err);
			session_run_report((struct session_run *)run);
		}
		session_unref(session);
	}
}

static void session_pack(const struct repl *repl, struct pack *out, bool is_tail)
{
	const struct session *session = (const struct session *)repl;

	if (!is_tail)
		return;
	pack_text(out, buf_view(&session->changes));
	pack_u32(out, session->own);
}

static void session_unpack(struct repl_file *file, struct unpack *in, bool is_tail)
{
	if (!is_tail)
		return;
	file->changes = unpack_text(in, CHANGES_MAX);
	file->own = file->version == 1 ? 0 : unpack_u32(in);
}

static struct repl *session_restore(struct box *box, const struct repl_file *file, uint32_t number)
{
	struct session_spec spec = {
		.env = file->spec.env,
		.own = file->own,
		.cwd = file->spec.cwd,
		.timeout_ms = file->spec.timeout_ms,
		.output_cap = file->spec.output_cap,
		.cpu_milli = file->spec.cpu_milli,
	};
	auto_err err = session_check_id(file->id);
	struct session *session;

	if (err || file->own > file->env_count)
		return NULL;
	session = session_new(box, file->id, &spec, number);
	buf_str(&session->changes, file->changes);
	return &session->repl;
}

// Whether the shell is idle or runs a command is unknown, so it is sent a command of ours: all that
// it says before the end of that one is ignored, and the answer tells its directory. A shell that
// may have read only half of a command (EXEC_LABEL_HALF, protocol/exec_label.h) would take ours for
// the other half. It is killed; the next command gets a new one.
static fallible session_take_shell(struct session *session, struct adoptee *held)
{
	bool half = held->label.flags & EXEC_LABEL_HALF;
	bool talks = held->talk.held.flags & TALK_EXEC_DIALOGUE;
	uint32_t sender = held->label.sender;
	struct session_run *run;
	struct exec *exec = NULL;
	struct bash *shell = NULL;
	uint64_t mark;

	TRY(adoptee_take(held, session->repl.unit.box, NULL, &exec));
	if (!talks || half) {
		exec_kill(exec);
		exec_unref(exec);
		return OK;
	}
	TRY(bash_adopt(exec, session->repl.unit.tape, sender, &shell));
	repl_attach(&session->repl, shell, REPL_ADOPTED);
	session->turns++;
	run = session_run_new(session, RUN_ASIDE);
	secret_random(&mark, sizeof(mark));
	shell_greet_again(&run->run.words, session->repl.start_cwd, mark);
	// The running command may never end, and its client is gone: the session's time limit
	// applies.
	run->run.timeout_ms = session->repl.timeout_ms;
	repl_run_queue(&run->run);
	session_run_drop(run);
	return OK;
}

static fallible session_adopt(struct adoption *adoption, uint32_t number, struct adoptee *held)
{
	struct tape_label label;
	struct repl *repl;
	struct err *err;

	TRY(repl_adopt_file(adoption, &session_kind, number, &repl));
	if (!repl)
		return OK;
	err = unit_open_tape(adoption->box, SESSION_TAPE, number, &repl->unit.tape, &label);
	if (!repl->unit.tape)
		session_make_tape((struct session *)repl); // no output yet
	return err || !held ? err : session_take_shell((struct session *)repl, held);
}

// Removes tapes without a session.
static fallible session_adopt_rest(struct adoption *adoption)
{
	auto_free uint32_t *tapes = adoption_numbers(adoption, SESSION_TAPE);

	for (const uint32_t *number = tapes; *number; number++) {
		bool is_used = false;

		units_each (at, adoption->box, &session_kind)
			is_used |= unit_of(at, struct unit)->file == *number;
		if (!is_used)
			box_file_remove_later(adoption->box, SESSION_TAPE, *number);
	}
	session_records_adopt(adoption);
	return OK;
}

static const struct repl_kind session_repl = {
	.start_task = "session.start",
	.file_task = "session.state_file",
	.spawn = session_spawn,
	.may_begin = session_may_begin,
	.begin = session_begin,
	.answered = session_on_answered,
	.ended = session_on_ended,
	.lost = session_on_lost,
	.spent = session_on_spent,
	.limit = session_on_limit,
	.free = session_free,
	.deleted = session_err_deleted,
	.magic = "COVECARD",
	.version = 2, // version 1 has no `own` count
	.id_max = SESSION_ID_MAX,
	.pack = session_pack,
	.unpack = session_unpack,
	.restore = session_restore,
};

const struct unit_kind session_kind = {
	.name = "shell",
	.type = UNIT_SESSION,
	.label = EXEC_LABEL_SESSION,
	.letter = 's',
	.tape_letter = SESSION_TAPE,
	.max = SESSION_MAX,
	.needs_file = true,
	.repl = &session_repl,
	.use = repl_use,
	.evict = session_evict,
	.free = repl_free,
	.adopt = session_adopt,
	.adopt_rest = session_adopt_rest,
};
