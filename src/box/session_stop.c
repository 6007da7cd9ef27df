// The end of a command by force. An interactive bash drops its line at SIGINT and goes on, with all
// its state, once what it waits for has ended. So the interrupt goes to the whole group first; what
// the command has started and did not heed it is ended by SIGTERM and then SIGKILL, whatever group
// or session it fled to; and at last, for a shell that is busy itself, come more interrupts. A
// shell that has not come back by then is killed with everything in its leaf, and replaced.
//
// Background jobs of earlier commands ignore the interrupt, as bash starts them, and are older than
// the command: they live on.
#include <signal.h>

#include "base/clock.h"
#include "box/files.h"
#include "box/session_inner.h"

#define INT_MS 150    // until SIGTERM
#define INT_TIMES 3   // in that time
#define TERM_MS 350   // until SIGKILL
#define KILL_MS 500   // until the shell is given up
#define AGAIN_MS 100  // from one SIGKILL to the next
#define BURIED_MS 50  // for what got a SIGTERM after the shell had come back
#define SWEEP_MS 2000 // for one look at all processes
#define GONE_MS 12000 // until a killed shell is reported

// How many were signalled; none if nobody could look.
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
		err = bell_wait(&run->bell, deadline);
	err_free(err);
}

static void session_stop_interrupt(struct session_run *run)
{
	struct bash *shell = run->session->shell;
	int64_t give_up;
	uint32_t left;

	if (!shell || run->told_end)
		return;
	// One that comes between two short children is lost on a shell that waits for the next.
	for (int i = 0; i < INT_TIMES && !run->told_end && run->session->shell == shell; i++) {
		exec_signal(shell->exec, SIGINT);
		session_stop_await_end(run, INT_MS / INT_TIMES);
	}
	left = session_stop_sweep(run, SIGTERM);
	if (left && run->told_end)
		err_free(task_sleep_until(loop_now(run->session->box->loop) + BURIED_MS));
	session_stop_await_end(run, TERM_MS);
	if (left || !run->told_end)
		session_stop_sweep(run, SIGKILL);
	// On a busy host the shell may start the rest of its line after we looked.
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

void run_stop(struct session_run *run, enum ending cause)
{
	if (run->stopping || run->told_end || !run->session->shell)
		return;
	run->stopping = true;
	run->cause = cause;
	loop_drop_timer(run->session->box->loop, &run->timer);
	// The run holds its session, and the session the run, until run_finish().
	task_start(run->session->box->loop, "session.stop", session_stop_task, run);
}
