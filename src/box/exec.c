// An exec is one conversation with pid 1 and one leaf:
//
//	ASKED     EXEC was said; STARTED or FAILED answers it
//	RUNNING   the pipes flow, the limits are watched
//	ENDED     EXITED was said; what lies in the pipes still goes to the tape
//	DONE      the result stands; if somebody holds a pipe it lingers, its bytes dropped
//
// Why it ended is the first cause that acted: a limit, the API, the loss of the box; else what
// wait() said, and for a death by SIGKILL the kernel's count of OOM kills. A command that is told
// to end gets its leaf killed, so nothing of its tree survives; if pid 1 then does not report the
// end (a box may be so busy that pid 1 hardly runs), the result stands without its word, which may
// come late.
//
// Shares: one for the holder, one while the box knows the exec, one for a spill under way.
//
// syscalls: close clock_gettime
#include "box/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/inner.h"
#include "box/leaf.h"
#include "box/pipes.h"
#include "box/word.h"
#include "os/fd.h"

#define START_MS 10000 // from EXEC to its answer
#define GRACE_MS 5000  // from SIGTERM to SIGKILL
#define GUARD_MS 5000  // from SIGKILL to EXITED; then the result does not wait for it

enum phase { ASKED, FAILED, RUNNING, ENDED, DONE };
enum stage { STAGE_LIMIT, STAGE_TERMED, STAGE_KILLED }; // what the timer does next

struct exec {
	struct box *box;
	struct link link; // box->execs, or box->lingerers
	int refs;
	uint32_t conv;
	struct box_leaf *leaf;
	enum phase phase;
	bool abandoned; // whoever asked for it has gone
	bool listed, lingers;
	bool over;	 // pid 1 has forgotten it already
	bool unreported; // ended without EXITED, which may still come
	bool owes_forget;
	int owes_signal;
	struct talk failure;
	int pid;
	struct tape *tape;
	struct pipes pipes;
	bool has_stdin;
	struct str input; // borrowed until STARTED
	uint64_t cpu_ms, wall_ms;
	struct timer timer;
	enum stage stage;
	bool has_cause;
	enum ending cause;
	uint64_t meter_us, oom_kills; // at the beginning
	int64_t begun_us;
	int status;
	struct exec_result result;
	struct bell bell;
	struct later free_later;
};

const char *ending_word(enum ending ending)
{
	static const char *const words[] = {
#define X(name, word) [ENDING_##name] = word,
		ENDINGS(X)
#undef X
	};

	return words[ending];
}

static void hold(struct exec *exec)
{
	exec->refs++;
}

static void free_exec(struct later *later)
{
	struct exec *exec = link_of(later, struct exec, free_later);

	loop_drop_timer(exec->box->loop, &exec->timer);
	pipes_close(&exec->pipes);
	tape_drop(exec->tape);
	box_drop(exec->box);
	free(exec);
}

// Freed at the end of the turn: a callback of its pipes or timer may be up the stack.
static void drop(struct exec *exec)
{
	if (--exec->refs == 0)
		loop_later(exec->box->loop, &exec->free_later);
}

static void list(struct exec *exec)
{
	hold(exec);
	exec->listed = true;
	link_add(&exec->box->execs, &exec->link);
	exec->box->exec_count++;
}

static void unlist(struct exec *exec)
{
	if (!exec->listed)
		return;
	exec->listed = false;
	link_drop(&exec->link);
	if (exec->lingers)
		exec->box->lingerer_count--;
	else
		exec->box->exec_count--;
	drop(exec);
}

static enum channel_sent say_short(struct exec *exec, const struct talk *talk)
{
	char room[64];
	size_t len = talk_encode(talk, room, sizeof(room));

	return channel_say(&exec->box->channel, room, len, NULL, 0);
}

// The conversation is over on our side. When the socket is full the exec stays listed until it is
// not.
static void forget(struct exec *exec)
{
	struct talk talk = {.kind = TALK_FORGET, .conv = exec->conv};

	pipes_close(&exec->pipes);
	exec->owes_forget = !exec->over && say_short(exec, &talk) == CHANNEL_FULL;
	if (!exec->owes_forget && !(exec->unreported && exec->box->channel.open))
		unlist(exec);
}

