// A context is a REPL whose process is an interpreter, driven by a program of ours (src/kernels)
// that is sent cells and answers as a shell does. A context whose process has ended stays in the
// table, so that a client can learn its state, until it is deleted, restarted, or evicted.
//
// A cell past its time limit is interrupted, then killed with its process. The label of its tape is
// on disk before the process is sent the cell: the next daemon knows every cell that may have
// started and never takes its output for an earlier one's. The state file "BOX/kN" is on disk
// before the client that creates the context is answered.
#include "box/context.h"

#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "box/box_file.h"
#include "box/context_private.h"
#include "box/exec_message.h"
#include "box/repl.h"
#include "box/tape_files.h"
#include "protocol/cell.h"

#define START_MS 60000
#define SETTLE_MS 5000
#define HEAD_MAX 128 // bytes of the header before the code

// --------------------------------------------------------------------------------------- the table

void context_unref(struct context *context)
{
	unit_unref(&context->repl.unit);
}

static void context_unlist(struct context *context)
{
	if (!context->repl.unit.listed)
		return;
	list_each (at, &context->past) // ended runs hold the context
		context_past_forget(link_of(at, struct context_run, run.link));
	unit_unlist(&context->repl.unit);
}

static bool context_evict(struct unit *unit)
{
	struct context *context = (struct context *)unit;

	if (context->repl.phase != REPL_DOWN || unit->refs > 1)
		return false;
	repl_file_drop(&context->repl);
	context_unlist(context);
	return true;
}

static void context_make_id(char out[CONTEXT_ID + 1])
{
	uint8_t b[16];

	secret_random(b, sizeof(b));
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); // RFC 9562: version 4
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	snprintf(out, CONTEXT_ID + 1,
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		 b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		 b[15]);
}

// Without a process; the caller holds it. `id`, `key`: NULL for new ones.
static struct context *context_new(struct box *box, const struct context_spec *spec, const char *id,
				   const char *key, uint32_t file)
{
	struct context *context = mem_new_of(struct context);
	struct repl_spec parameters = {
		.cwd = spec->cwd,
		.timeout_ms = spec->timeout_ms,
		.output_cap = spec->output_cap,
		.cpu_milli = spec->cpu_milli,
	};
	struct tape_label label = {.cap = spec->output_cap};
	char made[CONTEXT_ID + 1];

	if (!id)
		context_make_id(made);
	repl_init(&context->repl, &context_kind, box, str_of(id ? id : made));
	repl_configure(&context->repl, &parameters, repl_copy_env(spec->env));
	if (key)
		memcpy(context->key, key, CELL_KEY);
	else
		secret_hex(context->key, CELL_KEY / 2);
	context->language = spec->language;
	context->is_default = spec->is_default;
	context->repl.unit.file = file;
	context->repl.unit.tape = unit_new_tape(box, 0, 0, &label);
	link_init(&context->past);
	unit_list(&context->repl.unit);
	return context;
}

struct context *context_find(struct box *box, struct str id)
{
	return (struct context *)unit_find(box, &context_kind, id);
}

struct context *context_default(struct box *box, enum context_language language)
{
	units_each (at, box, &context_kind) {
		struct context *context = unit_of(at, struct context);

		if (!context->is_default || context->language != language ||
		    context->repl.phase == REPL_DOWN)
			continue;
		unit_ref(&context->repl.unit);
		return context;
	}
	return NULL;
}

void context_each(struct box *box, void (*each)(struct context *context, void *arg), void *arg)
{
	units_each (at, box, &context_kind)
		each(unit_of(at, struct context), arg);
}

struct context_view context_view(const struct context *context)
{
	const struct repl *repl = &context->repl;

	return (struct context_view){
		.id = repl->unit.id,
		.cwd = repl->cwd,
		.language = context->language,
		.alive = repl->phase != REPL_DOWN,
		.busy = repl->run != NULL,
		.pid = repl->shell ? exec_pid(repl->shell->exec) : 0,
		.cells = context->cells,
	};
}

// ---------------------------------------------------------------------------------- running a cell

static fallible context_err_died(void)
{
	return err_hint(err_new(INTERNAL, "context_died", "the process of the context has ended"),
			"restart it with POST /api/contexts/{id}/restart, or make another");
}

static fallible context_err_deleted(const struct repl *repl)
{
	(void)repl;
	return err_new(NOT_FOUND, "no_context", "the context was deleted");
}

