// A terminal is an exec whose first process has a pty of the box as its controlling terminal; the
// bytes are in term_flow.c. Those who connect to an id that is being started wait for it.
//
// It has ended when its first process has; what it had written is read until the kernel has no
// more. Background jobs lose their terminal with the end of the session, as everywhere. A shell's
// id is free at once; the end of a command is kept until somebody was told, or for a while.
#include "box/term.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "box/term_inner.h"
#include "wire/text.h"

#define LAST_READS 64 // of what lies in the master at the end

void term_hold(struct term *term)
{
	term->refs++;
}

void term_drop(struct term *term)
{
	if (--term->refs > 0)
		return;
	term_close_master(term);
	trough_close(term);
	loop_drop_timer(term->loop, &term->forget);
	exec_drop(term->exec);
	tape_drop(term->tape);
	buf_done(&term->input);
	box_drop(term->box);
	free(term->ring);
	free(term->shown);
	free(term->id);
	free(term);
}

static void box_term_unlist(struct term *term)
{
	if (!term->listed)
		return;
	term->listed = false;
	link_drop(&term->link);
	term->box->terms->count--;
	loop_drop_timer(term->loop, &term->forget);
	if (term->exec)
		exec_filed(term->exec);
	term_drop(term);
}

static void on_forget(struct timer *timer)
{
	box_term_unlist(link_of(timer, struct term, forget));
}

void term_finish(struct term *term)
{
	for (int i = 0; i < LAST_READS && !term->spilling && term_move(term); i++)
		continue;
	trough_begin_drain(term);
	if (term->spilling)
		return; // and again when the disk has it
	term->phase = TERM_ENDED;
	term_close_master(term);
	tape_end(term->tape);
	bell_ring(&term->more);
	bell_ring(&term->room);
	if (term->is_command && !term->box_gone)
		loop_set_timer(term->loop, &term->forget, loop_now(term->loop) + TERM_KEPT_MS);
	else
		box_term_unlist(term);
}

static void box_term_on_end(void *arg)
{
	struct term *term = arg;

	err_free(exec_wait(term->exec, 0, &term->result)); // it does not wait any more
	term->box_gone = !box_is_alive(term->box) || term->box->burying;
	term->phase = TERM_LAST_BYTES;
	if (!term->spilling)
		term_finish(term);
	term_drop(term);
}

void term_told(struct term *term)
{
	if (term->phase == TERM_ENDED)
		box_term_unlist(term);
}

void terms_end(struct box *box)
{
	if (!box->terms)
		return;
	list_each (at, &box->terms->all) {
		struct term *term = link_of(at, struct term, link);

		if (term->phase == TERM_ENDED)
			box_term_unlist(term);
	}
}

void terms_free(struct box *box)
{
	free(box->terms); // a terminal holds its box: none is left
}

static struct term *box_term_find(struct box *box, struct str id)
{
	if (!box->terms)
		return NULL;
	list_each (at, &box->terms->all) {
		struct term *term = link_of(at, struct term, link);

		if (str_eq(str_of(term->id), id))
			return term;
	}
	return NULL;
}

struct term *term_find(struct box *box, struct str id)
{
	struct term *term = box_term_find(box, id);

	if (term)
		term_hold(term);
	return term;
}

// The oldest one that has ended makes room.
static bool box_term_has_room(struct terms *terms)
{
	list_each (at, &terms->all) {
		struct term *term = link_of(at, struct term, link);

		if (terms->count < TERM_MAX)
			break;
		if (term->phase == TERM_ENDED)
			box_term_unlist(term);
	}
	return terms->count < TERM_MAX;
}

struct term *term_make(struct box *box, const struct term_spec *spec, uint64_t cap)
{
	struct term *term = mem_new_of(struct term);

	box_hold(box);
	term->box = box;
	term->loop = box->loop;
	term->refs = 1;
	if (spec->id.len) {
		term->id = mem_dup(spec->id.at, spec->id.len);
	} else {
		char hex[17];

		secret_hex(hex, 8);
		term->id = mem_fmt("term-%s", hex);
	}
	term->shown = mem_dup(spec->shown.at, spec->shown.len);
	term->is_command = spec->is_command;
	term->cap = cap;
	term->trough[0] = term->trough[1] = -1;
	term->drain.due = trough_on_timer;
	term->master = (struct watch){.fd = -1, .ready = term_on_master};
	term->forget.due = on_forget;
	term->input = BUF_INIT(TERM_INPUT_MAX);
	bell_init(&term->more);
	bell_init(&term->room);
	if (!box->terms) {
		box->terms = mem_new_of(struct terms);
		link_init(&box->terms->all);
	}
	return term;
}