static void linger(struct exec *exec)
{
	struct box *box = exec->box;

	link_drop(&exec->link);
	link_add(&box->lingerers, &exec->link);
	exec->lingers = true;
	box->exec_count--;
	if (++box->lingerer_count > BOX_LINGERERS_MAX)
		forget(link_of(box->lingerers.next, struct exec, link));
}

static void set_cause(struct exec *exec, enum ending cause)
{
	if (exec->has_cause || exec->phase > RUNNING)
		return;
	exec->has_cause = true;
	exec->cause = cause;
}

static void release_leaf(struct exec *exec, bool empty)
{
	struct box_leaf *leaf = exec->leaf;
	uint64_t used;

	if (!leaf)
		return;
	exec->leaf = NULL;
	used = leaf->seen_us = box_leaf_used_us(leaf);
	if (used > exec->meter_us)
		exec->result.cpu_ms = (used - exec->meter_us) / 1000;
	box_leaf_give(leaf, empty);
}

static void finish(struct exec *exec)
{
	struct exec_result *result = &exec->result;
	int status = exec->status;

	exec->phase = DONE;
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
	bell_ring(&exec->bell);
	if (!exec->listed)
		return;
	linger(exec);
	if (pipes_ended(&exec->pipes) || !box_is_alive(exec->box))
		forget(exec);
}

// The word that was missing: all that is left to do is to let it go.
static void reported(struct exec *exec)
{
	exec->unreported = false;
	if (!exec->owes_forget)
		forget(exec);
}

static void on_moved(struct pipes *pipes)
{
	struct exec *exec = link_of(pipes, struct exec, pipes);

	hold(exec);
	if (exec->phase == ENDED && pipes_settled(pipes))
		finish(exec);
	else if (exec->phase == DONE && pipes_ended(pipes) && exec->listed && !exec->owes_forget)
		forget(exec);
	drop(exec);
}

static void on_hold(struct pipes *pipes)
{
	hold(link_of(pipes, struct exec, pipes));
}

static void on_drop(struct pipes *pipes)
{
	drop(link_of(pipes, struct exec, pipes));
}

static void end(struct exec *exec, int status, bool leaf_empty)
{
	exec->phase = ENDED;
	exec->status = status;
	exec->result.duration_ms = (clock_us() - exec->begun_us) / 1000;
	loop_drop_timer(exec->box->loop, &exec->timer);
	release_leaf(exec, leaf_empty);
	if (pipes_settle(&exec->pipes))
		finish(exec);
}

static void kill_tree(struct exec *exec)
{
	exec->stage = STAGE_KILLED;
	loop_set_timer(exec->box->loop, &exec->timer, loop_now(exec->box->loop) + GUARD_MS);
	box_leaf_kill(exec->leaf);
}

static void on_timer(struct timer *timer)
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
		end(exec, SIGKILL, false);
		break;
	}
}

void exec_cpu_limit(struct exec *exec)
{
	set_cause(exec, ENDING_CPU_LIMIT);
	if (exec->phase == RUNNING && exec->stage != STAGE_KILLED)
		kill_tree(exec);
}

void exec_kill(struct exec *exec)
{
	set_cause(exec, ENDING_KILLED_BY_API);
	if (exec->phase == RUNNING && exec->stage != STAGE_KILLED)
		kill_tree(exec);
}

void exec_signal(struct exec *exec, int signal)
{
	struct talk talk = {.kind = TALK_SIGNAL, .conv = exec->conv, .signal = signal};

	if (exec->phase != RUNNING)
		return;
	exec->owes_signal = say_short(exec, &talk) == CHANNEL_FULL ? signal : 0;
}

void exec_pay(struct box *box)
{
	list_each (at, &box->execs) {
		struct exec *exec = link_of(at, struct exec, link);

		if (exec->owes_signal)
			exec_signal(exec, exec->owes_signal);
	}
	list_each (at, &box->lingerers) {
		struct exec *exec = link_of(at, struct exec, link);

		if (exec->owes_forget)
			forget(exec);
	}
}

