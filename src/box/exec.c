// An exec is one conversation with pid 1 and one exec cgroup: start, stdio, limits, end, adoption
// by the next daemon. Its states are in exec_private.h, the transitions in a table below.
//
// The recorded cause is the first that acted: a limit, the API, loss of the box; else the wait
// status, or the cgroup's OOM counter after a SIGKILL. A command that is told to end has its cgroup
// killed. If pid 1 does not report the end in time, the result is final without EXITED, which may
// come late.
//
// syscalls: close clock_gettime fstat newfstatat
#include "box/exec.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "box/box.h"
#include "box/exec_cgroup.h"
#include "box/exec_message.h"
#include "box/exec_private.h"
#include "box/pipe.h"
#include "loop/closer.h"
#include "os/fd.h"
#include "types/event.h"

#define START_MS 10000 // from EXEC to its answer; also for all tries together
#define GRACE_MS 5000  // from SIGTERM to SIGKILL
#define GUARD_MS 5000  // from SIGKILL to EXITED; then the result is final without it

// The states from which each state is entered.
#define FROM(state) (1u << EXEC_##state)
static const uint32_t exec_entered_from[EXEC_STATES] = {
	[EXEC_ASKED] = FROM(NEW) | FROM(FAILED),
	[EXEC_ABANDONED] = FROM(ASKED),
	[EXEC_FAILED] = FROM(ASKED) | FROM(ABANDONED),
	[EXEC_RUNNING] = FROM(NEW) | FROM(ASKED) | FROM(ABANDONED), // NEW: adopted
	[EXEC_TERMED] = FROM(RUNNING) | FROM(TERMED),
	[EXEC_KILLED] = FROM(RUNNING) | FROM(TERMED) | FROM(KILLED),
	[EXEC_ENDED] = FROM(RUNNING) | FROM(TERMED) | FROM(KILLED),
	[EXEC_DONE] = FROM(ENDED),
	[EXEC_DRAINING] = FROM(DONE),
	[EXEC_UNFILED] = FROM(DRAINING) | FROM(UNFILED),
	[EXEC_UNSENT] = FROM(DRAINING) | FROM(UNFILED) | FROM(UNSENT) | FROM(UNREPORTED),
	[EXEC_UNREPORTED] = FROM(DRAINING) | FROM(UNFILED) | FROM(UNSENT) | FROM(UNREPORTED),
	[EXEC_FORGOTTEN] = FROM(DRAINING) | FROM(UNFILED) | FROM(UNSENT) | FROM(UNREPORTED),
};
#undef FROM

const char *ending_word(enum ending ending)
{
	static const char *const words[] = {
#define X(name, word) [ENDING_##name] = word,
		ENDINGS(X)
#undef X
	};

	return words[ending];
}

void ending_report(enum ending ending, const char *box)
{
	if (ending != ENDING_OOM && ending != ENDING_CPU_LIMIT && ending != ENDING_WALL_LIMIT)
		return;
	event_publish_security(box, "limit_hit", "low", "limit", ending_word(ending), NULL, NULL);
}

static bool exec_may_enter(const struct exec *exec, enum exec_state state)
{
	return exec_entered_from[state] >> exec->state & 1;
}

// Messages of pid 1 are checked by exec_may_enter() first.
static void exec_enter(struct exec *exec, enum exec_state state)
{
	assert(exec_may_enter(exec, state));
	exec->state = state;
}

static void exec_close_stdio(struct exec *exec)
{
	for (int i = 0; i < 3; i++)
		closer_drop(&exec->stdio[i]);
}

static void exec_free(struct deferred *deferred)
{
	struct exec *exec = link_of(deferred, struct exec, free_later);

	loop_drop_timer(exec->box->loop, &exec->timer);
	pipes_close(&exec->pipes);
	exec_close_stdio(exec);
	tape_unref(exec->tape);
	box_unref(exec->box);
	free(exec->label);
	free(exec);
}

void exec_ref(struct exec *exec)
{
	exec->refs++;
}

