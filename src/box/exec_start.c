// Starts a command: takes an exec cgroup, sends EXEC, waits for the answer of pid 1. A doubtful
// cgroup may be refused as busy; then another is tried, until START_MS are over.
//
// The cgroup does not belong to the exec before pid 1 has answered: a CPU limit that fires until
// then is meant for the processes left in it.
//
// syscalls: clock_gettime
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/exec_cgroup.h"
#include "box/exec_message.h"
#include "box/exec_private.h"
#include "os/fd.h"

#define START_MS 10000 // from EXEC to its answer; also for all tries together

// Sends EXEC, with the fds of a cgroup that is new to pid 1. Waits while the socket is full.
static fallible send_exec(struct exec *exec, const struct exec_spec *spec, int64_t deadline)
{
	struct box_cgroup *exec_cgroup = exec->exec_cgroup;
	auto_free char *words = NULL;
	size_t len = 0;
	int joins = (exec_cgroup->join[0] >= 0) + (exec_cgroup->join[1] >= 0);
	uint32_t flags = exec->flags | (exec_cgroup->doubtful ? TALK_EXEC_IF_EMPTY : 0u);

	TRY(exec_message_encode(spec, flags, exec->conn, exec_cgroup->number,
				exec_make_label(exec, spec), &words, &len));
	while (exec->phase == EXEC_ASKED) {
		switch (channel_send(&exec->box->channel, words, len, exec_cgroup->join, joins)) {
		case CHANNEL_SENT:
			fd_drop(&exec_cgroup->join[0]);
			fd_drop(&exec_cgroup->join[1]);
			return OK;
		case CHANNEL_FULL:
			TRY(condition_wait(&exec->box->channel.room, deadline), "send to pid 1");
			break;
		case CHANNEL_TOO_LONG:
			return err_new(TOO_LARGE, "command_too_large", "the command is too large");
		case CHANNEL_GONE:
			return exec_message_box_lost();
		}
	}
	return OK; // the box ended meanwhile; see `failure`
}

static fallible await_answer(struct exec *exec, int64_t deadline)
{
	struct err *err = OK;

	while (!err && exec->phase == EXEC_ASKED)
		err = condition_wait(&exec->condition, deadline);
	if (exec->phase != EXEC_ASKED) {
		err_free(err); // the deadline passed, but the answer had come
		return OK;
	}
	exec->abandoned = true;
	exec->input = STR("");
	// A process of the box may have stopped the child while pid 1 waits for its execve. If pid
	// 1 is merely slow, the command is killed once it has started.
	if (err_kind(err) == ERR_TIMEOUT)
		box_exec_cgroup_kill(exec->exec_cgroup);
	return err;
}

// One try with one cgroup.
static fallible exec_start_ask_once(struct exec *exec, const struct exec_spec *spec, int *tries)
{
	struct box *box = exec->box;
	int64_t deadline = loop_now(box->loop) + START_MS;
	struct box_cgroup *exec_cgroup;
	struct err *err;

	TRY(spec->mark ? box_exec_cgroup_mark(box, spec->mark, &exec_cgroup)
		       : box_exec_cgroup_take(box, tries, &exec_cgroup));
	exec->exec_cgroup = exec_cgroup;
	exec->doubted = exec_cgroup->doubtful;
	exec->has_cause = false;
	exec->phase = EXEC_ASKED;
	exec->conn = ++box->last_conn;
	exec->meter_us = exec_cgroup->doubtful || !exec_cgroup->seen_us
				 ? box_exec_cgroup_used_us(exec_cgroup)
				 : exec_cgroup->seen_us;
	exec->oom_kills = box_oom_kills(box);
	exec->begun_us = clock_us();
	exec->result.cpu_ms = 0;
	exec_list(exec);
	err = send_exec(exec, spec, deadline);
	if (err && exec->phase == EXEC_ASKED) {
		exec_fail(exec, &(struct talk){.kind = TALK_FAILED}, !exec_cgroup->doubtful);
		return err;
	}
	err_free(err);
	return await_answer(exec, deadline);
}

static bool was_busy(const struct exec *exec)
{
	return exec->phase == EXEC_FAILED && exec->doubted &&
	       exec->failure.failed.step == TALK_STEP_JOIN &&
	       (exec->failure.failed.errnum == EBUSY || exec->failure.failed.errnum == EPROTO);
}

static bool has_home(const char *const *env)
{
	for (; env && *env; env++)
		if (!strncmp(*env, "HOME=", 5))
			return true;
	return false;
}

fallible exec_start(struct box *box, const struct exec_spec *asked, struct exec **out)
{
	struct exec_spec own = *asked;
	const struct exec_spec *spec = &own;
	struct exec *exec;
	int64_t deadline = loop_now(box->loop) + START_MS;
	struct err *err = OK;
	int tries = 0;

	if (!*own.user && *box->user) {
		own.user = box->user;
		own.add_home = !has_home(own.env);
	}
	if (!box_is_alive(box))
		return exec_message_box_lost();
	if (box->exec_count >= BOX_EXECS_MAX)
		return err_hint(
			err_new(EXHAUSTED, "too_many_execs", "the sandbox runs too many commands"),
			"wait for some of them to end");
	exec = exec_new(box, spec);
	do {
		err = exec_start_ask_once(exec, spec, &tries);
	} while (!err && was_busy(exec) && box_is_alive(box) && loop_now(box->loop) < deadline);
	if (!err && exec->phase == EXEC_FAILED)
		err = box_is_alive(box) ? exec_message_explain(&exec->failure, spec)
					: exec_message_box_lost();
	if (!err && exec->pipeless)
		err = ask_no_files();
	if (err) {
		exec_unref(exec);
		return err_while(err, "start a command in %s", box->id);
	}
	*out = exec;
	return OK;
}
