// Adopts the contexts of a previous daemon. State files and the tapes of cells are in the box's
// folder; pid 1 holds the processes. Whether a process is idle or runs a cell is unknown, so it is
// sent a no-op, which it answers when it is idle. Output until that answer belongs to the cell
// whose tape has no end record; if there is none, to a cell whose tape was not yet written.
//
// A process that may have read only half of a cell (EXEC_LABEL_HALF, protocol/exec_label.h) would
// take the no-op for the other half, and is killed.
#include "base/clock.h"
#include "base/mem.h"
#include "box/adoption.h"
#include "box/box_file.h"
#include "box/context_private.h"

// The next file number of that letter above `over`; 0: none.
static uint32_t next_above(const struct adoption *adoption, char letter, uint32_t over)
{
	uint32_t best = 0, number;

	for (size_t i = 0; i < adoption->name_count; i++)
		if (adoption_number(adoption->names[i], letter, &number) && number > over &&
		    (!best || number < best))
			best = number;
	return best;
}

static struct context *context_adopt_find(struct box *box, uint32_t state_file)
{
	list_each (at, &box->contexts->all) {
		struct context *context = link_of(at, struct context, link);

		if (context->state_file == state_file)
			return context;
	}
	return NULL;
}

static fallible adopt_state_files(struct adoption *adoption)
{
	struct box *box = adoption->box;
	struct contexts *table = contexts_of(box);
	uint32_t at = 0;

	while ((at = next_above(adoption, CONTEXT_STATE_FILE, at))) {
		struct context *context = NULL;

		if (!context_adopt_find(box, at))
			TRY(context_state_read(box, at, &context));
		if (context)
			context->state_file = at; // the file keeps its number
		else
			box_file_remove_later(box, CONTEXT_STATE_FILE, at);
		table->state_files = at;
	}
	return OK;
}

// Ends a cell whose process ended unseen.
static void end_lost(struct context_run *run)
{
	run->result.end = CONTEXT_DIED;
	run->result.status = 1;
	run->result.exec.ending = ENDING_BOX_LOST;
	run->done = true;
	tape_end(run->tape);
	context_file(run, NULL);
	context_run_let_go(run);
}

// Ends a cell whose end was not seen: a later cell has started, so all of its output is on the
// tape.
static void end_unseen(struct context_run *run)
{
	run->result.end = CONTEXT_DONE;
	run->result.unseen = true;
	run->done = true;
	tape_end(run->tape);
	context_file(run, NULL);
	context_run_let_go(run);
}

// The running cell is the last one without an end record.
static void context_adopt_list_run(struct context_run *run, bool ended)
{
	struct context *context = run->context;
	struct context_run *other = context->run;

	if (ended) {
		context_list_past(run);
		return;
	}
	context->run = !other || other->number < run->number ? run : other;
	if (other)
		end_unseen(context->run == run ? other : run);
}

static fallible adopt_tape(struct adoption *adoption, uint32_t number)
{
	struct box *box = adoption->box;
	auto_free char *name = mem_fmt("%s/%c%u", box->id, CONTEXT_TAPE, number);
	struct context *context;
	struct context_run *run;
	struct tape_label label;
	struct tape *tape = NULL;
	struct err *err = tape_open(box->loop, box->tapes_dir, name, &tape, &label);
	bool ended;

	if (err && err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_INVALID)
		return err;
	if (err) { // a file that was prepared for the next cell
		err_free(err);
		box_file_remove_later(box, CONTEXT_TAPE, number);
		return OK;
	}
	context = context_find(box, label.id);
	if (!context) {
		tape_unref(tape); // and removes its file
		return OK;
	}
	tape_bound(tape, box_tape_budget(box));
	run = context_recover(context, tape, &label, &ended);
	context_adopt_list_run(run, ended);
	context_unref(context);
	return OK;
}

// The rest of a time limit.
static int64_t left_of(const struct context_run *run)
{
	int64_t passed = run->started_ms ? clock_wall_ms() - run->started_ms : 0;

	return (int64_t)run->timeout_ms - (passed > 0 ? passed : 0);
}

static fallible take_process(struct context *context, struct adoptee *held)
{
	bool half = held->label.flags & EXEC_LABEL_HALF;
	bool talks = held->talk.held.flags & TALK_EXEC_DIALOGUE;
	uint32_t sender = held->label.sender;
	struct context_run *run = take_ptr(context->run);
	struct exec *exec = NULL;
	struct bash *shell = NULL;
	struct err *err;

	if (!run) {
		struct tape *tape = context_new_tape(context, ++context->number, 0);

		run = context_run_new(context, context->number, tape);
		run->doubtful = true;
		run->timeout_ms = context->timeout_ms;
	}
	err = adoptee_take(held, context->box, NULL, &exec);
	if (!err && talks)
		err = bash_adopt(exec, run->tape, sender, &shell);
	if (err || !talks) {
		if (!err) {
			exec_filed(exec);
			exec_kill(exec);
			exec_unref(exec);
		}
		end_lost(run);
		return err;
	}
	context_attach(context, shell);
	context_resume(context, run, left_of(run));
	if (half)
		bash_kill(shell);
	return OK;
}

// Kills processes without a context: spares, or contexts whose state file was not yet written.
static void end_rest(struct adoption *adoption)
{
	list_each (at, &adoption->helds) {
		struct adoptee *held = link_of(at, struct adoptee, link);
		struct exec *exec;
		struct err *err;

		if (held->label.kind != EXEC_LABEL_CONTEXT)
			continue;
		err = adoptee_take(held, adoption->box, NULL, &exec);
		if (err) {
			err_free(err);
			continue;
		}
		exec_filed(exec);
		exec_kill(exec);
		exec_unref(exec);
	}
}

fallible contexts_adopt(struct adoption *adoption)
{
	struct box *box = adoption->box;
	auto_free uint32_t *tapes = adoption_numbers(adoption, CONTEXT_TAPE);
	uint32_t number;

	if (!next_above(adoption, CONTEXT_STATE_FILE, 0) &&
	    !next_above(adoption, CONTEXT_TAPE, 0)) {
		end_rest(adoption);
		return OK;
	}
	TRY(adopt_state_files(adoption), "read the state_files");
	box->contexts->tapes.files = tapes[0];
	for (size_t i = 0; i < adoption->name_count; i++) {
		if (!adoption_number(adoption->names[i], CONTEXT_TAPE, &number))
			continue;
		TRY(adopt_tape(adoption, number));
	}
	list_each (link, &box->contexts->all) {
		struct context *context = link_of(link, struct context, link);
		struct adoptee *held = adoption_find(adoption, EXEC_LABEL_CONTEXT,
						     context->state_file);

		if (held)
			TRY(take_process(context, held));
		else if (context->run)
			end_lost(take_ptr(context->run));
	}
	end_rest(adoption);
	return OK;
}
