// A cell of a context and its record, the tape "BOX/cN": output, and an end record that is written
// with a short delay (box/tape_files.h). The last ended cells of a context can be read again, also
// by the next daemon.
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/context_private.h"
#include "box/tape_files.h"

void context_past_forget(struct context_run *run)
{
	link_drop(&run->run.link);
	context_of(run)->past_count--;
	if (run->run.repl->unit.box->left)
		tape_leave(run->run.tape);
	repl_run_unref(&run->run);
}

// Bits of tape_ending.status for a cell.
enum cell_end_flags {
	CELL_DIED = 1,
	CELL_LATE = 2,
	CELL_DELETED = 4,
	CELL_UNSEEN = 8,
	CELL_FAILED = 16,
};

struct tape *context_new_tape(struct context *context, uint64_t number, uint64_t timeout_ms)
{
	struct unit *unit = &context->repl.unit;
	char text[24];
	struct tape_label label = {
		.id = str_of(unit->id),
		.started_ms = clock_wall_ms(),
		.cap = context->repl.output_cap,
		.wall_ms = timeout_ms,
	};

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	label.command = str_of(text);
	return unit->file ? tape_files_take(context_tapes(unit->box), &label)
			  : unit_new_tape(unit->box, 0, 0, &label);
}

// Held by the caller. `tape` is taken over.
struct context_run *context_run_new(struct context *context, uint64_t number, struct tape *tape)
{
	struct context_run *run = mem_new_of(struct context_run);

	repl_run_init(&run->run, &context->repl, CONTEXT_CODE_MAX + 1, tape);
	run->number = number;
	return run;
}

// Lists an ended run by number; takes the reference.
void context_list_past(struct context_run *run)
{
	struct context *context = context_of(run);
	struct link *at = context->past.prev;

	while (at != &context->past &&
	       link_of(at, struct context_run, run.link)->number > run->number)
		at = at->prev;
	link_add(at->next, &run->run.link);
	context->past_count++;
	while (context->past_count > CONTEXT_PAST_MAX)
		context_past_forget(link_of(context->past.next, struct context_run, run.link));
}

static struct tape_ending cell_ending(const struct context_result *result)
{
	return (struct tape_ending){
		.ended_ms = clock_steady_ms(),
		.exit_code = result->exec.exit_code,
		.signal = result->exec.signal,
		.ending = result->exec.ending,
		.status = (uint8_t)((result->end == CONTEXT_DIED ? CELL_DIED : 0) |
				    (result->timed_out ? CELL_LATE : 0) |
				    (result->deleted ? CELL_DELETED : 0) |
				    (result->unseen ? CELL_UNSEEN : 0) |
				    (result->status ? CELL_FAILED : 0)),
		// The field in which processes store their duration.
		.duration_ms = (int64_t)result->count,
	};
}

void cell_recover_end(struct context_result *result, const struct tape_ending *ending)
{
	uint8_t flags = ending->status;

	result->end = flags & CELL_DIED ? CONTEXT_DIED : CONTEXT_DONE;
	result->timed_out = flags & CELL_LATE;
	result->deleted = flags & CELL_DELETED;
	result->unseen = flags & CELL_UNSEEN;
	result->status = flags & CELL_FAILED ? 1 : 0;
	result->count = (uint64_t)ending->duration_ms;
	result->exec.exit_code = ending->exit_code;
	result->exec.signal = ending->signal;
	result->exec.ending = ending->ending <= ENDING_BOX_LOST ? (enum ending)ending->ending
								: ENDING_EXITED;
}

// Lists an ended cell and writes its end record. `exec`: of a process that ended with it.
void context_file(struct context_run *run, struct exec *exec)
{
	struct box *box = run->run.repl->unit.box;
	struct tape_ending ending = cell_ending(&run->result);

	if (box->left) {
		tape_leave(run->run.tape);
	} else if (tape_is_named(run->run.tape)) {
		tape_files_seal(context_tapes(box), run->run.tape, &ending, exec);
		tape_files_prepare(context_tapes(box));
	} else if (exec) {
		exec_filed(exec);
	}
	if (!run->run.repl->unit.listed || box->left)
		return;
	run->run.refs++;
	context_list_past(run);
}

// Ends a cell that was sent, or would have been.
void context_run_finish(struct context_run *run, struct exec *exec)
{
	tape_end(run->run.tape);
	if (run->doubtful && !tape_kept(run->run.tape)) {
		context_of(run)->number -= run->number == context_of(run)->number;
		run->run.phase = RUN_QUEUED; // it never was
		if (exec)
			exec_filed(exec);
	} else {
		context_file(run, exec);
	}
	repl_run_settle(&run->run);
}

void context_each_cell(struct context *context, void (*each)(struct context_run *run, void *arg),
		       void *arg)
{
	list_each (at, &context->past)
		each(link_of(at, struct context_run, run.link), arg);
	if (context->repl.run)
		each((struct context_run *)context->repl.run, arg);
	list_each (at, &context->repl.queue)
		each(link_of(at, struct context_run, run.link), arg);
}

struct cell_search {
	uint64_t number;
	struct context_run *found;
};

static void context_match_cell(struct context_run *run, void *arg)
{
	struct cell_search *search = arg;

	if (run->number == search->number)
		search->found = run;
}

struct context_run *context_cell(struct context *context, uint64_t number)
{
	struct cell_search search = {.number = number};

	context_each_cell(context, context_match_cell, &search);
	if (search.found) {
		search.found->run.refs++;
		search.found->run.holders++;
	}
	return search.found;
}

struct tape *context_run_tape(struct context_run *run)
{
	return run->run.tape;
}

fallible context_run_wait(struct context_run *run, int64_t deadline, struct context_result *out)
{
	TRY(repl_run_wait(&run->run, deadline));
	*out = run->result;
	return OK;
}

fallible context_run_await_record(struct context_run *run, int64_t deadline)
{
	while (tape_is_unlabelled(run->run.tape) && run->run.phase != RUN_SKIPPED)
		TRY(tape_await_write(run->run.tape, deadline), "wait for the record of a cell");
	while (context_run_is_recorded(run) && !run->run.is_sent && !run->resumed &&
	       run->run.phase < RUN_ENDED)
		TRY(condition_wait(&run->run.condition, deadline), "wait for a cell to be sent");
	return OK;
}

bool context_run_is_recorded(const struct context_run *run)
{
	return !tape_is_named(run->run.tape) || tape_is_labelled(run->run.tape);
}

uint64_t context_run_number(const struct context_run *run)
{
	return run->number;
}

bool context_run_has_ended(const struct context_run *run)
{
	return run->run.phase >= RUN_ENDED;
}

const char *context_run_key(const struct context_run *run)
{
	return context_of(run)->key;
}

void context_run_drop(struct context_run *run)
{
	repl_run_drop(&run->run);
}