static void context_report(struct context_run *run)
{
	struct repl *repl = run->run.repl;
	struct buf words = BUF_INIT(CONTEXT_CODE_MAX + HEAD_MAX);
	uint64_t mark;

	secret_random(&mark, sizeof(mark));
	buf_fmt(&words, "run %llu %zu\n", (unsigned long long)mark, run->run.words.len);
	buf_str(&words, buf_view(&run->run.words));
	buf_done(&run->run.words);
	if (run->run.timeout_ms)
		repl_run_limit(&run->run, (int64_t)run->run.timeout_ms);
	bash_send_other(repl->shell, &words, mark, run->run.tape);
}

static bool context_may_begin(struct repl *repl, struct repl_run *run)
{
	(void)run;
	return repl->phase == REPL_READY && !repl->shell->done;
}

// Writes the label, then sends the cell. A failing disk does not keep the cell from running.
static void context_label_task(void *arg)
{
	struct context_run *run = arg;
	struct repl *repl = run->run.repl;

	task_shield(true);
	tape_begin(run->run.tape);
	if (repl->run == &run->run && repl->shell && !repl->shell->done)
		context_report(run); // else the process, and the cell with it, has ended meanwhile
	repl_run_unref(&run->run);
}

static void context_begin(struct repl *repl, struct repl_run *base)
{
	struct context_run *run = (struct context_run *)base;

	run->result.count = ++((struct context *)repl)->cells;
	if (!tape_is_named(base->tape)) {
		context_report(run);
		return;
	}
	base->refs++; // the task's reference
	task_start(repl->unit.loop, "tape.begin", context_label_task, run);
}

static void context_on_limit(struct repl_run *base)
{
	struct context_run *run = (struct context_run *)base;
	struct bash *shell = base->repl->shell;

	if (!shell)
		return;
	if (run->result.timed_out) {
		bash_kill(shell);
		return;
	}
	run->result.timed_out = true;
	exec_signal_alone(shell->exec, SIGINT);
	repl_run_limit(base, CONTEXT_GRACE_MS);
}

static void context_on_ended(struct repl *repl, struct repl_run *base)
{
	struct context_run *run = (struct context_run *)base;

	run->result.end = CONTEXT_DONE;
	run->result.status = repl->shell->status;
	run->result.unseen = run->resumed;
	// The driver writes an event at the end of every cell: an empty tape means that this cell
	// was never sent.
	run->doubtful |= run->resumed && !tape_kept(base->tape);
	if (run->resumed)
		bash_turn_aside(repl->shell, repl->unit.tape);
	context_run_finish(run, NULL);
}

// The process has ended or is lost, and with it the active cell.
static void context_end_run(struct context *context, const struct exec_result *result,
			    struct exec *exec)
{
	struct context_run *run = (struct context_run *)context->repl.run;

	if (!run) {
		if (exec)
			exec_filed(exec);
		return;
	}
	run->result.end = CONTEXT_DIED;
	run->result.status = 1;
	run->result.exec = *result;
	context_run_finish(run, exec);
}

static void context_on_lost(struct repl *repl, struct bash *shell, enum repl_phase was)
{
	struct context *context = (struct context *)repl;
	struct exec_result result = shell->exec->result;
	auto_err died = box_is_alive(repl->unit.box) ? context_err_died() : exec_message_box_lost();

	context->cells = 0;
	if ((was == REPL_GREETING || was == REPL_TAKING) && !repl->failure)
		repl->failure = err_new(UNAVAILABLE, "interpreter_failed",
					"the interpreter ended at once, with %d", result.exit_code);
	context_end_run(context, &result, shell->exec);
	if (was != REPL_RESTARTING)
		repl_fail_all(repl, died);
	bash_drop(shell);
}

fallible context_run(struct context *context, struct str code, uint64_t timeout_ms,
		     struct context_run **out)
{
	struct context_run *run;

	if (code.len > CONTEXT_CODE_MAX)
		return err_new(TOO_LARGE, "code_too_large", "the code of a cell may have %d KiB",
			       CONTEXT_CODE_MAX / 1024);
	if (context->repl.waiting >= CONTEXT_WAITING_MAX)
		return err_new(EXHAUSTED, "context_busy", "%d cells wait for the context already",
			       CONTEXT_WAITING_MAX);
	if (context->repl.phase == REPL_DOWN)
		return context_err_died();
	timeout_ms = timeout_ms ? timeout_ms : context->repl.timeout_ms;
	context->number++;
	run = context_run_new(context, context->number,
			      context_new_tape(context, context->number, timeout_ms));
	run->run.timeout_ms = run->result.timeout_ms = timeout_ms;
	buf_str(&run->run.words, code);
	repl_run_queue(&run->run);
	*out = run;
	return OK;
}