// Freed at the end of the loop turn: a callback of its pipes or timer may be on the stack.
void exec_let_go(struct exec *exec)
{
	if (--exec->refs == 0)
		loop_defer(exec->box->loop, &exec->free_later);
}

static void exec_list(struct exec *exec)
{
	exec_ref(exec);
	link_add(&exec->box->execs, &exec->link);
	exec->box->exec_count++;
}

// --------------------------------------------------------------------------------- stdio of pid 1

static bool exec_fd_is_master(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(5, 2);
}

// The type of each fd that pid 1 sends is checked; a wrong one is BAD_PEER.
static fallible exec_take_stdio(struct exec *exec, const int *fds, int count)
{
	bool sound;

	for (int i = 0; i < count; i++)
		exec->stdio[i] = fds[i];
	if (exec->flags & TALK_EXEC_PTY)
		sound = exec_fd_is_master(fds[0]) && (count == 1 || (pipe_fd_is(fds[1], S_IFIFO) &&
								     pipe_fd_is(fds[2], S_IFIFO)));
	else
		sound = pipe_fd_is(fds[0], S_IFIFO) && pipe_fd_is(fds[1], S_IFIFO) &&
			pipe_fd_is(fds[2], S_IFSOCK);
	if (sound)
		return OK;
	exec_close_stdio(exec);
	return err_new(BAD_PEER, "bad_pipe", "pid 1 sent something that is no terminal");
}

// Takes ownership of the fds of STARTED.
static fallible exec_open_stdio(struct exec *exec, const int *fds)
{
	struct str input = {0};

	if (exec->pipeless)
		return err_sys(EMFILE, "take the pipes of a command");
	if (exec->flags & TALK_EXEC_PTY)
		return exec_take_stdio(exec, fds, exec->flags & TALK_EXEC_SPOOL ? 3 : 1);
	if (exec->flags & TALK_EXEC_DIALOGUE) {
		if (!exec->taped || !pipe_fd_is(fds[2], S_IFSOCK))
			return exec_take_stdio(exec, fds, 3); // no socket: closes all three
		exec->stdio[2] = fds[2];
	}
	if (exec->flags & TALK_EXEC_STDIN)
		input = exec->input.at ? exec->input : STR("");
	exec->pipes.at = &exec->box->at;
	exec->pipes.pace = &exec->box->pace;
	exec->pipes.lent = exec->flags & TALK_EXEC_KEEP_IN;
	return pipes_open(&exec->pipes, exec->box->loop, exec->tape, fds, input);
}

int exec_take_master(struct exec *exec)
{
	return exec->flags & TALK_EXEC_PTY ? take_fd(&exec->stdio[0]) : -1;
}

void exec_take_spool(struct exec *exec, int ends[2])
{
	bool has = exec->flags & TALK_EXEC_SPOOL;

	ends[0] = has ? take_fd(&exec->stdio[1]) : -1;
	ends[1] = has ? take_fd(&exec->stdio[2]) : -1;
}

struct exec_dialogue exec_take_dialogue(struct exec *exec)
{
	if (!(exec->flags & TALK_EXEC_DIALOGUE))
		return (struct exec_dialogue){-1, -1, -1};
	return (struct exec_dialogue){take_fd(&exec->stdio[0]), take_fd(&exec->stdio[1]),
				      take_fd(&exec->stdio[2])};
}

fallible exec_write(struct exec *exec, const void *bytes, size_t len, int64_t deadline)
{
	struct err *err;

	if (!exec_runs(exec))
		return err_new(CONFLICT, "stdin_closed", "the command has ended");
	exec_ref(exec);
	err = pipes_write(&exec->pipes, bytes, len, deadline);
	exec_let_go(exec);
	return err;
}

fallible exec_await_input(struct exec *exec, size_t len, int64_t deadline)
{
	struct err *err;

	if (!exec_runs(exec))
		return OK;
	exec_ref(exec);
	err = pipes_await_input(&exec->pipes, len, deadline);
	exec_let_go(exec);
	return err;
}

