// An exec is one conversation with pid 1 and one exec cgroup:
//
//	ASKED     EXEC was sent; STARTED or FAILED answers it
//	RUNNING   output is read, limits are enforced
//	ENDED     EXITED has come; bytes that are in the pipes still go to the tape
//	DONE      the result is final; while a process holds a pipe, its bytes are read and dropped
//
// The recorded cause is the first that acted: a limit, the API, loss of the box; else the wait
// status, or the cgroup's OOM counter after a SIGKILL. A command that is told to end has its cgroup
// killed. If pid 1 does not report the end in time, the result is final without EXITED, which may
// come late.
//
// syscalls: close clock_gettime
#include "box/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/exec_cgroup.h"
#include "box/exec_message.h"
#include "box/exec_private.h"
#include "loop/closer.h"
#include "os/fd.h"
#include "types/event.h"

#define GRACE_MS 5000 // from SIGTERM to SIGKILL
#define GUARD_MS 5000 // from SIGKILL to EXITED; then the result is final without it

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
	log_event_of(box, LOG_INFO, "security", "event", "limit_hit", "severity", "low", "sandbox",
		     box, "limit", ending_word(ending), NULL);
	event_publish(EVENT_SECURITY, "event", "limit_hit", "severity", "low", "sandbox", box,
		      "limit", ending_word(ending), NULL);
}

void exec_ref(struct exec *exec)
{
	exec->refs++;
}

static void free_exec(struct deferred *deferred)
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

// Freed at the end of the loop turn: a callback of its pipes or timer may be on the stack.
void exec_let_go(struct exec *exec)
{
	if (--exec->refs == 0)
		loop_defer(exec->box->loop, &exec->free_later);
}

void exec_list(struct exec *exec)
{
	exec_ref(exec);
	exec->listed = true;
	link_add(&exec->box->execs, &exec->link);
	exec->box->exec_count++;
}

static void box_exec_unlist(struct exec *exec)
{
	if (!exec->listed)
		return;
	exec->listed = false;
	link_drop(&exec->link);
	if (exec->draining)
		exec->box->draining_count--;
	else
		exec->box->exec_count--;
	exec_let_go(exec);
}

static enum channel_sent send_short(struct exec *exec, const struct talk *talk)
{
	char room[64];
	size_t len = talk_encode(talk, room, sizeof(room));

	return channel_send(&exec->box->channel, room, len, NULL, 0);
}

// Sends FORGET. While the socket is full the exec stays listed.
static void box_exec_forget(struct exec *exec)
{
	struct talk talk = {.kind = TALK_FORGET, .conn = exec->conn};

	exec->wants_forget = true;
	if (exec->kept && exec->box->channel.open)
		return; // exec_filed() calls again
	pipes_close(&exec->pipes);
	exec->owes_forget = !exec->over && send_short(exec, &talk) == CHANNEL_FULL;
	if (!exec->owes_forget && !(exec->unreported && exec->box->channel.open))
		box_exec_unlist(exec);
}

void exec_filed(struct exec *exec)
{
	exec->kept = false;
	if (exec->wants_forget && exec->listed && !exec->owes_forget)
		box_exec_forget(exec);
}

// Too many execs drain: drop the oldest that pid 1 has reported. Unreported ones must stay, since
// their EXITED may come; a pid 1 that owes too many of them is not merely slow.
static void box_exec_make_room(struct box *box)
{
	struct exec *oldest = NULL;
	uint32_t unreported = 0;

	if (box->draining_count <= BOX_DRAINING_MAX)
		return;
	list_each (at, &box->draining) {
		struct exec *exec = link_of(at, struct exec, link);

		unreported += exec->unreported;
		if (!oldest && !exec->unreported && !exec->owes_forget && !exec->kept)
			oldest = exec;
	}
	if (oldest)
		box_exec_forget(oldest);
	else if (unreported > BOX_DRAINING_MAX)
		box_break(box, "pid 1 reports no exits");
}

static void box_exec_drain(struct exec *exec)
{
	struct box *box = exec->box;

	link_drop(&exec->link);
	link_add(&box->draining, &exec->link);
	exec->draining = true;
	box->exec_count--;
	box->draining_count++;
	box_exec_make_room(box);
}

static void set_cause(struct exec *exec, enum ending cause)
{
	if (exec->has_cause || exec->phase > EXEC_RUNNING)
		return;
	exec->has_cause = true;
	exec->cause = cause;
}