// ------------------------------------------------------------------------------------ its requests

static struct context_launch context_launch(const struct repl *repl)
{
	const struct context *context = (const struct context *)repl;

	return (struct context_launch){
		.box = repl->unit.box,
		.language = context->language,
		.env = (const char *const *)repl->env,
		.cwd = repl->start_cwd,
		.cpu_milli = repl->cpu_milli,
		.aside = repl->unit.tape,
		.key = context->key,
		.file = repl->unit.file,
		.id = repl->unit.file ? repl->unit.id : NULL,
	};
}

static fallible context_start_process(struct repl *repl, struct bash **out)
{
	struct context_launch launch = context_launch(repl);

	return context_spawn(&launch, out);
}

static void context_start(struct repl *repl)
{
	struct context_launch launch = context_launch(repl);
	struct bash *spare = context_warm_take(&launch);

	err_free(take_ptr(repl->failure));
	if (spare)
		repl_attach(repl, spare, REPL_TAKEN);
	else
		repl_start(repl);
	if (repl->unit.file)
		tape_files_prepare(context_tapes(repl->unit.box)); // for its first cell
}

static fallible context_bring_up(struct context *context)
{
	int64_t deadline = loop_now(context->repl.unit.loop) + START_MS;

	TRY(repl_await_ready(&context->repl, context_start, deadline));
	return context->repl.shell ? exec_await_label(context->repl.shell->exec, deadline) : OK;
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
	if (!units_have_room(box, &context_kind))
		return err_hint(err_new(EXHAUSTED, "too_many_contexts",
					"a sandbox has at most %d contexts", CONTEXT_MAX),
				"delete one with DELETE /api/contexts/{id}");
	context = context_new(box, spec, NULL, NULL, unit_next_file(box, &context_kind));
	context_start(&context->repl);
	task_shield(true);
	repl_file_write(&context->repl); // while the process starts
	task_shield(false);
	err = context_bring_up(context);
	if (err) {
		context_delete(context);
		context_unref(context);
		return err;
	}
	*out = context;
	return OK;
}

static void context_mark_deleted(struct context *context)
{
	if (context->repl.run)
		((struct context_run *)context->repl.run)->result.deleted = true;
}

void context_delete(struct context *context)
{
	auto_err gone = context_err_deleted(&context->repl);

	unit_ref(&context->repl.unit);
	context_mark_deleted(context);
	context_unlist(context);
	repl_fail_all(&context->repl, gone);
	repl_file_erase(&context->repl);
	repl_kill_wait(&context->repl);
	context_unref(context);
}

fallible context_restart(struct context *context)
{
	struct repl *repl = &context->repl;
	struct bash *old = repl->shell;
	struct err *err = OK;

	context_mark_deleted(context);
	repl_step(repl, REPL_RESTART);
	repl_kill_wait(repl);
	// Its last output is still being read.
	while (old && repl->unit.listed && repl->shell == old && !err)
		err = condition_wait(&repl->unit.changed, CLOCK_NEVER);
	repl_step(repl, REPL_RESTART_CANCELLED);
	// The end of a cell is on disk before a later cell can begin.
	tape_files_settle(context_tapes(repl->unit.box));
	return err ? err : context_bring_up(context);
}

bool context_interrupt(struct context *context)
{
	struct repl *repl = &context->repl;

	if (!repl->run || repl->phase != REPL_READY)
		return false;
	exec_signal_alone(repl->shell->exec, SIGINT);
	return true;
}

bool contexts_let_oldest_go(struct box *box)
{
	struct context *most = NULL;

	units_each (at, box, &context_kind) {
		struct context *context = unit_of(at, struct context);

		if (context->past_count > (most ? most->past_count : 0))
			most = context;
	}
	if (most)
		context_past_forget(link_of(most->past.next, struct context_run, run.link));
	return most;
}

// -------------------------------------------------------------------------------- end with the box

void contexts_end(struct box *box)
{
	auto_err err = exec_message_box_lost();
	struct exec_result lost = {.ending = ENDING_BOX_LOST};

	context_warm_end(box);
	units_each (at, box, &context_kind) {
		struct context *context = unit_of(at, struct context);

		unit_ref(&context->repl.unit);
		if (box->left)
			context_unlist(context);
		repl_fail_all(&context->repl, err);
		if (box->left || !context->repl.shell) // else its last output is still being read
			context_end_run(context, &lost, NULL);
		context_unref(context);
	}
}

void contexts_close(struct box *box)
{
	box->left = true;
	contexts_end(box);
}