// -------------------------------------------------------------------------------------- the end

// Sends FORGET and closes the pipes. The exec leaves its box once pid 1 has nothing more to say.
static void exec_forget(struct exec *exec)
{
	struct talk talk = {.kind = TALK_FORGET, .conn = exec->conn};

	if (exec->kept && exec->box->channel.open) {
		exec_enter(exec, EXEC_UNFILED);
		return;
	}
	pipes_close(&exec->pipes);
	if (exec->report != REPORT_OVER &&
	    channel_say(&exec->box->channel, &talk) == CHANNEL_FULL) {
		exec_enter(exec, EXEC_UNSENT);
		return;
	}
	if (exec->report == REPORT_LATE && exec->box->channel.open) {
		exec_enter(exec, EXEC_UNREPORTED);
		return;
	}
	exec_enter(exec, EXEC_FORGOTTEN);
	link_drop(&exec->link);
	exec->box->draining_count--;
	exec_let_go(exec);
}

void exec_filed(struct exec *exec)
{
	exec->kept = false;
	if (exec->state == EXEC_UNFILED)
		exec_forget(exec);
}

void exec_pay(struct box *box)
{
	list_each (at, &box->execs)
		exec_send_owed(link_of(at, struct exec, link));
	list_each (at, &box->draining) {
		struct exec *exec = link_of(at, struct exec, link);

		if (exec->state == EXEC_UNSENT)
			exec_forget(exec);
	}
}

// Too many execs drain: drop the oldest that pid 1 has reported. Unreported ones must stay, since
// their EXITED may come; a pid 1 that owes too many of them is not merely slow.
static void exec_make_room(struct box *box)
{
	struct exec *oldest = NULL;
	uint32_t unreported = 0;

	if (box->draining_count <= BOX_DRAINING_MAX)
		return;
	list_each (at, &box->draining) {
		struct exec *exec = link_of(at, struct exec, link);

		unreported += exec->report == REPORT_LATE;
		if (!oldest && exec->state == EXEC_DRAINING && exec->report != REPORT_LATE &&
		    !exec->kept)
			oldest = exec;
	}
	if (oldest)
		exec_forget(oldest);
	else if (unreported > BOX_DRAINING_MAX)
		box_break(box, "pid 1 reports no exits");
}

static void exec_drain(struct exec *exec)
{
	struct box *box = exec->box;

	exec_enter(exec, EXEC_DRAINING);
	link_drop(&exec->link);
	link_add(&box->draining, &exec->link);
	box->exec_count--;
	box->draining_count++;
	exec_make_room(box);
	if (exec->state == EXEC_DRAINING && (pipes_ended(&exec->pipes) || !box_is_alive(box)))
		exec_forget(exec);
}

static void exec_set_cause(struct exec *exec, enum ending cause)
{
	if (exec->cause == ENDING_EXITED && exec->state < EXEC_ENDED)
		exec->cause = cause;
}

static void exec_release_cgroup(struct exec *exec, bool empty)
{
	struct box_cgroup *exec_cgroup = take_ptr(exec->exec_cgroup);
	uint64_t used;

	if (!exec_cgroup)
		return;
	used = exec_cgroup->seen_us = box_exec_cgroup_used_us(exec_cgroup);
	if (used > exec->meter_us)
		exec->result.cpu_ms = (used - exec->meter_us) / 1000;
	if (exec->stopping && !empty) {
		exec_cgroup->exec = NULL;
		exec->remains = exec_cgroup;
		return;
	}
	box_exec_cgroup_give(exec_cgroup, empty);
}

// No reader is left: further bytes from the pipes are dropped.
static void exec_drop_tape(struct exec *exec)
{
	tape_unref(take_ptr(exec->tape));
	exec->pipes.tape = NULL;
}

