// The queue of cells of a context. One cell runs; the others wait in order of arrival; a cell that
// no caller holds when its turn comes is skipped. Everything happens in callbacks of the process
// and of timers, so a cell runs to its end even if its client has gone.
//
// A cell past its time limit is interrupted, then killed with its process. The label of its tape is
// on disk before the process is sent the cell: the next daemon knows every cell that may have
// started and never takes its output for an earlier one's.
#include <signal.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "box/context_private.h"
#include "box/exec_message.h"

#define HEAD_MAX 128 // bytes of the header before the code

static fallible word_died(void)
{
	return err_hint(err_new(INTERNAL, "context_died", "the process of the context has ended"),
			"restart it with POST /api/contexts/{id}/restart, or make another");
}

// Ends a queued or running cell; `exec` ended with it.
static void context_run_finish(struct context_run *run, struct exec *exec)
{
	struct loop *loop = run->context->box->loop;

	loop_drop_timer(loop, &run->timer);
	run->done = true;
	tape_end(run->tape);
	condition_signal(&run->condition);
	if (run->doubtful && !tape_kept(run->tape)) {
		run->begun = false;
		run->context->number -= run->number == run->context->number;
	}
	if (run->begun)
		context_file(run, exec);
	else if (exec)
		exec_filed(exec);
	context_run_let_go(run);
}

static void unqueue(struct context_run *run)
{
	link_drop(&run->link);
	run->context->waiting--;
}

static void run_tell(struct context_run *run)
{
	struct context *context = run->context;
	struct buf words = BUF_INIT(CONTEXT_CODE_MAX + HEAD_MAX);
	uint64_t mark;

	secret_random(&mark, sizeof(mark));
	buf_fmt(&words, "run %llu %zu\n", (unsigned long long)mark, run->code.len);
	buf_str(&words, buf_view(&run->code));
	buf_done(&run->code);
	if (run->timeout_ms)
		loop_set_timer(context->box->loop, &run->timer,
			       loop_now(context->box->loop) + (int64_t)run->timeout_ms);
	bash_tell_other(context->shell, &words, mark, run->tape);
}

// Writes the label, then sends the cell. A failing disk does not keep the cell from running.
static void run_label_task(void *arg)
{
	struct context_run *run = arg;
	struct context *context = run->context;

	task_shield(true);
	tape_begin(run->tape);
	if (context->run == run && context->shell && !context->shell->done)
		run_tell(run); // else the process, and the cell with it, has ended meanwhile
	context_run_let_go(run);
}

static void run_begin(struct context *context, struct context_run *run)
{
	context->run = run;
	run->begun = true;
	run->result.count = ++context->cells;
	if (!tape_is_named(run->tape)) {
		run_tell(run);
		return;
	}
	run->refs++; // the task's reference
	task_start(context->box->loop, "tape.begin", run_label_task, run);
}

void context_pump(struct context *context)
{
	while (!context->run && !link_empty(&context->queue)) {
		struct context_run *run = link_of(context->queue.next, struct context_run, link);

		if (run->holders && (!context->shell || context->shell->done || !context->ready))
			return;
		unqueue(run);
		if (run->holders)
			run_begin(context, run);
		else
			context_run_finish(run, NULL);
	}
}

// Replaces a spare that ended or cannot be configured by a new process. False: the process was no
// spare.
static bool context_warm_failed(struct context *context)
{
	struct bash *shell = context->shell;

	if (!shell || !context->warmed || context->ready || !context->listed ||
	    !box_is_alive(context->box))
		return false;
	context->shell = NULL;
	context->warmed = false;
	exec_filed(shell->exec);
	bash_drop(shell);
	context_start(context);
	return true;
}

// The driver reported an end, and the output until then is on the tape.
static void context_run_on_ended(struct bash *shell)
{
	struct context *context = shell->owner;
	struct context_run *run = context->run;

	if (!context->ready && shell->status && context_warm_failed(context))
		return;
	if (shell->cwd && strcmp(shell->cwd, context->cwd) != 0) {
		free(context->cwd);
		context->cwd = mem_str(shell->cwd);
	}
	context_ref(context);
	if (!context->ready) {
		context->ready = true;
		context->warmed = false;
		condition_signal(&context->changed);
	} else if (run) {
		run->result.end = CONTEXT_DONE;
		run->result.status = shell->status;
		run->result.timed_out = run->late;
		run->result.unseen = context->resuming;
		// The driver writes an event at the end of every cell: an empty tape means that
		// this cell was never sent.
		run->doubtful |= context->resuming && !tape_kept(run->tape);
		context->run = NULL;
		if (context->resuming)
			bash_turn_aside(shell, context->aside);
		context->resuming = false;
		context_run_finish(run, NULL);
	}
	context_pump(context);
	context_unref(context);
}

static void end_run(struct context *context, const struct exec_result *result, struct exec *exec)
{
	struct context_run *run = context->run;

	context->resuming = false;
	if (!run) {
		if (exec)
			exec_filed(exec);
		return;
	}
	run->result.end = CONTEXT_DIED;
	run->result.status = 1;
	run->result.exec = *result;
	run->result.timed_out = run->late;
	context->run = NULL;
	context_run_finish(run, exec);
}

void context_end_run(struct context *context, const struct exec_result *result)
{
	end_run(context, result, NULL);
}

static void fail_waiting(struct context *context)
{
	auto_err died = box_is_alive(context->box) ? word_died() : exec_message_box_lost();

	if (!context->restarting)
		context_fail_all(context, died);
}