// A context whose process has ended and whose last output is still being read; held. NULL: none.
static struct context *context_find_ending(struct box *box)
{
	units_each (at, box, &context_kind) {
		struct context *context = unit_of(at, struct context);

		if (!context->repl.shell || !context->repl.shell->done)
			continue;
		unit_ref(&context->repl.unit);
		return context;
	}
	return NULL;
}

void contexts_settle(struct box *box)
{
	int64_t deadline = loop_now(box->loop) + SETTLE_MS;
	struct context *context;

	while (loop_now(box->loop) < deadline && (context = context_find_ending(box))) {
		err_free(condition_wait(&context->repl.unit.changed, deadline));
		context_unref(context);
	}
	if (box->contexts)
		tape_files_settle(context_tapes(box));
}

// ---------------------------------------------------------------------------------------- adoption
// Whether a process is idle or runs a cell is unknown, so it is sent a no-op, which it
// answers when it is idle. Output until that answer belongs to the cell whose tape has no end
// record; if there is none, to a cell whose tape was not yet written.
//
// A process that may have read only half of a cell (EXEC_LABEL_HALF, protocol/exec_label.h) would
// take the no-op for the other half, and is killed.

static void context_pack(const struct repl *repl, struct pack *out, bool is_tail)
{
	const struct context *context = (const struct context *)repl;

	if (is_tail)
		return;
	pack_text(out, str_of(context->key));
	pack_u8(out, (uint8_t)context->language);
	pack_u8(out, context->is_default);
}

static void context_unpack(struct repl_file *file, struct unpack *in, bool is_tail)
{
	if (is_tail)
		return;
	file->key = unpack_text(in, CELL_KEY);
	file->language = unpack_u8(in);
	file->is_default = unpack_u8(in);
}

static struct repl *context_restore(struct box *box, const struct repl_file *file, uint32_t number)
{
	struct context_spec spec = {
		.language = (enum context_language)file->language,
		.env = file->spec.env,
		.cwd = file->spec.cwd,
		.output_cap = file->spec.output_cap,
		.cpu_milli = file->spec.cpu_milli,
		.timeout_ms = file->spec.timeout_ms,
		.is_default = file->is_default,
	};

	if (file->id.len != CONTEXT_ID || file->key.len != CELL_KEY ||
	    file->language >= CONTEXT_LANGUAGES)
		return NULL;
	return &context_new(box, &spec, file->id.at, file->key.at, number)->repl;
}

static fallible context_adopt(struct adoption *adoption, uint32_t number, struct adoptee *held)
{
	struct repl *repl;

	(void)held; // taken after the tapes
	return repl_adopt_file(adoption, &context_kind, number, &repl);
}

// Ends a cell of the previous daemon. `end` is CONTEXT_DONE if a later cell has started, so that
// all of its output is on the tape; CONTEXT_DIED if its process ended unseen.
static void context_end_unseen(struct context_run *run, enum context_end end)
{
	run->result.end = end;
	if (end == CONTEXT_DONE) {
		run->result.unseen = true;
	} else {
		run->result.status = 1;
		run->result.exec.ending = ENDING_BOX_LOST;
	}
	tape_end(run->run.tape);
	context_file(run, NULL);
	repl_run_settle(&run->run);
}

// A run of the previous daemon, by its tape (taken over). The running cell is the last one without
// an end record.
static void context_recover(struct context *context, struct tape *tape,
			    const struct tape_label *label)
{
	struct context_run *run, *other = (struct context_run *)context->repl.run;
	struct tape_ending ending;
	uint64_t number = 0;

	(void)str_to_u64(label->command, 1, INT64_MAX, &number);
	if (number > context->number)
		context->number = number;
	run = context_run_new(context, number, tape);
	run->run.holders = 0; // the context's
	run->run.phase = RUN_ACTIVE;
	run->started_ms = label->started_ms;
	run->run.timeout_ms = run->result.timeout_ms = label->wall_ms;
	if (tape_ending_of(tape, &ending)) {
		run->run.phase = RUN_ENDED;
		cell_recover_end(&run->result, &ending);
		context_list_past(run);
		return;
	}
	if (other && other->number >= run->number) {
		context_end_unseen(run, CONTEXT_DONE);
		return;
	}
	if (other)
		context_end_unseen(other, CONTEXT_DONE);
	context->repl.run = &run->run;
}

