// The queue of a session. One run is active; the others wait in order of arrival; a run that no
// caller holds when its turn comes is skipped. Everything happens in callbacks of the shell and of
// timers, so that a command runs to its end even if its client has gone. Only the start of a shell
// and the forced end of a command are tasks.
//
// A shell that ends takes the active run with it, but not the queue: the next run gets a new shell.
//
// syscalls: clock_gettime
#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/exec_cgroup.h"
#include "box/exec_message.h"
#include "box/files.h"
#include "box/procs.h"
#include "box/session_private.h"

#define WORDS_MAX (16 << 20) // 1 MiB of quotes, escaped, and the lines around it
#define INT_MS 150	     // until SIGTERM
#define INT_TIMES 3	     // within INT_MS
#define TERM_MS 350	     // until SIGKILL
#define KILL_MS 500	     // until the shell is killed
#define AGAIN_MS 100	     // from one SIGKILL to the next
#define ENDED_MS 50	     // for processes that got SIGTERM after the shell returned
#define SWEEP_MS 2000	     // for one sweep of all processes
#define GONE_MS 12000	     // for the report of a killed shell
#define FORESEE_MS 10000     // a session whose state was requested is renewed for so long
#define FORESEE_AFTER_MS 1   // after the end of a command

static const char *const shell_argv[] = {"bash", "--norc", "--noediting", "-i", NULL};

static uint64_t box_session_run_boot_ms(void)
{
	struct timespec at;

	clock_gettime(CLOCK_BOOTTIME, &at);
	return (uint64_t)at.tv_sec * 1000 + (uint64_t)at.tv_nsec / 1000000;
}

static fallible copy_err(const struct err *err)
{
	return err_from(err_kind(err), err_reason(err), err_message(err), err_hint_of(err));
}

static void run_let_go(struct session_run *run)
{
	if (--run->refs > 0)
		return;
	buf_done(&run->words);
	tape_unref(run->tape);
	err_free(run->failure);
	session_unref(run->session);
	free(run);
}

static void run_finish(struct session_run *run);

// Forced end of a command. An interactive bash drops its line at SIGINT and continues with all its
// state once its child has ended. So SIGINT goes to the process group first; processes of the
// command that ignore it get SIGTERM, then SIGKILL, in whatever group or session they are; a shell
// that is busy itself gets more SIGINTs. A shell that does not return is killed with its cgroup and
// replaced.
//
// Background jobs of earlier commands ignore SIGINT, as bash starts them, and are older than the
// command: they live on.
//
// Returns how many were signalled; 0 if the sweep failed.
static uint32_t session_stop_sweep(const struct session_run *run, int signal)
{
	struct session *session = run->session;
	struct files files = {
		.box = session->box,
		.user = "",
		.deadline = loop_now(session->box->loop) + SWEEP_MS,
	};
	uint32_t count = 0;

	if (!session->shell)
		return 0;
	err_free(files_sweep(&files, exec_pid(session->shell->exec), run->begun_boot_ms, signal,
			     &count));
	return count;
}

static void session_stop_await_end(struct session_run *run, int64_t ms)
{
	int64_t deadline = loop_now(run->session->box->loop) + ms;
	struct err *err = OK;

	while (!err && !run->told_end)
		err = condition_wait(&run->condition, deadline);
	err_free(err);
}

static void session_stop_interrupt(struct session_run *run)
{
	struct bash *shell = run->session->shell;
	int64_t give_up;
	uint32_t left;

	if (!shell || run->told_end)
		return;
	// A SIGINT between two short children is lost on a shell that waits for the next.
	for (int i = 0; i < INT_TIMES && !run->told_end && run->session->shell == shell; i++) {
		exec_signal(shell->exec, SIGINT);
		session_stop_await_end(run, INT_MS / INT_TIMES);
	}
	left = session_stop_sweep(run, SIGTERM);
	if (left && run->told_end)
		err_free(task_sleep_until(loop_now(run->session->box->loop) + ENDED_MS));
	session_stop_await_end(run, TERM_MS);
	if (left || !run->told_end)
		session_stop_sweep(run, SIGKILL);
	// On a busy host the shell may start the rest of its line after the sweep.
	give_up = loop_now(run->session->box->loop) + KILL_MS;
	while (!run->told_end && run->session->shell == shell) {
		exec_signal_alone(shell->exec, SIGINT);
		session_stop_await_end(run, AGAIN_MS);
		if (run->told_end || loop_now(run->session->box->loop) >= give_up)
			break;
		session_stop_sweep(run, SIGKILL);
	}
}

