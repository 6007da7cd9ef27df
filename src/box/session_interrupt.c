// Ends the active command of a session. An interactive bash drops its line at SIGINT and continues
// with all its state once its child has ended. So SIGINT goes to the process group first; processes
// of the command that ignore it get SIGTERM, then SIGKILL, in whatever group or session they are; a
// shell that is busy itself gets more SIGINTs. A shell that does not return is killed with its
// cgroup and replaced.
//
// Background jobs of earlier commands ignore SIGINT, as bash starts them, and are older than the
// command: they live on.
#include <signal.h>

#include "base/clock.h"
#include "box/files.h"
#include "box/session_private.h"

#define INT_MS 150	   // until SIGTERM
#define INT_TIMES 3	   // within INT_MS
#define TERM_MS 350	   // until SIGKILL
#define KILL_MS 500	   // until the shell is killed
#define AGAIN_MS 100	   // from one SIGKILL to the next
#define ENDED_MS 50	   // for processes that got SIGTERM after the shell returned
#define SWEEP_MS 2000	   // for one sweep of all processes
#define GONE_MS 12000	   // for the report of a killed shell
#define FORESEE_MS 10000   // a session whose state was requested is renewed for so long
#define FORESEE_AFTER_MS 1 // after the end of a command

bool session_run_is_over(const struct session_run *run)
{
	return run->run.phase >= RUN_REPORTED;
}

// Ends the active run and begins the next. Then the state of a session that processes are started
// from is renewed, before the next one needs it.
void session_run_finish(struct session_run *run)
{
	struct session *session = session_of(run);
	struct loop *loop = session->repl.unit.loop;

	unit_ref(&session->repl.unit);
	repl_run_settle(&run->run);
	repl_pump(&session->repl);
	if (!session->repl.run && session->asked_at &&
	    loop_now(loop) - session->asked_at < FORESEE_MS)
		loop_set_timer(loop, &session->foresee, loop_now(loop) + FORESEE_AFTER_MS);
	unit_unref(&session->repl.unit);
}

// The shell has reported the end of the run, or cannot any more.
void session_run_report(struct session_run *run)
{
	if (run->run.phase == RUN_ACTIVE) {
		session_run_finish(run);
		return;
	}
	run->run.phase = RUN_REPORTED; // the task that stops it ends it
	condition_signal(&run->run.condition);
}

// Returns how many were signalled; 0 if the sweep failed.
static uint32_t session_stop_sweep(const struct session_run *run, int signal)
{
	struct repl *repl = run->run.repl;
	struct files files = {
		.box = repl->unit.box,
		.user = "",
		.deadline = loop_now(repl->unit.loop) + SWEEP_MS,
	};
	uint32_t count = 0;

	if (!repl->shell)
		return 0;
	err_free(files_sweep(&files, exec_pid(repl->shell->exec), run->begun_boot_ms, signal,
			     &count));
	return count;
}

static void session_stop_await_end(struct session_run *run, int64_t ms)
{
	int64_t deadline = loop_now(run->run.repl->unit.loop) + ms;
	struct err *err = OK;

	while (!err && !session_run_is_over(run))
		err = condition_wait(&run->run.condition, deadline);
	err_free(err);
}

static void session_stop_interrupt(struct session_run *run)
{
	struct repl *repl = run->run.repl;
	struct loop *loop = repl->unit.loop;
	struct bash *shell = repl->shell;
	int64_t give_up;
	uint32_t left;

	if (!shell || session_run_is_over(run))
		return;
	// A SIGINT between two short children is lost on a shell that waits for the next.
	for (int i = 0; i < INT_TIMES && !session_run_is_over(run) && repl->shell == shell; i++) {
		exec_signal(shell->exec, SIGINT);
		session_stop_await_end(run, INT_MS / INT_TIMES);
	}
	left = session_stop_sweep(run, SIGTERM);
	if (left && session_run_is_over(run))
		err_free(task_sleep_until(loop_now(loop) + ENDED_MS));
	session_stop_await_end(run, TERM_MS);
	if (left || !session_run_is_over(run))
		session_stop_sweep(run, SIGKILL);
	// On a busy host the shell may start the rest of its line after the sweep.
	give_up = loop_now(loop) + KILL_MS;
	while (!session_run_is_over(run) && repl->shell == shell) {
		exec_signal_alone(shell->exec, SIGINT);
		session_stop_await_end(run, AGAIN_MS);
		if (session_run_is_over(run) || loop_now(loop) >= give_up)
			break;
		session_stop_sweep(run, SIGKILL);
	}
}

static void session_stop_task(void *arg)
{
	struct session_run *run = arg;

	task_shield(true);
	session_stop_interrupt(run);
	if (!session_run_is_over(run) && run->run.repl->shell) {
		bash_kill_wait(run->run.repl->shell);
		session_stop_await_end(run, GONE_MS);
	}
	run->result.ending = run->cause;
	if (run->result.end != SESSION_DESTROYED)
		run->result.end = run->cause == ENDING_WALL_LIMIT ? SESSION_TIMED_OUT
								  : SESSION_DONE;
	session_run_finish(run);
}

void session_stop(struct session_run *run, enum ending cause)
{
	struct repl *repl = run->run.repl;

	if (run->run.phase != RUN_ACTIVE || !repl->shell)
		return;
	run->run.phase = RUN_STOPPING;
	run->cause = cause;
	loop_drop_timer(repl->unit.loop, &run->run.timer);
	// The run and its session hold each other until session_run_finish().
	task_start(repl->unit.loop, "session.stop", session_stop_task, run);
}