static fallible context_adopt_tape(struct box *box, uint32_t number)
{
	struct tape_label label;
	struct tape *tape = NULL;
	auto_context context = NULL;

	TRY(unit_open_tape(box, CONTEXT_TAPE, number, &tape, &label));
	if (!tape) { // a file that was prepared for the next cell
		box_file_remove_later(box, CONTEXT_TAPE, number);
		return OK;
	}
	context = context_find(box, label.id);
	if (context)
		context_recover(context, tape, &label);
	else
		tape_unref(tape); // and removes its file
	return OK;
}

// Sends the no-op. The rest of the time limit applies.
static void context_resume(struct context_run *run)
{
	int64_t passed = run->started_ms ? clock_wall_ms() - run->started_ms : 0;
	int64_t left_ms = (int64_t)run->run.timeout_ms - (passed > 0 ? passed : 0);
	struct repl *repl = run->run.repl;
	struct buf words = BUF_INIT(HEAD_MAX);
	uint64_t mark;

	secret_random(&mark, sizeof(mark));
	buf_fmt(&words, "still %llu 0\n", (unsigned long long)mark);
	repl->run = &run->run;
	run->run.phase = RUN_ACTIVE;
	run->resumed = true;
	run->result.timeout_ms = run->run.timeout_ms;
	if (run->run.timeout_ms)
		repl_run_limit(&run->run, left_ms > 0 ? left_ms : 1);
	bash_send_other(repl->shell, &words, mark, run->run.tape);
}

static fallible context_take_process(struct context *context, struct adoptee *held)
{
	bool half = held->label.flags & EXEC_LABEL_HALF;
	bool talks = held->talk.held.flags & TALK_EXEC_DIALOGUE;
	uint32_t sender = held->label.sender;
	struct context_run *run = (struct context_run *)take_ptr(context->repl.run);
	struct exec *exec = NULL;
	struct bash *shell = NULL;
	struct err *err;

	if (!run) {
		context->number++;
		run = context_run_new(context, context->number,
				      context_new_tape(context, context->number, 0));
		run->run.holders = 0;
		run->doubtful = true;
		run->run.timeout_ms = context->repl.timeout_ms;
	}
	run->run.phase = RUN_ACTIVE;
	err = adoptee_take(held, context->repl.unit.box, NULL, &exec);
	if (!err && talks)
		err = bash_adopt(exec, run->run.tape, sender, &shell);
	if (err || !talks) {
		if (!err) {
			exec_filed(exec);
			exec_kill(exec);
			exec_unref(exec);
		}
		context_end_unseen(run, CONTEXT_DIED);
		return err;
	}
	repl_attach(&context->repl, shell, REPL_ADOPTED);
	context_resume(run);
	if (half)
		bash_kill(shell);
	return OK;
}

// Adopts the tapes of cells, then the processes. Processes without a context, which are prewarmed
// ones or have no state file yet, are killed by box_adopt().
static fallible context_adopt_rest(struct adoption *adoption)
{
	auto_free uint32_t *tapes = adoption_numbers(adoption, CONTEXT_TAPE);
	struct box *box = adoption->box;

	if (tapes[0])
		context_tapes(box)->files = tapes[0];
	for (const uint32_t *number = tapes; *number; number++)
		TRY(context_adopt_tape(box, *number));
	units_each (at, box, &context_kind) {
		struct context *context = unit_of(at, struct context);
		struct adoptee *held = adoption_find(adoption, EXEC_LABEL_CONTEXT,
						     context->repl.unit.file);

		if (held)
			TRY(context_take_process(context, held));
		else if (context->repl.run)
			context_end_unseen((struct context_run *)context->repl.run, CONTEXT_DIED);
	}
	return OK;
}

static const struct repl_kind context_repl = {
	.start_task = "context.start",
	.file_task = "context.state_file",
	.spawn = context_start_process,
	.may_begin = context_may_begin,
	.begin = context_begin,
	.ended = context_on_ended,
	.lost = context_on_lost,
	.limit = context_on_limit,
	.deleted = context_err_deleted,
	.magic = "COVECELL",
	.version = 1,
	.id_max = CONTEXT_ID,
	.pack = context_pack,
	.unpack = context_unpack,
	.restore = context_restore,
};

const struct unit_kind context_kind = {
	.name = "interpreter",
	.type = UNIT_CONTEXT,
	.label = EXEC_LABEL_CONTEXT,
	.letter = 'k',
	.max = CONTEXT_MAX,
	.is_recorded = true,
	.needs_file = true,
	.repl = &context_repl,
	.use = repl_use,
	.evict = context_evict,
	.free = repl_free,
	.adopt = context_adopt,
	.adopt_rest = context_adopt_rest,
};
