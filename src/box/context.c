// Requests to the contexts of a box: create, restart, delete, end with the box. A context is a
// process that is sent cells and answers as a session's shell does; box/bash drives both.
//
// A context whose process has ended stays in the table, so that a client can learn its state, until
// it is deleted, restarted, or evicted for a new one.
#include "box/context.h"

#include "base/clock.h"
#include "base/mem.h"
#include "box/context_private.h"
#include "box/exec_message.h"

#define START_MS 60000
#define SETTLE_MS 5000

static fallible copy_err(const struct err *err)
{
	return err_from(err_kind(err), err_reason(err), err_message(err), err_hint_of(err));
}

static void set_off(struct context *context)
{
	if (context->shell || context->starting)
		return;
	err_free(take_ptr(context->failure));
	if (!context_warm_take(context))
		context_start(context);
	if (context->state_file)
		tape_files_prepare(&contexts_of(context->box)->tapes); // for its first cell
}

static fallible bring_up(struct context *context)
{
	int64_t deadline = loop_now(context->box->loop) + START_MS;

	set_off(context);
	while (context->listed && !context->ready) {
		if (context->failure)
			return box_is_alive(context->box) ? copy_err(context->failure)
							  : exec_message_box_lost();
		TRY(condition_wait(&context->changed, deadline), "wait for an interpreter");
	}
	if (context->listed)
		return context->shell ? exec_await_label(context->shell->exec, deadline) : OK;
	return box_is_alive(context->box)
		       ? err_new(NOT_FOUND, "no_context", "the context was deleted")
		       : exec_message_box_lost();
}

fallible context_create(struct box *box, const struct context_spec *spec, struct context **out)
{
	struct context *context;
	struct err *err;

	if (!box_is_alive(box))
		return exec_message_box_lost();
	if (spec->language == CONTEXT_TYPESCRIPT && !context_has_typescript())
		return err_hint(err_new(NOT_OFFERED, "no_typescript",
					"this build of cove has no TypeScript"),
				"use javascript, or build cove where npm can be reached");
	TRY(contexts_make_room(contexts_of(box)));
	context = context_make(box, spec, NULL, NULL);
	context_ref(context);
	set_off(context);
	context_state_write(context); // while the process starts
	err = bring_up(context);
	if (err) {
		context_delete(context);
		context_unref(context);
		return err;
	}
	*out = context;
	return OK;
}

static void kill_wait(struct context *context)
{
	task_shield(true);
	if (context->shell)
		bash_kill_wait(context->shell);
	task_shield(false);
}

void context_delete(struct context *context)
{
	auto_err gone = err_new(NOT_FOUND, "no_context", "the context was deleted");

	context_ref(context);
	if (context->run)
		context->run->result.deleted = true;
	context_unlist(context);
	context_fail_all(context, gone);
	context_state_erase(context);
	kill_wait(context);
	context_unref(context);
}

fallible context_restart(struct context *context)
{
	struct bash *old = context->shell;
	struct err *err = OK;

	if (context->run)
		context->run->result.deleted = true;
	context->restarting = true;
	kill_wait(context);
	// Its last output is still being read.
	while (old && context->listed && context->shell == old && !err)
		err = condition_wait(&context->changed, CLOCK_NEVER);
	context->restarting = false;
	// The end of a cell is on disk before a later cell can begin.
	tape_files_settle(&contexts_of(context->box)->tapes);
	return err ? err : bring_up(context);
}

void contexts_end(struct box *box)
{
	auto_err err = exec_message_box_lost();
	struct exec_result lost = {.ending = ENDING_BOX_LOST};

	if (!box->contexts)
		return;
	context_warm_end(box);
	list_each (at, &box->contexts->all) {
		struct context *context = link_of(at, struct context, link);

		context_ref(context);
		context_fail_all(context, err);
		if (!context->shell) // else its last output is still being read
			context_end_run(context, &lost);
		context_unref(context);
	}
}

void contexts_close(struct box *box)
{
	auto_err err = exec_message_box_lost();
	struct exec_result lost = {.ending = ENDING_BOX_LOST};

	if (!box->contexts)
		return;
	context_warm_end(box);
	list_each (at, &box->contexts->all) {
		struct context *context = link_of(at, struct context, link);

		context_ref(context);
		context->left = true;
		context_unlist(context);
		context_fail_all(context, err);
		context_end_run(context, &lost);
		context_unref(context);
	}
}

// A context whose process has ended and whose last output is still being read; held. NULL: none.
static struct context *find_ending(struct box *box)
{
	list_each (at, &box->contexts->all) {
		struct context *context = link_of(at, struct context, link);

		if (!context->shell || !context->shell->done)
			continue;
		context_ref(context);
		return context;
	}
	return NULL;
}

void contexts_settle(struct box *box)
{
	int64_t deadline = loop_now(box->loop) + SETTLE_MS;
	struct context *context;

	if (!box->contexts)
		return;
	while (loop_now(box->loop) < deadline && (context = find_ending(box))) {
		err_free(condition_wait(&context->changed, deadline));
		context_unref(context);
	}
	tape_files_settle(&box->contexts->tapes);
}

void contexts_free(struct box *box)
{
	if (!box->contexts)
		return;
	context_warm_free(box);
	tape_files_done(&box->contexts->tapes);
	free(take_ptr(box->contexts));
}