static void fail(struct exec *exec, const struct talk *why, bool leaf_empty)
{
	exec->phase = FAILED;
	exec->failure = *why;
	loop_drop_timer(exec->box->loop, &exec->timer);
	release_leaf(exec, leaf_empty);
	bell_ring(&exec->bell);
	unlist(exec);
}

void exec_end_all(struct box *box)
{
	list_each (at, &box->lingerers)
		forget(link_of(at, struct exec, link));
	list_each (at, &box->execs) {
		struct exec *exec = link_of(at, struct exec, link);

		hold(exec);
		if (exec->phase == ASKED)
			fail(exec, &(struct talk){.kind = TALK_FAILED}, false);
		else if (exec->phase == RUNNING) {
			set_cause(exec, box->burying ? ENDING_KILLED_BY_API : ENDING_BOX_LOST);
			end(exec, SIGKILL, false);
		}
		drop(exec);
	}
}

static void started(struct exec *exec, int pid, const int *fds)
{
	auto_err err = pipes_open(&exec->pipes, exec->box->loop, exec->tape, fds,
				  exec->has_stdin ? exec->input : (struct str){0});

	exec->pid = pid;
	exec->phase = RUNNING;
	bell_ring(&exec->bell);
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
		box_leaf_limit(exec->leaf, exec->cpu_ms * 1000);
}

static void failed(struct exec *exec, const struct talk *talk)
{
	// Past JOIN the leaf was found empty, and what was born in it has gone.
	fail(exec, talk, !exec->leaf->doubtful || talk->failed.step > TALK_STEP_JOIN);
}

static void exited(struct exec *exec, const struct talk *talk)
{
	int status = talk->exited.status;
	bool empty = talk->exited.leaf_empty;

	exec->result.max_rss = talk->exited.max_rss;
	exec->over = talk->exited.over;
	if (!exec->has_cause && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
	    box_oom_kills(exec->box) > exec->oom_kills) {
		set_cause(exec, ENDING_OOM);
		if (!empty)
			box_leaf_kill(exec->leaf);
	}
	end(exec, status, empty);
}

static struct exec *find(struct link *among, uint32_t conv)
{
	list_each (at, among) {
		struct exec *exec = link_of(at, struct exec, link);

		if (exec->conv == conv)
			return exec;
	}
	return NULL;
}

void exec_heard(struct box *box, const struct talk *talk, int *fds, int count)
{
	struct exec *exec = find(&box->execs, talk->conv);
	enum phase due = talk->kind == TALK_EXITED ? RUNNING : ASKED;

	if (!exec && talk->kind == TALK_EXITED && count == 0) {
		exec = find(&box->lingerers, talk->conv);
		if (exec && exec->unreported) {
			reported(exec);
			return;
		}
		exec = NULL;
	}
	if (!exec || exec->phase != due || count != talk_fds(talk, exec->has_stdin)) {
		while (count > 0)
			close(fds[--count]);
		box_break(box, "pid 1 answers what nobody asked");
		return;
	}
	hold(exec);
	if (talk->kind == TALK_STARTED)
		started(exec, talk->started.pid, fds);
	else if (talk->kind == TALK_FAILED)
		failed(exec, talk);
	else
		exited(exec, talk);
	drop(exec);
}

// Says EXEC, with the fds of a leaf that pid 1 does not know. Waits while the socket is full.
static fallible say_exec(struct exec *exec, const struct exec_spec *spec, int64_t deadline)
{
	struct box_leaf *leaf = exec->leaf;
	auto_free char *words = NULL;
	size_t len = 0;
	int joins = (leaf->join[0] >= 0) + (leaf->join[1] >= 0);

	TRY(word_encode(spec, exec->conv, leaf->number, leaf->doubtful, &words, &len));
	while (exec->phase == ASKED) {
		switch (channel_say(&exec->box->channel, words, len, leaf->join, joins)) {
		case CHANNEL_SENT:
			fd_drop(&leaf->join[0]);
			fd_drop(&leaf->join[1]);
			return OK;
		case CHANNEL_FULL:
			TRY(bell_wait(&exec->box->channel.room, deadline), "talk to pid 1");
			break;
		case CHANNEL_TOO_LONG:
			return err_new(TOO_LARGE, "command_too_large", "the command is too large");
		case CHANNEL_GONE:
			return word_box_lost();
		}
	}
	return OK; // ended meanwhile, and `failure` says so
}