static void exec_finish(struct exec *exec)
{
	struct exec_result *result = &exec->result;
	int status = exec->status;

	exec_enter(exec, EXEC_DONE);
	result->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	result->exit_code = result->signal ? 128 + result->signal : WEXITSTATUS(status);
	result->ending = result->signal ? ENDING_SIGNALED : ENDING_EXITED;
	if (exec->cause != ENDING_EXITED)
		result->ending = exec->cause;
	if (result->ending == ENDING_WALL_LIMIT)
		result->exit_code = 124;
	metric_add(METRIC_EXECS, ending_word(result->ending), NULL, 1);
	if (result->ending == ENDING_OOM)
		metric_add(METRIC_BOX_OOM, NULL, NULL, 1);
	result->stdout_truncated = tape_truncated(exec->tape, TAPE_STDOUT);
	result->stderr_truncated = tape_truncated(exec->tape, TAPE_STDERR);
	tape_end(exec->tape);
	condition_signal(&exec->condition);
	if (exec->on_end)
		exec->on_end(exec->on_end_arg);
	if (!exec->held)
		exec_drop_tape(exec);
	exec_drain(exec);
}

static void exec_on_moved(struct pipes *pipes)
{
	struct exec *exec = link_of(pipes, struct exec, pipes);

	exec_ref(exec);
	if (exec->state == EXEC_ENDED && pipes_settled(pipes))
		exec_finish(exec);
	else if (exec->state == EXEC_DRAINING && pipes_ended(pipes))
		exec_forget(exec);
	exec_let_go(exec);
}

static void exec_on_hold(struct pipes *pipes)
{
	exec_ref(link_of(pipes, struct exec, pipes));
}

static void exec_on_drop(struct pipes *pipes)
{
	exec_let_go(link_of(pipes, struct exec, pipes));
}

static void exec_end(struct exec *exec, int status, bool cgroup_empty)
{
	exec_enter(exec, EXEC_ENDED);
	exec->status = status;
	exec->result.duration_ms = (clock_us() - exec->begun_us) / 1000;
	loop_drop_timer(exec->box->loop, &exec->timer);
	exec_release_cgroup(exec, cgroup_empty);
	if (pipes_settle(&exec->pipes))
		exec_finish(exec);
}

// Start failed: the exec leaves its box.
static void exec_fail(struct exec *exec, const struct talk *why, bool cgroup_empty)
{
	exec_enter(exec, EXEC_FAILED);
	exec->failure = *why;
	loop_drop_timer(exec->box->loop, &exec->timer);
	exec_release_cgroup(exec, cgroup_empty);
	condition_signal(&exec->condition);
	link_drop(&exec->link);
	exec->box->exec_count--;
	exec_let_go(exec);
}

void exec_end_all(struct box *box)
{
	list_each (at, &box->draining)
		exec_forget(link_of(at, struct exec, link));
	list_each (at, &box->execs) {
		struct exec *exec = link_of(at, struct exec, link);

		exec_ref(exec);
		if (exec_may_enter(exec, EXEC_FAILED)) {
			exec_fail(exec, &(struct talk){.kind = TALK_FAILED}, false);
		} else if (exec_may_enter(exec, EXEC_ENDED)) {
			exec_set_cause(exec,
				       box->stopping ? ENDING_KILLED_BY_API : ENDING_BOX_LOST);
			exec_end(exec, SIGKILL, false);
		}
		exec_let_go(exec);
	}
}

// ------------------------------------------------------------------------------------- the kill

static void exec_set_timer(struct exec *exec, int64_t ms)
{
	loop_set_timer(exec->box->loop, &exec->timer, loop_now(exec->box->loop) + ms);
}

static void exec_cgroup_killed(struct exec *exec)
{
	if (exec->state == EXEC_KILLED)
		exec_set_timer(exec, GUARD_MS);
}

// The guard timer starts when the cgroup has been killed: without a warden no kill has happened
// yet.
static void exec_await_kill(struct exec *exec)
{
	exec_enter(exec, EXEC_KILLED);
	loop_drop_timer(exec->box->loop, &exec->timer);
	if (!exec->exec_cgroup)
		exec_cgroup_killed(exec);
}