static void session_stop_task(void *arg)
{
	struct session_run *run = arg;

	task_shield(true);
	session_stop_interrupt(run);
	if (!run->told_end && run->session->shell) {
		bash_kill_wait(run->session->shell);
		session_stop_await_end(run, GONE_MS);
	}
	run->result.ending = run->cause;
	if (run->result.end != SESSION_DESTROYED)
		run->result.end = run->cause == ENDING_WALL_LIMIT ? SESSION_TIMED_OUT
								  : SESSION_DONE;
	run_finish(run);
}

static void run_stop(struct session_run *run, enum ending cause)
{
	if (run->stopping || run->told_end || !run->session->shell)
		return;
	run->stopping = true;
	run->cause = cause;
	loop_drop_timer(run->session->box->loop, &run->timer);
	// The run and its session hold each other until run_finish().
	task_start(run->session->box->loop, "session.stop", session_stop_task, run);
}

static void on_limit(struct timer *timer)
{
	run_stop(link_of(timer, struct session_run, timer), ENDING_WALL_LIMIT);
}

struct session_run *run_new(struct session *session, enum run_kind kind)
{
	struct session_run *run = mem_new_of(struct session_run);
	uint64_t cap = session->output_cap;

	session_ref(session);
	run->session = session;
	run->refs = 1;
	run->held = true;
	run->kind = kind;
	run->timer.due = on_limit;
	run->words = BUF_INIT(WORDS_MAX);
	condition_init(&run->condition);
	if (kind >= RUN_LOCK)
		return run;
	// The state must be complete.
	if (kind == RUN_ASIDE && cap < 2 * SESSION_PRELUDE_MAX)
		cap = 2 * SESSION_PRELUDE_MAX;
	run->tape = tape_new(session->box->loop, session->box->tapes_dir, cap);
	tape_bound(run->tape, box_tape_budget(session->box));
	return run;
}

void run_queue(struct session_run *run)
{
	struct session *session = run->session;

	run->refs++;
	session->waiting++;
	link_add(&session->queue, &run->link);
	session_pump(session);
}

// Ends a queued or running run and wakes its waiters.
static void settle_run(struct session_run *run)
{
	loop_drop_timer(run->session->box->loop, &run->timer);
	run->done = true;
	if (run->tape)
		tape_end(run->tape);
	condition_signal(&run->condition);
	run_let_go(run);
}

static void unqueue(struct session_run *run)
{
	link_drop(&run->link);
	run->session->waiting--;
}

// Kills the shell with its background jobs and waits until it is gone.
static void delete_task(void *arg)
{
	struct session_run *run = arg;

	task_shield(true);
	if (run->session->shell)
		bash_kill_wait(run->session->shell);
	while (run->session->shell && !run->told_end)
		err_free(condition_wait(&run->condition,
					CLOCK_NEVER)); // shielded: cannot be cancelled
	run_finish(run);
}

static void begin_delete(struct session *session, struct session_run *run)
{
	session_unlist(session);
	session->run = run;
	session_fail_all(session, NULL);
	procs_end_session(session->box, str_of(session->id));
	if (session->shell) {
		run->stopping = true;
		task_start(session->box->loop, "session.delete", delete_task, run);
	} else {
		run_finish(run);
	}
}