static fallible await_answer(struct exec *exec, int64_t deadline)
{
	struct err *err = OK;

	while (!err && exec->phase == ASKED)
		err = bell_wait(&exec->bell, deadline);
	if (exec->phase != ASKED) {
		err_free(err); // late, but the answer had come
		return OK;
	}
	exec->abandoned = true;
	exec->input = STR("");
	// Somebody in the box may have stopped the child while pid 1 waits for its execve. If pid 1
	// is merely slow, the command is killed when it has started.
	if (err_kind(err) == ERR_TIMEOUT)
		box_leaf_kill(exec->leaf);
	return err;
}

// One try with one leaf.
static fallible ask_once(struct exec *exec, const struct exec_spec *spec, int *tries)
{
	struct box *box = exec->box;
	int64_t deadline = loop_now(box->loop) + START_MS;
	struct box_leaf *leaf;
	struct err *err;

	TRY(box_leaf_take(box, tries, &leaf));
	leaf->exec = exec;
	exec->leaf = leaf;
	exec->phase = ASKED;
	exec->conv = ++box->last_conv;
	exec->meter_us = leaf->doubtful || !leaf->seen_us ? box_leaf_used_us(leaf) : leaf->seen_us;
	exec->oom_kills = box_oom_kills(box);
	exec->begun_us = clock_us();
	exec->result.cpu_ms = 0;
	list(exec);
	err = say_exec(exec, spec, deadline);
	if (err && exec->phase == ASKED) {
		fail(exec, &(struct talk){.kind = TALK_FAILED}, !leaf->doubtful);
		return err;
	}
	err_free(err);
	return await_answer(exec, deadline);
}

static bool was_busy(const struct exec *exec)
{
	return exec->phase == FAILED && exec->failure.failed.step == TALK_STEP_JOIN &&
	       exec->failure.failed.errnum == EBUSY;
}

static struct exec *new_exec(struct box *box, const struct exec_spec *spec)
{
	struct exec *exec = mem_new_of(struct exec);

	box_hold(box);
	exec->box = box;
	exec->refs = 1;
	exec->tape = tape_new(box->loop, box->tapes_dir, spec->output_cap);
	exec->has_stdin = spec->stdin_bytes.at != NULL;
	exec->input = spec->stdin_bytes;
	exec->cpu_ms = spec->cpu_ms;
	exec->wall_ms = spec->wall_ms;
	exec->timer.due = on_timer;
	exec->pipes.moved = on_moved;
	exec->pipes.hold = on_hold;
	exec->pipes.drop = on_drop;
	bell_init(&exec->bell);
	exec->free_later.run = free_exec;
	return exec;
}

fallible exec_start(struct box *box, const struct exec_spec *spec, struct exec **out)
{
	struct exec *exec;
	struct err *err = OK;
	int tries = 0;

	if (!box_is_alive(box))
		return word_box_lost();
	if (box->exec_count >= BOX_EXECS_MAX)
		return err_hint(
			err_new(EXHAUSTED, "too_many_execs", "the sandbox runs too many commands"),
			"wait for some of them to end");
	exec = new_exec(box, spec);
	do {
		err = ask_once(exec, spec, &tries);
	} while (!err && was_busy(exec) && box_is_alive(box));
	if (!err && exec->phase == FAILED)
		err = box_is_alive(box) ? word_explain(&exec->failure, spec) : word_box_lost();
	if (err) {
		drop(exec);
		return err_while(err, "start a command in %s", box->id);
	}
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

fallible exec_wait(struct exec *exec, int64_t deadline, struct exec_result *out)
{
	while (exec->phase != DONE)
		TRY(bell_wait(&exec->bell, deadline), "wait for a command");
	*out = exec->result;
	return OK;
}

void exec_drop(struct exec *exec)
{
	if (exec)
		drop(exec);
}