static void exec_kill_tree(struct exec *exec)
{
	exec_await_kill(exec);
	if (exec->exec_cgroup)
		box_exec_cgroup_kill(exec->exec_cgroup);
}

static void exec_on_timer(struct timer *timer)
{
	struct exec *exec = link_of(timer, struct exec, timer);

	switch (exec->state) {
	case EXEC_RUNNING:
		exec_set_cause(exec, ENDING_WALL_LIMIT);
		exec_kill_after(exec, GRACE_MS);
		exec_signal(exec, SIGTERM);
		break;
	case EXEC_TERMED:
		exec_kill_tree(exec);
		break;
	case EXEC_KILLED:
		exec->report = REPORT_LATE;
		exec_end(exec, SIGKILL, false);
		break;
	default:
		break;
	}
}

void exec_kill_after(struct exec *exec, int64_t ms)
{
	if (!exec_may_enter(exec, EXEC_TERMED))
		return;
	exec_enter(exec, EXEC_TERMED);
	exec_set_timer(exec, ms);
}

static void exec_kill_for(struct exec *exec, enum ending cause)
{
	exec_set_cause(exec, cause);
	if (exec->state == EXEC_RUNNING || exec->state == EXEC_TERMED)
		exec_kill_tree(exec);
}

static void exec_cpu_limit(struct exec *exec)
{
	if (exec->on_cpu)
		exec->on_cpu(exec->on_end_arg);
	else
		exec_kill_for(exec, ENDING_CPU_LIMIT);
}

const struct box_cgroup_events exec_cgroup_events = {exec_cpu_limit, exec_cgroup_killed};

void exec_stop_by_api(struct exec *exec)
{
	exec_set_cause(exec, ENDING_KILLED_BY_API);
	exec->stopping = true;
}

void exec_kill(struct exec *exec)
{
	exec_kill_for(exec, ENDING_KILLED_BY_API);
}

void exec_kill_wait(struct exec *exec)
{
	exec_set_cause(exec, ENDING_KILLED_BY_API);
	if (!exec_runs(exec))
		return;
	exec_await_kill(exec);
	if (exec->exec_cgroup)
		box_exec_cgroup_kill_wait(exec->exec_cgroup);
}

// --------------------------------------------------------------------------- messages from pid 1

// `fds` NULL: the command had only output pipes, and left them empty.
static void exec_started(struct exec *exec, int pid, const int *fds)
{
	auto_err err = fds ? exec_open_stdio(exec, fds) : OK;
	bool abandoned = exec->state == EXEC_ABANDONED;

	exec->pid = pid;
	tape_started(exec->tape, pid, exec->conn);
	exec_enter(exec, EXEC_RUNNING);
	// pid 1 found the cgroup empty: limits of earlier execs are void.
	box_exec_cgroup_begin(exec->exec_cgroup, exec);
	condition_signal(&exec->condition);
	if (err && err_kind(err) == ERR_BAD_PEER) {
		box_break(exec->box, "pid 1 sent no pipes");
		return;
	}
	if (abandoned || err) {
		exec_kill(exec);
		return;
	}
	if (exec->wall_ms)
		exec_set_timer(exec, (int64_t)exec->wall_ms);
	if (exec->cpu_ms)
		box_exec_cgroup_limit(exec->exec_cgroup, exec->cpu_ms * 1000);
}

static void exec_refused(struct exec *exec, const struct talk *talk)
{
	enum talk_step step = talk->failed.step;
	bool doubtful = exec->exec_cgroup->doubtful;

	// A cgroup that should be empty and cannot be joined is useless; so is one of a previous
	// daemon that pid 1 was never given (EPROTO).
	if (step == TALK_STEP_JOIN && (!doubtful || talk->failed.errnum == EPROTO))
		box_exec_cgroup_kill(exec->exec_cgroup);
	// After JOIN the cgroup was found empty, and what was forked into it has ended.
	exec_fail(exec, talk, !doubtful || step > TALK_STEP_JOIN);
}