static void box_session_run_begin(struct session *session, struct session_run *run)
{
	struct bash *shell = session->shell;
	const char *back = run->has_cwd ? session->cwd : NULL;

	session->run = run;
	if (session->changes.len) {
		struct buf words = BUF_INIT(WORDS_MAX);

		shell_say_changes(&words, buf_view(&session->changes));
		buf_str(&words, buf_view(&run->words));
		buf_done(&run->words);
		run->words = words;
		buf_clear(&session->changes);
		state_file_touch(session);
		session->turns++;
	}
	if (run->kind == RUN_COMMAND) {
		session->fresh = false;
		session->turns++;
	}
	run->turn = session->turns;
	run->job = session->job;
	run->begun_us = clock_us();
	run->begun_boot_ms = box_session_run_boot_ms();
	run->oom_kills = box_oom_kills(session->box);
	if (run->timeout_ms)
		loop_set_timer(session->box->loop, &run->timer,
			       loop_now(session->box->loop) + (int64_t)run->timeout_ms);
	if (run->cpu_ms)
		bash_limit_cpu(shell, run->cpu_ms * 1000);
	bash_tell(shell, &run->words, run->kind == RUN_ASIDE, back, run->tape);
}

static void box_session_run_take_result(struct session_run *run)
{
	struct session_result *result = &run->result;

	result->duration_ms = (clock_us() - run->begun_us) / 1000;
	result->timeout_ms = run->timeout_ms;
	result->stdout_truncated = tape_truncated(run->tape, TAPE_STDOUT);
	result->stderr_truncated = tape_truncated(run->tape, TAPE_STDERR);
	result->has_jobs = run->session->job != run->job;
}

// After a command: renews the state of a session that processes are started from, before the next
// one needs it.
static void run_foresee(struct session *session)
{
	struct loop *loop = session->box->loop;

	if (session->asked_at && loop_now(loop) - session->asked_at < FORESEE_MS)
		loop_set_timer(loop, &session->foresee, loop_now(loop) + FORESEE_AFTER_MS);
}

static void run_finish(struct session_run *run)
{
	struct session *session = run->session;

	session_ref(session);
	session->run = NULL;
	settle_run(run);
	session_pump(session);
	if (!session->run)
		run_foresee(session);
	session_unref(session);
}

// The shell is idle again, and the output of the run is on its tape.
static void box_session_run_on_ended(struct bash *shell)
{
	struct session *session = shell->owner;
	struct session_run *run = session->run;
	bool oom;

	session->job = shell->job;
	if (shell->cwd && strcmp(shell->cwd, session->cwd) != 0) {
		free(session->cwd);
		session->cwd = mem_str(shell->cwd);
	}
	if (!session->ready) {
		session->ready = session->fresh = true;
		condition_signal(&session->changed);
		session_pump(session);
		return;
	}
	if (run->cpu_ms)
		bash_limit_cpu(shell, 0);
	box_session_run_take_result(run);
	oom = shell->status == 128 + SIGKILL && box_oom_kills(session->box) > run->oom_kills;
	run->result.end = SESSION_DONE;
	run->result.exit_code = shell->status;
	run->result.ending = oom ? ENDING_OOM : ENDING_EXITED;
	run->told_end = true;
	if (run->stopping)
		condition_signal(&run->condition);
	else
		run_finish(run);
}

static void on_closed(struct bash *shell)
{
	struct orphan *orphan = shell->owner;

	link_drop(&orphan->link);
	orphan->session->orphan_count--;
	bash_drop(shell);
	free(orphan);
}

// Background jobs hold the pipes of the ended shell: their output is still read.
static void detach(struct session *session, struct bash *shell)
{
	struct orphan *orphan;

	if (pipes_ended(&shell->pipes)) {
		bash_drop(shell);
		return;
	}
	if (session->orphan_count == SESSION_ORPHANS_MAX)
		on_closed(link_of(session->orphans.next, struct orphan, link)->shell);
	orphan = mem_new_of(struct orphan);
	*orphan = (struct orphan){.session = session, .shell = shell};
	shell->owner = orphan;
	shell->closed = on_closed;
	link_add(&session->orphans, &orphan->link);
	session->orphan_count++;
}