static void release_cgroup(struct exec *exec, bool empty)
{
	struct box_cgroup *exec_cgroup = exec->exec_cgroup;
	uint64_t used;

	if (!exec_cgroup)
		return;
	exec->exec_cgroup = NULL;
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
static void let_tape_go(struct exec *exec)
{
	tape_unref(take_ptr(exec->tape));
	exec->pipes.tape = NULL;
}

static void box_exec_finish(struct exec *exec)
{
	struct exec_result *result = &exec->result;
	int status = exec->status;

	exec->phase = EXEC_DONE;
	result->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	result->exit_code = result->signal ? 128 + result->signal : WEXITSTATUS(status);
	result->ending = result->signal ? ENDING_SIGNALED : ENDING_EXITED;
	if (exec->has_cause)
		result->ending = exec->cause;
	if (result->ending == ENDING_WALL_LIMIT)
		result->exit_code = 124;
	result->stdout_truncated = tape_truncated(exec->tape, TAPE_STDOUT);
	result->stderr_truncated = tape_truncated(exec->tape, TAPE_STDERR);
	tape_end(exec->tape);
	condition_signal(&exec->condition);
	if (exec->on_end)
		exec->on_end(exec->on_end_arg);
	if (!exec->held)
		let_tape_go(exec);
	if (!exec->listed)
		return;
	box_exec_drain(exec);
	if (exec->listed && (pipes_ended(&exec->pipes) || !box_is_alive(exec->box)))
		box_exec_forget(exec);
}

// A late EXITED has come: forget the exec once its output is kept.
static void reported(struct exec *exec, const struct talk *talk)
{
	exec->unreported = false;
	exec->over = talk->exited.over;
	if (exec->phase == EXEC_DONE && !exec->owes_forget)
		box_exec_forget(exec);
}

static void box_exec_on_moved(struct pipes *pipes)
{
	struct exec *exec = link_of(pipes, struct exec, pipes);

	exec_ref(exec);
	if (exec->phase == EXEC_ENDED && pipes_settled(pipes))
		box_exec_finish(exec);
	else if (exec->phase == EXEC_DONE && pipes_ended(pipes) && exec->listed &&
		 !exec->owes_forget)
		box_exec_forget(exec);
	exec_let_go(exec);
}

static void on_hold(struct pipes *pipes)
{
	exec_ref(link_of(pipes, struct exec, pipes));
}

static void on_drop(struct pipes *pipes)
{
	exec_let_go(link_of(pipes, struct exec, pipes));
}

static void box_exec_end(struct exec *exec, int status, bool cgroup_empty)
{
	exec->phase = EXEC_ENDED;
	exec->status = status;
	exec->result.duration_ms = (clock_us() - exec->begun_us) / 1000;
	loop_drop_timer(exec->box->loop, &exec->timer);
	release_cgroup(exec, cgroup_empty);
	if (pipes_settle(&exec->pipes))
		box_exec_finish(exec);
}

static void exec_cgroup_killed(struct exec *exec)
{
	if (exec->phase == EXEC_RUNNING && exec->stage == STAGE_KILLED)
		loop_set_timer(exec->box->loop, &exec->timer, loop_now(exec->box->loop) + GUARD_MS);
}

// The guard timer starts when the cgroup has been killed: without a warden no kill has happened
// yet.
static void await_kill(struct exec *exec)
{
	exec->stage = STAGE_KILLED;
	loop_drop_timer(exec->box->loop, &exec->timer);
	if (!exec->exec_cgroup)
		exec_cgroup_killed(exec);
}

static void kill_tree(struct exec *exec)
{
	await_kill(exec);
	if (exec->exec_cgroup)
		box_exec_cgroup_kill(exec->exec_cgroup);
}

static void box_exec_on_timer(struct timer *timer)
{
	struct exec *exec = link_of(timer, struct exec, timer);

	switch (exec->stage) {
	case STAGE_LIMIT:
		set_cause(exec, ENDING_WALL_LIMIT);
		exec->stage = STAGE_TERMED;
		loop_set_timer(exec->box->loop, timer, loop_now(exec->box->loop) + GRACE_MS);
		exec_signal(exec, SIGTERM);
		break;
	case STAGE_TERMED:
		kill_tree(exec);
		break;
	case STAGE_KILLED:
		exec->unreported = true;
		box_exec_end(exec, SIGKILL, false);
		break;
	}
}

static void kill_for(struct exec *exec, enum ending cause)
{
	set_cause(exec, cause);
	if (exec->phase == EXEC_RUNNING && exec->stage != STAGE_KILLED)
		kill_tree(exec);
}

static void exec_cpu_limit(struct exec *exec)
{
	if (exec->on_cpu)
		exec->on_cpu(exec->on_end_arg);
	else
		kill_for(exec, ENDING_CPU_LIMIT);
}

const struct box_cgroup_events exec_cgroup_events = {exec_cpu_limit, exec_cgroup_killed};

void exec_kill(struct exec *exec)
{
	kill_for(exec, ENDING_KILLED_BY_API);
}

void exec_stop_by_api(struct exec *exec)
{
	set_cause(exec, ENDING_KILLED_BY_API);
	exec->stopping = true;
}

void exec_kill_wait(struct exec *exec)
{
	set_cause(exec, ENDING_KILLED_BY_API);
	if (exec->phase != EXEC_RUNNING)
		return;
	await_kill(exec);
	if (exec->exec_cgroup)
		box_exec_cgroup_kill_wait(exec->exec_cgroup);
}

static void send_signal(struct exec *exec, int signal, bool alone)
{
	struct talk talk = {.kind = TALK_SIGNAL, .conn = exec->conn};

	if (exec->phase != EXEC_RUNNING)
		return;
	talk.signal = signal;
	talk.alone = alone;
	exec->owes_signal = send_short(exec, &talk) == CHANNEL_FULL ? signal : 0;
	exec->owes_alone = alone;
}

void exec_signal(struct exec *exec, int signal)
{
	send_signal(exec, signal, false);
}

void exec_signal_alone(struct exec *exec, int signal)
{
	send_signal(exec, signal, true);
}

void exec_pay(struct box *box)
{
	list_each (at, &box->execs) {
		struct exec *exec = link_of(at, struct exec, link);

		if (exec->owes_signal)
			send_signal(exec, exec->owes_signal, exec->owes_alone);
		if (exec->owes_shut)
			exec_close_stdin(exec);
		exec_pay_label(exec);
	}
	list_each (at, &box->draining) {
		struct exec *exec = link_of(at, struct exec, link);

		if (exec->owes_forget)
			box_exec_forget(exec);
	}
}

void exec_fail(struct exec *exec, const struct talk *why, bool cgroup_empty)
{
	exec->phase = EXEC_FAILED;
	exec->failure = *why;
	loop_drop_timer(exec->box->loop, &exec->timer);
	release_cgroup(exec, cgroup_empty);
	condition_signal(&exec->condition);
	box_exec_unlist(exec);
}

void exec_end_all(struct box *box)
{
	list_each (at, &box->draining)
		box_exec_forget(link_of(at, struct exec, link));
	list_each (at, &box->execs) {
		struct exec *exec = link_of(at, struct exec, link);

		exec_ref(exec);
		if (exec->phase == EXEC_ASKED)
			exec_fail(exec, &(struct talk){.kind = TALK_FAILED}, false);
		else if (exec->phase == EXEC_RUNNING) {
			set_cause(exec, box->stopping ? ENDING_KILLED_BY_API : ENDING_BOX_LOST);
			box_exec_end(exec, SIGKILL, false);
		}
		exec_let_go(exec);
	}
}

// `fds` NULL: the command had only output pipes, and left them empty.
static void started(struct exec *exec, int pid, const int *fds)
{
	auto_err err = fds ? exec_open_ends(exec, fds) : OK;

	exec->pid = pid;
	tape_started(exec->tape, pid, exec->conn);
	exec->phase = EXEC_RUNNING;
	exec->stage = STAGE_LIMIT;
	// pid 1 found the cgroup empty: limits of earlier execs are void.
	box_exec_cgroup_begin(exec->exec_cgroup, exec);
	condition_signal(&exec->condition);
	if (err && err_kind(err) == ERR_BAD_PEER) {
		box_break(exec->box, "pid 1 sent no pipes");
		return;
	}
	if (exec->abandoned || err) {
		exec_kill(exec);
		return;
	}
	if (exec->wall_ms)
		loop_set_timer(exec->box->loop, &exec->timer,
			       loop_now(exec->box->loop) + (int64_t)exec->wall_ms);
	if (exec->cpu_ms)
		box_exec_cgroup_limit(exec->exec_cgroup, exec->cpu_ms * 1000);
}

static void box_exec_failed(struct exec *exec, const struct talk *talk)
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

static void exited(struct exec *exec, const struct talk *talk)
{
	int status = talk->exited.status;
	bool empty = talk->exited.cgroup_empty;

	exec->result.max_rss = talk->exited.max_rss;
	if (!exec->exec_cgroup)
		exec->result.cpu_ms = talk->exited.cpu_us / 1000;
	exec->over = talk->exited.over;
	if (!exec->has_cause && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
	    box_oom_kills(exec->box) > exec->oom_kills)
		set_cause(exec, ENDING_OOM);
	// A command that was ended by us ends with its whole tree.
	if (exec->has_cause && !empty && exec->exec_cgroup && !exec->exec_cgroup->spent &&
	    !exec->stopping)
		box_exec_cgroup_kill(exec->exec_cgroup);
	box_exec_end(exec, status, empty);
}

static struct exec *box_exec_find(struct link *among, uint32_t conn)
{
	list_each (at, among) {
		struct exec *exec = link_of(at, struct exec, link);

		if (exec->conn == conn)
			return exec;
	}
	return NULL;
}

void exec_heard(struct box *box, const struct talk *talk, int *fds, int count)
{
	struct exec *exec = box_exec_find(&box->execs, talk->conn);
	enum exec_phase due = talk->kind == TALK_EXITED ? EXEC_RUNNING : EXEC_ASKED;
	bool starts = talk->kind == TALK_STARTED || talk->kind == TALK_RAN;
	bool lost = count == FD_LOST && starts;

	if (!exec && talk->kind == TALK_EXITED)
		exec = box_exec_find(&box->draining, talk->conn);
	if (exec && talk->kind == TALK_EXITED && exec->unreported && count == 0) {
		reported(exec, talk);
		return;
	}
	if (!exec || exec->phase != due || (!lost && count != talk_fds(talk, exec->flags))) {
		closer_drop_all(fds, count);
		box_break(box, "pid 1 answers an unknown request");
		return;
	}
	exec_ref(exec);
	exec->pipeless = lost;
	if (talk->kind == TALK_FAILED)
		box_exec_failed(exec, talk);
	if (starts)
		started(exec, talk->kind == TALK_RAN ? talk->exited.pid : talk->started.pid,
			count ? fds : NULL);
	if ((talk->kind == TALK_EXITED || talk->kind == TALK_RAN) && exec->phase == EXEC_RUNNING)
		exited(exec, talk);
	exec_let_go(exec);
}

struct exec *exec_new(struct box *box, const struct exec_spec *spec)
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
	for (int i = 0; i < 3; i++)
		exec->stdio[i] = -1;
	exec->cpu_ms = spec->cpu_ms;
	exec->wall_ms = spec->wall_ms;
	exec->timer.due = box_exec_on_timer;
	exec->pipes.moved = box_exec_on_moved;
	exec->pipes.ref = on_hold;
	exec->pipes.unref = on_drop;
	condition_init(&exec->condition);
	exec->free_later.run = free_exec;
	return exec;
}