static void exec_exited(struct exec *exec, const struct talk *talk)
{
	int status = talk->exited.status;
	bool empty = talk->exited.cgroup_empty;

	exec->result.max_rss = talk->exited.max_rss;
	if (!exec->exec_cgroup)
		exec->result.cpu_ms = talk->exited.cpu_us / 1000;
	exec->report = talk->exited.over ? REPORT_OVER : REPORT_CAME;
	if (exec->cause == ENDING_EXITED && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
	    box_oom_kills(exec->box) > exec->oom_kills)
		exec_set_cause(exec, ENDING_OOM);
	// A command that was ended by us ends with its whole tree.
	if (exec->cause != ENDING_EXITED && !empty && exec->exec_cgroup &&
	    !exec->exec_cgroup->spent && !exec->stopping)
		box_exec_cgroup_kill(exec->exec_cgroup);
	exec_end(exec, status, empty);
}

// A late EXITED has come: forget the exec once its output is kept.
static void exec_reported(struct exec *exec, const struct talk *talk)
{
	exec->report = talk->exited.over ? REPORT_OVER : REPORT_CAME;
	if (exec->state >= EXEC_DRAINING && exec->state != EXEC_UNSENT)
		exec_forget(exec);
}

static struct exec *exec_find(struct link *among, uint32_t conn)
{
	list_each (at, among) {
		struct exec *exec = link_of(at, struct exec, link);

		if (exec->conn == conn)
			return exec;
	}
	return NULL;
}

void exec_on_message(struct box *box, const struct talk *talk, int *fds, int count)
{
	static const enum exec_state states[TALK_KIND_COUNT] = {
		[TALK_STARTED] = EXEC_RUNNING,
		[TALK_RAN] = EXEC_RUNNING, // and EXEC_ENDED
		[TALK_FAILED] = EXEC_FAILED,
		[TALK_EXITED] = EXEC_ENDED,
	};
	struct exec *exec = exec_find(&box->execs, talk->conn);
	enum exec_state next = states[talk->kind];
	bool lost = count == FD_LOST && next == EXEC_RUNNING;

	if (!exec && talk->kind == TALK_EXITED)
		exec = exec_find(&box->draining, talk->conn);
	if (exec && talk->kind == TALK_EXITED && exec->report == REPORT_LATE && count == 0) {
		exec_reported(exec, talk);
		return;
	}
	if (!exec || !exec_may_enter(exec, next) ||
	    (!lost && count != talk_fds(talk, exec->flags))) {
		closer_drop_all(fds, count);
		box_break(box, "pid 1 answers an unknown request");
		return;
	}
	exec_ref(exec);
	exec->pipeless = lost;
	if (next == EXEC_FAILED)
		exec_refused(exec, talk);
	if (next == EXEC_RUNNING)
		exec_started(exec, talk->kind == TALK_RAN ? talk->exited.pid : talk->started.pid,
			     count ? fds : NULL);
	if ((talk->kind == TALK_EXITED || talk->kind == TALK_RAN) && exec_runs(exec))
		exec_exited(exec, talk);
	exec_let_go(exec);
}

// ------------------------------------------------------------------------------------ the start

static struct exec *exec_new(struct box *box, const struct exec_spec *spec)
{
	struct exec *exec = mem_new_of(struct exec);

	box_ref(box);
	exec->box = box;
	exec->refs = 1;
	exec->held = true;
	exec->tape = spec->tape;
	exec->taped = spec->tape != NULL;
	if (spec->tape) {
		tape_ref(spec->tape);
	} else {
		exec->tape = tape_new(box->loop, box->tapes_dir, spec->output_cap);
		tape_bound(exec->tape, box_tape_budget(box));
	}
	exec->flags = exec_message_flags(spec, box->features);
	exec->kept = exec->flags & TALK_EXEC_KEEP;
	exec->input = spec->stdin_bytes;
	exec->pipes.keep_in = spec->open_stdin && (exec->flags & TALK_EXEC_STDIN);
	exec->pipes.moved = exec_on_moved;
	exec->pipes.ref = exec_on_hold;
	exec->pipes.unref = exec_on_drop;
	for (int i = 0; i < 3; i++)
		exec->stdio[i] = -1;
	exec->cpu_ms = spec->cpu_ms;
	exec->wall_ms = spec->wall_ms;
	exec->timer.due = exec_on_timer;
	condition_init(&exec->condition);
	exec->free_later.run = exec_free;
	return exec;
}