static void end_with_shell(struct session_run *run, const struct exec_result *result)
{
	struct session *session = run->session;

	if (run->kind == RUN_DELETE) {
		run->told_end = true;
		condition_signal(&run->condition);
		return;
	}
	box_session_run_take_result(run);
	run->result.end = session->listed ? SESSION_TERMINATED : SESSION_DESTROYED;
	run->result.exit_code = result->exit_code;
	run->result.ending = result->ending;
	run->result.restarted = run->stopping;
	run->result.has_jobs = true; // unknown: the shell could not report them
	if (!box_is_alive(session->box)) {
		err_free(run->failure);
		run->failure = exec_message_box_lost();
	}
	run->told_end = true;
	if (run->stopping)
		condition_signal(&run->condition);
	else
		run_finish(run);
}

static void box_session_run_on_lost(struct bash *shell)
{
	struct session *session = shell->owner;
	struct session_run *run = session->run;
	struct exec_result result = shell->exec->result;

	session_ref(session);
	session->shell = NULL;
	session->turns++;
	session->job = 0;
	if (!session->ready)
		session_not_started(session, err_new(EXHAUSTED, "no_shell",
						     "the shell of the session ended at once"));
	session->ready = false;
	if (session->listed && box_is_alive(session->box))
		detach(session, shell);
	else
		bash_drop(shell);
	if (run && run->kind != RUN_LOCK)
		end_with_shell(run, &result);
	else
		session_pump(session);
	session_unref(session);
}

static void on_spent(struct bash *shell)
{
	struct session *session = shell->owner;

	if (session->run && session->run->kind == RUN_COMMAND)
		run_stop(session->run, ENDING_CPU_LIMIT);
}

void session_attach(struct session *session, struct bash *shell)
{
	shell->owner = session;
	shell->ended = box_session_run_on_ended;
	shell->lost = box_session_run_on_lost;
	shell->spent = on_spent;
	session->shell = shell;
	session->ready = false;
}

void session_not_started(struct session *session, struct err *err)
{
	err_free(session->failure);
	session->failure = err;
	session_fail_all(session, err);
	condition_signal(&session->changed);
}

static fallible box_session_run_explain(struct err *err)
{
	if (!err || strcmp(err_reason(err), "command_not_found") != 0)
		return err;
	return err_hint(err_recast(err, ERR_NOT_OFFERED, "no_bash",
				   "the sandbox has no bash, which sessions need"),
			"install bash in the template, or send \"" SESSION_NONE "\" as sessionId");
}

static void box_session_run_start_task(void *arg)
{
	struct session *session = arg;
	char **env = session_copy_env(
		(const char *const *)session->env); // session->env may change while we wait
	struct exec_label label = {
		.kind = EXEC_LABEL_SESSION,
		.file = session->state_file,
		.id = str_of(session->id),
	};
	struct exec_spec spec = {
		.label = &label,
		.argv = shell_argv,
		.env = (const char *const *)env,
		.cwd = "/",
		.user = "",
		.dialogue = true,
		.output_cap = 0,
		.cpu_milli = session->cpu_milli,
	};
	struct exec *exec = NULL;
	struct bash *shell = NULL;
	struct err *err;

	task_shield(true);
	state_file_write(session);
	err = box_session_run_explain(exec_start(session->box, &spec, &exec));
	mem_free_list(env);
	if (!err)
		err = bash_open(exec, session->tape, session->start_cwd, &shell);
	session->starting = false;
	if (shell)
		session_attach(session, shell);
	if (err)
		session_not_started(session, err);
	else if (!session->listed)
		bash_kill(shell);
	session_unref(session);
}

void session_start(struct session *session)
{
	if (session->shell || session->starting)
		return; // already starting
	session->starting = true;
	err_free(take_ptr(session->failure));
	session_ref(session);
	task_start(session->box->loop, "session.start", box_session_run_start_task, session);
}