static void context_run_on_lost(struct bash *shell)
{
	struct context *context = shell->owner;
	struct exec_result result = shell->exec->result;

	if (context_warm_failed(context))
		return;
	context_ref(context);
	context->shell = NULL;
	context->cells = 0;
	if (!context->ready && !context->failure)
		context->failure = err_new(UNAVAILABLE, "interpreter_failed",
					   "the interpreter ended at once, with %d",
					   result.exit_code);
	context->ready = false;
	end_run(context, &result, shell->exec);
	fail_waiting(context);
	bash_drop(shell);
	condition_signal(&context->changed);
	context_unref(context);
}

void context_attach(struct context *context, struct bash *shell)
{
	shell->owner = context;
	shell->ended = context_run_on_ended;
	shell->lost = context_run_on_lost;
	context->shell = shell;
	context->ready = false;
}

void context_fail_all(struct context *context, const struct err *err)
{
	while (!link_empty(&context->queue)) {
		struct context_run *run = link_of(context->queue.next, struct context_run, link);

		unqueue(run);
		run->failure = err_from(err_kind(err), err_reason(err), err_message(err),
					err_hint_of(err));
		context_run_finish(run, NULL);
	}
}

static fallible context_run_start(struct context *context, struct bash **out)
{
	struct exec_label label = {
		.kind = EXEC_LABEL_CONTEXT,
		.file = context->state_file,
		.id = str_of(context->id),
	};

	return context_spawn(&(struct context_launch){.box = context->box,
						      .language = context->language,
						      .env = (const char *const *)context->env,
						      .cwd = context->start_cwd,
						      .cpu_milli = context->cpu_milli,
						      .aside = context->aside,
						      .key = context->key,
						      .label = context->state_file ? &label : NULL},
			     out);
}

static void context_run_start_task(void *arg)
{
	struct context *context = arg;
	struct bash *shell = NULL;
	struct err *err;

	task_shield(true);
	err = context_run_start(context, &shell);
	context->starting = false;
	if (shell)
		context_attach(context, shell);
	if (shell && !context->listed)
		bash_kill(shell);
	if (err) {
		err_free(context->failure);
		context->failure = err;
		context_fail_all(context, err);
	}
	condition_signal(&context->changed);
	context_unref(context);
}

void context_start(struct context *context)
{
	context->starting = true;
	context_ref(context);
	task_start(context->box->loop, "context.start", context_run_start_task, context);
}

bool context_interrupt(struct context *context)
{
	if (!context->run || !context->shell || !context->ready)
		return false;
	exec_signal_alone(context->shell->exec, SIGINT);
	return true;
}

static fallible context_run_check(const struct context *context, struct str code)
{
	if (code.len > CONTEXT_CODE_MAX)
		return err_new(TOO_LARGE, "code_too_large", "the code of a cell may have %d KiB",
			       CONTEXT_CODE_MAX / 1024);
	if (context->waiting >= CONTEXT_WAITING_MAX)
		return err_new(EXHAUSTED, "context_busy", "%d cells wait for the context already",
			       CONTEXT_WAITING_MAX);
	return context->shell || context->starting ? OK : word_died();
}

fallible context_run(struct context *context, struct str code, uint64_t timeout_ms,
		     struct context_run **out)
{
	struct context_run *run;
	struct tape *tape;

	TRY(context_run_check(context, code));
	timeout_ms = timeout_ms ? timeout_ms : context->timeout_ms;
	tape = context_new_tape(context, ++context->number, timeout_ms);
	run = context_run_new(context, context->number, tape);
	run->refs++; // the caller's reference
	run->holders = 1;
	run->timeout_ms = run->result.timeout_ms = timeout_ms;
	buf_str(&run->code, code);
	context->waiting++;
	link_add(&context->queue, &run->link);
	context_pump(context);
	*out = run;
	return OK;
}

void context_resume(struct context *context, struct context_run *run, int64_t left_ms)
{
	struct loop *loop = context->box->loop;
	struct buf words = BUF_INIT(HEAD_MAX);
	uint64_t mark;

	secret_random(&mark, sizeof(mark));
	buf_fmt(&words, "still %llu 0\n", (unsigned long long)mark);
	context->run = run;
	context->resuming = context->ready = true;
	run->begun = true;
	run->result.timeout_ms = run->timeout_ms;
	if (run->timeout_ms)
		loop_set_timer(loop, &run->timer, loop_now(loop) + (left_ms > 0 ? left_ms : 1));
	bash_tell_other(context->shell, &words, mark, run->tape);
}

struct tape *context_run_tape(struct context_run *run)
{
	return run->tape;
}

fallible context_run_wait(struct context_run *run, int64_t deadline, struct context_result *out)
{
	while (!run->done)
		TRY(condition_wait(&run->condition, deadline));
	if (run->failure)
		return err_from(err_kind(run->failure), err_reason(run->failure),
				err_message(run->failure), err_hint_of(run->failure));
	*out = run->result;
	return OK;
}

fallible context_run_await_record(struct context_run *run, int64_t deadline)
{
	while (tape_is_unlabelled(run->tape) && !(run->done && !run->begun))
		TRY(tape_await_write(run->tape, deadline), "wait for the record of a cell");
	return OK;
}

bool context_run_is_recorded(const struct context_run *run)
{
	return !tape_is_named(run->tape) || tape_is_labelled(run->tape);
}

uint64_t context_run_number(const struct context_run *run)
{
	return run->number;
}

bool context_run_has_ended(const struct context_run *run)
{
	return run->done;
}

const char *context_run_key(const struct context_run *run)
{
	return run->context->key;
}

void context_run_drop(struct context_run *run)
{
	run->holders--;
	context_run_let_go(run);
}
