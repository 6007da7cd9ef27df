// The last ended cells of each context. The record of a cell is its tape alone, a file in the box's
// folder: the next daemon reads output and end from it. The end record is written with a short
// delay (box/tape_files.h).
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/context_private.h"

// Bits of tape_ending.status for a cell.
enum end_flags { END_DIED = 1, END_LATE = 2, END_DELETED = 4, END_UNSEEN = 8, END_FAILED = 16 };

struct tape *context_new_tape(struct context *context, uint64_t number, uint64_t timeout_ms)
{
	struct box *box = context->box;
	char text[24];
	struct tape_label label = {
		.id = str_of(context->id),
		.started_ms = clock_wall_ms(),
		.cap = context->output_cap,
		.wall_ms = timeout_ms,
	};
	struct tape *tape;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	label.command = str_of(text);
	if (context->state_file)
		return tape_files_take(&contexts_of(box)->tapes, &label);
	tape = tape_new(box->loop, box->tapes_dir, context->output_cap);
	tape_bound(tape, box_tape_budget(box));
	return tape;
}

void context_list_past(struct context_run *run)
{
	struct context *context = run->context;
	struct link *at = context->past.prev;

	while (at != &context->past && link_of(at, struct context_run, link)->number > run->number)
		at = at->prev;
	link_add(at->next, &run->link); // sorted by number
	context->past_count++;
	while (context->past_count > CONTEXT_PAST_MAX)
		context_past_forget(link_of(context->past.next, struct context_run, link));
}

bool contexts_let_oldest_go(struct box *box)
{
	struct context_run *oldest = NULL;

	if (!box->contexts)
		return false;
	list_each (at, &box->contexts->all) {
		struct context *context = link_of(at, struct context, link);

		if (link_empty(&context->past) ||
		    (oldest && oldest->context->past_count >= context->past_count))
			continue;
		oldest = link_of(context->past.next, struct context_run, link);
	}
	if (!oldest)
		return false;
	context_past_forget(oldest);
	return true;
}

static struct tape_ending ending_of(const struct context_result *result)
{
	uint8_t flags = result->end == CONTEXT_DIED ? END_DIED : 0;

	flags |= result->timed_out ? END_LATE : 0;
	flags |= result->deleted ? END_DELETED : 0;
	flags |= result->unseen ? END_UNSEEN : 0;
	flags |= result->status ? END_FAILED : 0;
	return (struct tape_ending){
		.ended_ms = clock_steady_ms(),
		.exit_code = result->exec.exit_code,
		.signal = result->exec.signal,
		.ending = result->exec.ending,
		.status = flags,
		.duration_ms =
			(int64_t)result->count, // the field in which processes store their duration
	};
}

static void recover_end(struct context_result *result, const struct tape_ending *ending)
{
	uint8_t flags = ending->status;

	result->end = flags & END_DIED ? CONTEXT_DIED : CONTEXT_DONE;
	result->timed_out = flags & END_LATE;
	result->deleted = flags & END_DELETED;
	result->unseen = flags & END_UNSEEN;
	result->status = flags & END_FAILED ? 1 : 0;
	result->count = (uint64_t)ending->duration_ms;
	result->exec.exit_code = ending->exit_code;
	result->exec.signal = ending->signal;
	result->exec.ending = ending->ending <= ENDING_BOX_LOST ? (enum ending)ending->ending
								: ENDING_EXITED;
}

void context_file(struct context_run *run, struct exec *exec)
{
	struct context *context = run->context;
	struct tape_ending ending = ending_of(&run->result);

	if (context->left) {
		tape_leave(run->tape);
	} else if (tape_is_named(run->tape)) {
		tape_files_seal(&contexts_of(context->box)->tapes, run->tape, &ending, exec);
		tape_files_prepare(&contexts_of(context->box)->tapes);
	} else if (exec) {
		exec_filed(exec);
	}
	if (!context->listed || context->left)
		return;
	run->refs++;
	context_list_past(run);
}

struct context_run *context_recover(struct context *context, struct tape *tape,
				    const struct tape_label *label, bool *out_ended)
{
	struct tape_ending ending;
	struct context_run *run;
	uint64_t number = 0;

	(void)str_to_u64(label->command, 1, INT64_MAX, &number);
	if (number > context->number)
		context->number = number;
	run = context_run_new(context, number, tape);
	run->begun = true;
	run->started_ms = label->started_ms;
	run->timeout_ms = run->result.timeout_ms = label->wall_ms;
	*out_ended = tape_ending_of(tape, &ending);
	if (*out_ended) {
		run->done = true;
		recover_end(&run->result, &ending);
	}
	return run;
}

struct context_run *context_cell(struct context *context, uint64_t number)
{
	struct context_run *found = NULL;

	if (context->run && context->run->number == number)
		found = context->run;
	list_each (at, &context->past)
		if (link_of(at, struct context_run, link)->number == number)
			found = link_of(at, struct context_run, link);
	list_each (at, &context->queue)
		if (link_of(at, struct context_run, link)->number == number)
			found = link_of(at, struct context_run, link);
	if (found) {
		found->refs++;
		found->holders++;
	}
	return found;
}

void context_each_cell(struct context *context, void (*each)(struct context_run *run, void *arg),
		       void *arg)
{
	list_each (at, &context->past)
		each(link_of(at, struct context_run, link), arg);
	if (context->run)
		each(context->run, arg);
	list_each (at, &context->queue)
		each(link_of(at, struct context_run, link), arg);
}