// A delete and a lock need no shell; all else needs one that is up.
void session_pump(struct session *session)
{
	while (!session->run && !link_empty(&session->queue)) {
		struct session_run *run = link_of(session->queue.next, struct session_run, link);

		if (!run->held && run->kind != RUN_DELETE) {
			unqueue(run);
			settle_run(run);
			continue;
		}
		if (run->kind == RUN_DELETE && !session->starting &&
		    (!session->shell || session->ready)) {
			unqueue(run);
			begin_delete(session, run);
			return;
		}
		if (run->kind == RUN_LOCK) {
			unqueue(run);
			session->run = run;
			condition_signal(&run->condition);
			return;
		}
		if (session->shell && session->shell->done)
			return; // it is ending
		if (session->shell && session->ready) {
			unqueue(run);
			box_session_run_begin(session, run);
			return;
		}
		session_start(session);
		return;
	}
}

void session_fail_all(struct session *session, const struct err *err)
{
	while (!link_empty(&session->queue)) {
		struct session_run *run = link_of(session->queue.next, struct session_run, link);

		unqueue(run);
		run->result.end = SESSION_DESTROYED;
		if (err && run->kind != RUN_DELETE)
			run->failure = copy_err(err);
		settle_run(run);
	}
}

void session_abandon(struct session *session, const struct err *err)
{
	struct session_run *run = session->run;

	session_fail_all(session, err);
	bash_drop(take_ptr(session->shell));
	if (!run)
		return;
	err_free(run->failure);
	run->failure = copy_err(err);
	run->told_end = true;
	if (run->stopping)
		condition_signal(&run->condition);
	else
		run_finish(run);
}

static fallible box_session_run_ask_room(const struct session *session)
{
	if (!session->listed)
		return err_new(GONE, "session_destroyed", "Session '%s' was deleted", session->id);
	if (session->waiting >= SESSION_WAITING_MAX)
		return err_hint(err_new(EXHAUSTED, "session_busy",
					"too many commands wait for session '%s'", session->id),
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

	TRY(box_session_run_ask_room(session));
	run = run_new(session, RUN_COMMAND);
	shell_say(&run->words, &command);
	if (!buf_ok(&run->words) || run->words.len + 4 * SHELL_END_MAX > WORDS_MAX) {
		session_run_drop(run);
		return err_new(TOO_LARGE, "command_too_large", "the command is too large");
	}
	run->has_cwd = job->cwd != NULL;
	run->timeout_ms = job->timeout_ms ? job->timeout_ms : session->timeout_ms;
	run->cpu_ms = job->cpu_ms;
	run_queue(run);
	*out = run;
	return OK;
}

fallible run_await(struct session_run *run, int64_t deadline)
{
	while (!run->done)
		TRY(condition_wait(&run->condition, deadline), "wait for a command of a session");
	return run->failure ? copy_err(run->failure) : OK;
}

fallible session_run_wait(struct session_run *run, int64_t deadline, struct session_result *out)
{
	TRY(run_await(run, deadline));
	*out = run->result;
	return OK;
}

struct tape *session_run_tape(struct session_run *run)
{
	return run->tape;
}

void session_run_drop(struct session_run *run)
{
	run->held = false;
	run_let_go(run);
}

bool session_is_free(const struct session *session)
{
	return !session->run && link_empty(&session->queue);
}

fallible session_lock(struct session *session, struct session_run **out)
{
	struct session_run *run;
	struct err *err = OK;

	TRY(box_session_run_ask_room(session));
	run = run_new(session, RUN_LOCK);
	run_queue(run);
	while (!err && !run->done && session->run != run)
		err = condition_wait(&run->condition, CLOCK_NEVER);
	if (!err && run->done)
		err = run->failure ? copy_err(run->failure)
				   : err_new(GONE, "session_destroyed", "Session '%s' was deleted",
					     session->id);
	if (err) {
		session_unlock(run);
		return err;
	}
	*out = run;
	return OK;
}

void session_unlock(struct session_run *lock)
{
	if (lock->session->run == lock)
		run_finish(lock);
	session_run_drop(lock);
}

void run_break_lock(struct session *session)
{
	if (session->run && session->run->kind == RUN_LOCK)
		run_finish(session->run);
}