// Sends EXEC, with the fds of a cgroup that is new to pid 1. Waits while the socket is full.
static fallible exec_send_start(struct exec *exec, const struct exec_spec *spec, int64_t deadline)
{
	struct box_cgroup *exec_cgroup = exec->exec_cgroup;
	auto_free char *words = NULL;
	size_t len = 0;
	int joins = (exec_cgroup->join[0] >= 0) + (exec_cgroup->join[1] >= 0);

	TRY(exec_message_encode(spec, exec->flags, exec->conn, exec_cgroup->number,
				exec_make_label(exec, spec), &words, &len));
	while (exec->state == EXEC_ASKED) {
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

static fallible exec_await_answer(struct exec *exec, int64_t deadline)
{
	struct err *err = OK;

	while (!err && exec->state == EXEC_ASKED)
		err = condition_wait(&exec->condition, deadline);
	if (exec->state != EXEC_ASKED) {
		err_free(err); // the deadline passed, but the answer had come
		return OK;
	}
	exec_enter(exec, EXEC_ABANDONED);
	exec->input = STR("");
	// A process of the box may have stopped the child while pid 1 waits for its execve. If pid
	// 1 is merely slow, the command is killed once it has started.
	if (err_kind(err) == ERR_TIMEOUT)
		box_exec_cgroup_kill(exec->exec_cgroup);
	return err;
}

// Tries one cgroup. The cgroup does not belong to the exec before pid 1 has answered: a CPU
// limit that fires until then is meant for the processes left in it.
static fallible exec_try(struct exec *exec, const struct exec_spec *spec, int *tries)
{
	struct box *box = exec->box;
	int64_t deadline = loop_now(box->loop) + START_MS;
	struct box_cgroup *exec_cgroup;
	struct err *err;

	TRY(spec->mark ? box_exec_cgroup_mark(box, spec->mark, &exec_cgroup)
		       : box_exec_cgroup_take(box, tries, &exec_cgroup));
	exec->exec_cgroup = exec_cgroup;
	exec->flags &= ~(uint32_t)TALK_EXEC_IF_EMPTY;
	exec->flags |= exec_cgroup->doubtful ? TALK_EXEC_IF_EMPTY : 0u;
	exec->cause = ENDING_EXITED;
	exec->conn = ++box->last_conn;
	exec->meter_us = exec_cgroup->doubtful || !exec_cgroup->seen_us
				 ? box_exec_cgroup_used_us(exec_cgroup)
				 : exec_cgroup->seen_us;
	exec->oom_kills = box_oom_kills(box);
	exec->begun_us = clock_us();
	exec->result.cpu_ms = 0;
	exec_enter(exec, EXEC_ASKED);
	exec_list(exec);
	err = exec_send_start(exec, spec, deadline);
	if (err && exec->state == EXEC_ASKED) {
		exec_fail(exec, &(struct talk){.kind = TALK_FAILED}, !exec_cgroup->doubtful);
		return err;
	}
	err_free(err);
	return exec_await_answer(exec, deadline);
}

// A doubtful cgroup may be refused as busy: then another is tried.
static bool exec_was_busy(const struct exec *exec)
{
	return exec->state == EXEC_FAILED && (exec->flags & TALK_EXEC_IF_EMPTY) &&
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
	int64_t deadline = loop_now(box->loop) + START_MS, began_us = clock_us();
	struct err *err = OK;
	int tries = 0;

	if (!*own.user && *box->user) {
		own.user = box->user;
		own.add_home = !has_home(own.env);
	}
	if (!box_is_alive(box))
		return exec_message_box_lost();
	if (box->exec_count >= BOX_EXECS_MAX)
		return exec_message_too_many();
	exec = exec_new(box, spec);
	do {
		err = exec_try(exec, spec, &tries);
	} while (!err && exec_was_busy(exec) && box_is_alive(box) &&
		 loop_now(box->loop) < deadline);
	if (!err && exec->state == EXEC_FAILED)
		err = box_is_alive(box) ? exec_message_explain(&exec->failure, spec)
					: exec_message_box_lost();
	if (!err && exec->pipeless)
		err = ask_no_files();
	if (err) {
		exec_unref(exec);
		return err_while(err, "start a command in %s", box->id);
	}
	metric_observe(METRIC_EXEC_START, NULL, (double)(clock_us() - began_us) / 1e6);
	*out = exec;
	return OK;
}

// Time and CPU that passed before adoption count.
static void exec_resume_limits(struct exec *exec)
{
	int64_t left_ms = (int64_t)exec->wall_ms - (clock_us() - exec->begun_us) / 1000;
	uint64_t limit_us = exec->meter_us + exec->cpu_ms * 1000, used;

	if (exec->wall_ms)
		exec_set_timer(exec, left_ms > 0 ? left_ms : 1);
	if (!exec->cpu_ms || !exec->exec_cgroup)
		return;
	used = box_exec_cgroup_used_us(exec->exec_cgroup);
	box_exec_cgroup_limit(exec->exec_cgroup, limit_us > used ? limit_us - used : 1);
}

// State that is in no label (for example which client waits) ended with the previous daemon. Times
// in a label are of this boot, as the box is: limits continue. A pid 1 that lies about times gets
// new limits and no more.
fallible exec_adopt(struct box *box, const struct talk *talk, const struct exec_label *label,
		    struct box_cgroup *exec_cgroup, struct tape *tape, const int *fds,
		    struct exec **out)
{
	struct exec_spec spec = {.tape = tape, .cpu_ms = label->cpu_ms, .wall_ms = label->wall_ms};
	struct exec *exec = exec_new(box, &spec);
	int64_t now = clock_us();
	struct err *err;

	exec->flags = talk->held.flags;
	exec->kept = exec->flags & TALK_EXEC_KEEP;
	exec->pipes.keep_in = exec->flags & TALK_EXEC_STDIN;
	exec->conn = talk->conn;
	exec->pid = talk->held.pid;
	exec->begun_us = label->begun_us > 0 && label->begun_us <= now ? label->begun_us : now;
	exec->meter_us = label->meter_us;
	exec->oom_kills = label->oom_kills;
	exec->sender = label->sender;
	exec->exec_cgroup = exec_cgroup;
	if (exec_label_changes(label->kind) && talk->held.tag.len)
		exec_keep_label(exec, talk->held.tag);
	exec_enter(exec, EXEC_RUNNING);
	exec_list(exec);
	if (exec_cgroup)
		box_exec_cgroup_begin(exec_cgroup, exec);
	err = exec_open_stdio(exec, fds);
	if (err) {
		exec_unref(exec);
		return err;
	}
	exec_resume_limits(exec);
	*out = exec;
	return OK;
}

struct tape *exec_tape(struct exec *exec)
{
	return exec->tape;
}

int exec_pid(const struct exec *exec)
{
	return exec->pid;
}

void exec_on_end(struct exec *exec, void (*fn)(void *arg), void *arg)
{
	exec->on_end = fn;
	exec->on_end_arg = arg;
	if (fn && exec->state >= EXEC_DONE)
		fn(arg);
}

fallible exec_wait(struct exec *exec, int64_t deadline, struct exec_result *out)
{
	while (exec->state < EXEC_DONE)
		TRY(condition_wait(&exec->condition, deadline), "wait for a command");
	*out = exec->result;
	return OK;
}

void exec_unref(struct exec *exec)
{
	if (!exec)
		return;
	exec->held = false;
	if (exec->state >= EXEC_DONE)
		exec_drop_tape(exec);
	exec_let_go(exec);
}