struct tape *exec_tape(struct exec *exec)
{
	return exec->tape;
}

void exec_on_end(struct exec *exec, void (*fn)(void *arg), void *arg)
{
	exec->on_end = fn;
	exec->on_end_arg = arg;
	if (fn && exec->phase == EXEC_DONE)
		fn(arg);
}

int exec_pid(const struct exec *exec)
{
	return exec->pid;
}

fallible exec_wait(struct exec *exec, int64_t deadline, struct exec_result *out)
{
	while (exec->phase != EXEC_DONE)
		TRY(condition_wait(&exec->condition, deadline), "wait for a command");
	*out = exec->result;
	return OK;
}

void exec_unref(struct exec *exec)
{
	if (!exec)
		return;
	exec->held = false;
	if (exec->phase == EXEC_DONE)
		let_tape_go(exec);
	exec_let_go(exec);
}

fallible exec_write(struct exec *exec, const void *bytes, size_t len, int64_t deadline)
{
	struct err *err;

	if (exec->phase != EXEC_RUNNING)
		return err_new(CONFLICT, "stdin_closed", "the command has ended");
	exec_ref(exec);
	err = pipes_write(&exec->pipes, bytes, len, deadline);
	exec_let_go(exec);
	return err;
}

fallible exec_await_input(struct exec *exec, size_t len, int64_t deadline)
{
	struct err *err;

	if (exec->phase != EXEC_RUNNING)
		return OK;
	exec_ref(exec);
	err = pipes_await_input(&exec->pipes, len, deadline);
	exec_let_go(exec);
	return err;
}
