// Keeps the cost of tape files off the start of the next command, since creating a file takes
// longest of all: the next tape's file is created when a command has ended, end records are written
// in batches after a short delay, and files are removed in batches (tape.c). An end record that
// could not be written is retried.
#include "box/tape_files.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "box/box.h"
#include "box/exec_private.h"
#include "box/tape_private.h"

#define SETTLE_MS 1000 // between checks
#define SEAL_MS 20     // from an end to its record
#define AGAIN_MS 1000  // retry of a failed record
#define SPARE_MS 10000 // an unused prepared file is closed

struct seal {
	struct link link;
	struct tape *tape;
	struct tape_ending ending;
	struct exec *exec;
};

static void drop_seal(struct seal *seal)
{
	link_drop(&seal->link);
	tape_unref(seal->tape);
	if (seal->exec) {
		exec_filed(seal->exec);
		exec_let_go(seal->exec);
	}
	free(seal);
}

struct batch {
	struct link seals;
	struct tape_files *tapes; // their box is held, and with it `tapes`
};

// Retries a failed end record later: until then pid 1 holds the process and would repeat its end to
// the next daemon.
static void seal_again(struct tape_files *tapes, struct seal *seal)
{
	struct loop *loop = tapes->box->loop;

	link_drop(&seal->link);
	link_add(&tapes->seals, &seal->link);
	if (!tapes->seal_timer.at)
		loop_set_timer(loop, &tapes->seal_timer, loop_now(loop) + AGAIN_MS);
}

static void seal_task(void *arg)
{
	struct batch *batch = arg;
	struct box *box = batch->tapes->box;

	task_shield(true);
	list_each (at, &batch->seals) {
		struct seal *seal = link_of(at, struct seal, link);
		auto_err err = tape_seal(seal->tape, &seal->ending);

		if (err && box_is_alive(box)) {
			log_event(LOG_WARN, "exec.unsealed", "sandbox", box->id, "trail",
				  err_trail(err), NULL);
			seal_again(batch->tapes, seal);
		} else {
			drop_seal(seal);
		}
	}
	batch->tapes->sealing--;
	condition_signal(&batch->tapes->sealed);
	box_unref(box);
	free(batch);
}

static void on_seals(struct timer *timer)
{
	struct tape_files *tapes = link_of(timer, struct tape_files, seal_timer);
	struct batch *batch = mem_new_of(struct batch);

	batch->tapes = tapes;
	box_ref(tapes->box);
	link_init(&batch->seals);
	list_each (at, &tapes->seals) {
		link_drop(at);
		link_add(&batch->seals, at);
	}
	tapes->sealing++;
	task_start(tapes->box->loop, "tape.seal", seal_task, batch);
}

void tape_files_settle(struct tape_files *tapes)
{
	struct loop *loop = tapes->box->loop;

	if (!link_empty(&tapes->seals)) {
		loop_drop_timer(loop, &tapes->seal_timer);
		on_seals(&tapes->seal_timer);
	}
	while (tapes->sealing) {
		auto_err err = condition_wait(&tapes->sealed, loop_now(loop) + SETTLE_MS);

		if (err && err_kind(err) != ERR_TIMEOUT)
			return; // cancelled
	}
}

void tape_files_seal(struct tape_files *tapes, struct tape *tape, const struct tape_ending *ending,
		     struct exec *exec)
{
	struct loop *loop = tapes->box->loop;
	struct seal *seal = mem_new_of(struct seal);

	seal->tape = tape;
	seal->ending = *ending;
	seal->exec = exec;
	if (exec)
		exec_ref(exec);
	tape_ref(tape);
	link_add(&tapes->seals, &seal->link);
	if (!tapes->seal_timer.at)
		loop_set_timer(loop, &tapes->seal_timer, loop_now(loop) + SEAL_MS);
}

static struct tape *tape_files_new_tape(struct tape_files *tapes)
{
	struct box *box = tapes->box;
	auto_free char *name = mem_fmt("%s/%.*s%u", box->id, tapes->letter != 0, &tapes->letter,
				       ++tapes->files);

	box->has_folder = true;
	return tape_new_named(box->loop, box->tapes_dir, name);
}

static void on_spare(struct timer *timer)
{
	tape_unref(take_ptr(link_of(timer, struct tape_files, spare_timer)->spare));
}

static void prepare_task(void *arg)
{
	struct tape_files *tapes = arg;
	struct box *box = tapes->box; // held, and with it `tapes`

	task_shield(true);
	if (!tape_prepare(tapes->spare))
		tape_unref(take_ptr(tapes->spare)); // the next one gets another name
	tapes->preparing = false;
	loop_set_timer(box->loop, &tapes->spare_timer, loop_now(box->loop) + SPARE_MS);
	box_unref(box);
}

void tape_files_prepare(struct tape_files *tapes)
{
	if (tapes->preparing || tapes->spare)
		return;
	box_ref(tapes->box);
	loop_drop_timer(tapes->box->loop, &tapes->spare_timer);
	tapes->spare = tape_files_new_tape(tapes);
	tapes->preparing = true;
	task_start(tapes->box->loop, "tape.prepare", prepare_task, tapes);
}

uint32_t tape_files_number(const struct tape *tape)
{
	const char *slash = strrchr(tape->name, '/');

	return (uint32_t)strtoul(slash + 1 + (slash[1] > '9'), NULL, 10);
}

struct tape *tape_files_take(struct tape_files *tapes, const struct tape_label *label)
{
	struct tape *tape = tapes->preparing ? NULL : take_ptr(tapes->spare);

	if (!tape)
		tape = tape_files_new_tape(tapes);
	tape_set_label(tape, label);
	tape_bound(tape, box_tape_budget(tapes->box));
	return tape;
}

void tape_files_init(struct tape_files *tapes, struct box *box, char letter)
{
	tapes->box = box;
	tapes->letter = letter;
	link_init(&tapes->seals);
	condition_init(&tapes->sealed);
	tapes->seal_timer.due = on_seals;
	tapes->spare_timer.due = on_spare;
}

void tape_files_done(struct tape_files *tapes)
{
	struct box *box = tapes->box;

	list_each (at, &tapes->seals)
		drop_seal(link_of(at, struct seal, link));
	if (tapes->spare)
		tape_leave(tapes->spare);
	tape_unref(tapes->spare);
	loop_drop_timer(box->loop, &tapes->seal_timer);
	loop_drop_timer(box->loop, &tapes->spare_timer);
}