// A named one where another daemon may come to read it.
void term_make_tape(struct term *term)
{
	struct box *box = term->box;
	auto_free char *name = mem_fmt("%s/t%u", box->id, term->file);
	struct tape_label label = {
		.id = str_of(term->id),
		.command = str_of(term->shown),
		.started_ms = term->started_ms,
		.cap = term->cap,
	};

	if (term->file) {
		term->tape = tape_new_named(box->loop, box->tapes_dir, name);
		tape_set_label(term->tape, &label);
		box->has_folder = true;
	} else {
		term->tape = tape_new(box->loop, box->tapes_dir, term->cap);
	}
	tape_bound(term->tape, box_tape_budget(box));
}

void term_list(struct term *term)
{
	term_hold(term); // the list's share
	term->listed = true;
	link_add(&term->box->terms->all, &term->link);
	term->box->terms->count++;
}

void term_run(struct term *term)
{
	term->phase = TERM_RUNNING;
	bell_ring(&term->more);
	term_hold(term);
	exec_on_end(term->exec, box_term_on_end, term);
	term_watch(term); // it may be over by now
}

static fallible box_term_start(struct term *term, const struct exec_spec *spec)
{
	struct tag tag = {
		.kind = TAG_TERM,
		.flags = term->is_command ? TAG_COMMAND : 0,
		.file = term->file,
		.started_ms = term->started_ms,
		.cap = term->cap,
		.id = str_of(term->id),
		.command = str_of(term->shown),
	};
	struct exec_spec spec_of = *spec;
	struct err *err;

	spec_of.tag = &tag;
	err = exec_start(term->box, &spec_of, &term->exec);
	if (err) {
		term->phase = TERM_FAILED;
		bell_ring(&term->more);
		box_term_unlist(term);
		return err;
	}
	term->master.fd = exec_take_master(term->exec);
	exec_take_trough(term->exec, term->trough);
	term_run(term);
	return OK;
}

static fallible await_start(struct term *term)
{
	while (term->phase == TERM_STARTING)
		TRY(bell_wait(&term->more, CLOCK_NEVER), "wait for a terminal");
	if (term->phase == TERM_FAILED)
		return err_new(UNAVAILABLE, "terminal_failed", "the terminal could not be started");
	return OK;
}

fallible term_ask_room(struct box *box)
{
	if (!box->terms || box_term_has_room(box->terms))
		return OK;
	return err_hint(
		err_new(EXHAUSTED, "too_many_terminals", "the sandbox has %d terminals", TERM_MAX),
		"end some of them: DELETE /api/terminals/{id}");
}

fallible term_open(struct box *box, const struct term_spec *spec, struct term **out, bool *out_new)
{
	auto_term term = spec->id.len ? term_find(box, spec->id) : NULL;

	*out_new = !term;
	if (spec->id.len > TERM_ID_MAX || text_has_control(spec->id))
		return err_new(INVALID, "bad_field",
			       "an id may have %d bytes, none a control character", TERM_ID_MAX);
	if (term) {
		TRY(await_start(term));
		*out = take_ptr(term);
		return OK;
	}
	TRY(term_ask_room(box));
	term = term_make(box, spec, spec->exec->output_cap);
	term->cols = spec->exec->cols;
	term->rows = spec->exec->rows;
	term->started_ms = clock_wall_ms();
	if (box->features & TALK_CAN_RETURN)
		term->file = ++box->term_tapes;
	term_make_tape(term);
	term_list(term);
	TRY(box_term_start(term, spec->exec));
	*out = take_ptr(term);
	return OK;
}

struct term_view term_view(const struct term *term)
{
	return (struct term_view){
		.id = term->id,
		.shown = term->shown,
		.is_command = term->is_command,
		.has_ended = term->phase >= TERM_LAST_BYTES,
		.pid = term->exec ? exec_pid(term->exec) : 0,
		.cols = term->cols,
		.rows = term->rows,
		.attached = term->attached,
		.started_ms = term->started_ms,
		.bytes = term->written,
	};
}

void term_each(struct box *box, void (*each)(struct term *term, void *arg), void *arg)
{
	if (!box->terms)
		return;
	list_each (at, &box->terms->all)
		each(link_of(at, struct term, link), arg);
}

void term_attach(struct term *term, int step)
{
	term->attached += (uint32_t)step;
}

fallible term_await(struct term *term, uint64_t at, int64_t deadline)
{
	while (term->written <= at && term->phase != TERM_ENDED)
		TRY(bell_wait(&term->more, deadline), "wait for a terminal");
	return OK;
}

struct tape *term_tape(struct term *term)
{
	return term->tape;
}

void term_kill(struct term *term)
{
	if (term->phase == TERM_RUNNING)
		exec_kill(term->exec);
}

bool term_ended(const struct term *term, struct exec_result *out, bool *out_box_gone)
{
	if (term->phase != TERM_ENDED)
		return false;
	*out = term->result;
	*out_box_gone = term->box_gone;
	return true;
}
