// Ends a whole process tree, with SIGTERM first. Processes may have left the process group and
// session of the command, so the tree is all that lives in its cgroup; a file worker finds it in
// the box's /proc. The first process is signalled last, so that it can still forward the signal.
//
// If processes are left when the first one has ended, the cgroup stays taken until they have ended
// or are killed. Those forked during the sweep are signalled in a second one.
//
// syscalls: clock_gettime
#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "box/exec_cgroup.h"
#include "box/exec_message.h"
#include "box/exec_private.h"
#include "box/files.h"

#define SWEEP_MS 2000 // a box may be too full to fork a file worker
#define STEP_MIN_MS 4 // between looks for processes that are left
#define STEP_MAX_MS 100

static uint64_t exec_boot_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static fallible exec_sweep(struct box *box, uint32_t exec_cgroup, int spared, uint64_t since_ms,
			   int signal, uint32_t *out_count)
{
	struct files files = {
		.box = box,
		.user = "",
		.deadline = loop_now(box->loop) + SWEEP_MS,
	};

	if (!box_is_alive(box))
		return exec_message_box_lost();
	return files_sweep_cgroup(&files, exec_cgroup, spared, since_ms, signal, out_count);
}

fallible exec_signal_tree(struct exec *exec, int signal)
{
	uint32_t count = 0;
	struct err *err;

	if (!exec_runs(exec) || !exec->exec_cgroup)
		return OK;
	err = exec_sweep(exec->box, exec->exec_cgroup->number, exec->pid, 0, signal, &count);
	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	if (err)
		exec_signal(exec, signal); // without a file worker: the process group only
	else
		exec_signal_alone(exec, signal);
	err_free(err);
	return OK;
}

// Ends the processes that are left in the cgroup after the first process has ended.
static void exec_stop_rest(struct exec *exec, uint64_t asked_ms, int64_t deadline)
{
	struct box_cgroup *exec_cgroup = take_ptr(exec->remains);
	struct loop *loop = exec->box->loop;
	int64_t step = STEP_MIN_MS;
	uint32_t left = 1;

	if (loop_now(loop) < deadline)
		err_free(exec_sweep(exec->box, exec_cgroup->number, 0, asked_ms, SIGTERM, &left));
	left = 1;
	while (left && loop_now(loop) < deadline) {
		auto_err err = exec_sweep(exec->box, exec_cgroup->number, 0, 0, 0, &left);

		if (err)
			break;
		if (left)
			err_free(task_sleep_until(loop_now(loop) + step));
		step = step * 2 < STEP_MAX_MS ? step * 2 : STEP_MAX_MS;
	}
	if (!left) {
		box_exec_cgroup_give(exec_cgroup, false);
		return;
	}
	exec_cgroup->taken = false;
	box_exec_cgroup_kill_wait(exec_cgroup);
}

fallible exec_stop(struct exec *exec, int64_t grace_ms, bool *out_forced)
{
	int64_t deadline = loop_now(exec->box->loop) + grace_ms;
	uint64_t asked_ms = exec_boot_ms();
	struct exec_result result;
	auto_err err = OK;

	*out_forced = grace_ms == 0;
	exec_ref(exec);
	exec_stop_by_api(exec);
	if (grace_ms) {
		err_free(exec_signal_tree(exec, SIGTERM));
		err = exec_wait(exec, deadline, &result);
	}
	if (err || !grace_ms) {
		*out_forced = true;
		exec_kill_wait(exec);
		err_free(exec_wait(exec, CLOCK_NEVER, &result));
	}
	if (exec->remains)
		exec_stop_rest(exec, asked_ms, deadline);
	exec_let_go(exec);
	return OK;
}
