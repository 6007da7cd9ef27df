// A row of short commands is a row of small files, and what is done about each of them is kept off
// the way of the next command: making a file takes longer than all else about a tape, so the next
// one's is made when a command has ended; the endings are written together, when nobody reads them
// any more, most often; and files are removed together (tape.c).
#include "box/reel.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "box/box.h"
#include "box/exec_inner.h"
#include "box/tape_inner.h"

#define SETTLE_MS 1000 // then it is looked at again
#define SEAL_MS 20     // from an end to its record on disk
#define AGAIN_MS 1000  // the same, when it could not be written
#define SPARE_MS 10000 // a file that nobody takes is closed

struct seal {
	struct link link;
	struct tape *tape;
	struct tape_ending ending;
	struct exec *exec;
};

static void drop_seal(struct seal *seal)
{
	link_drop(&seal->link);
	tape_drop(seal->tape);
	if (seal->exec) {
		exec_filed(seal->exec);
		exec_let_go(seal->exec);
	}
	free(seal);
}

struct batch {
	struct link seals;
	struct reel *reel;
	struct box *box; // held, and with it the reel
};

// The record of an end that the disk did not take is written later: pid 1 holds the process until
// then, and the next daemon hears of its end once more.
static void seal_again(struct reel *reel, struct seal *seal)
{
	struct loop *loop = reel->box->loop;

	link_drop(&seal->link);
	link_add(&reel->seals, &seal->link);
	if (!reel->seal_timer.at)
		loop_set_timer(loop, &reel->seal_timer, loop_now(loop) + AGAIN_MS);
}

static void seal_task(void *arg)
{
	struct batch *batch = arg;

	task_shield(true);
	list_each (at, &batch->seals) {
		struct seal *seal = link_of(at, struct seal, link);
		auto_err err = tape_seal(seal->tape, &seal->ending);

		if (err && box_is_alive(batch->box)) {
			log_event(LOG_WARN, "exec.unsealed", "sandbox", batch->box->id, "trail",
				  err_trail(err), NULL);
			seal_again(batch->reel, seal);
		} else {
			drop_seal(seal);
		}
	}
	batch->reel->sealing--;
	bell_ring(&batch->reel->sealed);
	box_drop(batch->box);
	free(batch);
}

static void on_seals(struct timer *timer)
{
	struct reel *reel = link_of(timer, struct reel, seal_timer);
	struct batch *batch = mem_new_of(struct batch);

	*batch = (struct batch){.reel = reel, .box = reel->box};
	box_hold(batch->box);
	link_init(&batch->seals);
	list_each (at, &reel->seals) {
		link_drop(at);
		link_add(&batch->seals, at);
	}
	reel->sealing++;
	task_start(reel->box->loop, "tape.seal", seal_task, batch);
}

void reel_settle(struct reel *reel)
{
	struct loop *loop = reel->box->loop;

	if (!link_empty(&reel->seals)) {
		loop_drop_timer(loop, &reel->seal_timer);
		on_seals(&reel->seal_timer);
	}
	while (reel->sealing) {
		auto_err err = bell_wait(&reel->sealed, loop_now(loop) + SETTLE_MS);

		if (err && err_kind(err) != ERR_TIMEOUT)
			return; // whoever asked has gone
	}
}

void reel_seal(struct reel *reel, struct tape *tape, const struct tape_ending *ending,
	       struct exec *exec)
{
	struct loop *loop = reel->box->loop;
	struct seal *seal = mem_new_of(struct seal);

	seal->tape = tape;
	seal->ending = *ending;
	seal->exec = exec;
	if (exec)
		exec_hold(exec);
	tape_hold(tape);
	link_add(&reel->seals, &seal->link);
	if (!reel->seal_timer.at)
		loop_set_timer(loop, &reel->seal_timer, loop_now(loop) + SEAL_MS);
}

static struct tape *reel_new_tape(struct reel *reel)
{
	struct box *box = reel->box;
	auto_free char *name = mem_fmt("%s/%.*s%u", box->id, reel->letter != 0, &reel->letter,
				       ++reel->files);

	box->has_folder = true;
	return tape_new_named(box->loop, box->tapes_dir, name);
}

static void on_spare(struct timer *timer)
{
	tape_drop(take_ptr(link_of(timer, struct reel, spare_timer)->spare));
}

struct preparation {
	struct reel *reel;
	struct box *box; // held, and with it the reel
};

static void prepare_task(void *arg)
{
	struct preparation *preparation = arg;
	struct reel *reel = preparation->reel;
	struct loop *loop = preparation->box->loop;

	task_shield(true);
	if (!tape_prepare(reel->spare))
		tape_drop(take_ptr(reel->spare)); // the next one has another name
	reel->preparing = false;
	loop_set_timer(loop, &reel->spare_timer, loop_now(loop) + SPARE_MS);
	box_drop(preparation->box);
	free(preparation);
}

void reel_prepare(struct reel *reel)
{
	struct preparation *preparation;

	if (reel->preparing || reel->spare)
		return;
	preparation = mem_new_of(struct preparation);
	*preparation = (struct preparation){reel, reel->box};
	box_hold(reel->box);
	loop_drop_timer(reel->box->loop, &reel->spare_timer);
	reel->spare = reel_new_tape(reel);
	reel->preparing = true;
	task_start(reel->box->loop, "tape.prepare", prepare_task, preparation);
}

uint32_t reel_number(const struct tape *tape)
{
	const char *slash = strrchr(tape->name, '/');

	return (uint32_t)strtoul(slash + 1 + (slash[1] > '9'), NULL, 10);
}

struct tape *reel_take(struct reel *reel, const struct tape_label *label)
{
	struct tape *tape = reel->preparing ? NULL : take_ptr(reel->spare);

	if (!tape)
		tape = reel_new_tape(reel);
	tape_set_label(tape, label);
	tape_bound(tape, box_tape_budget(reel->box));
	return tape;
}

void reel_init(struct reel *reel, struct box *box, char letter)
{
	reel->box = box;
	reel->letter = letter;
	link_init(&reel->seals);
	bell_init(&reel->sealed);
	reel->seal_timer.due = on_seals;
	reel->spare_timer.due = on_spare;
}

void reel_done(struct reel *reel)
{
	struct box *box = reel->box;

	list_each (at, &reel->seals)
		drop_seal(link_of(at, struct seal, link));
	if (reel->spare)
		tape_leave(reel->spare);
	tape_drop(reel->spare);
	loop_drop_timer(box->loop, &reel->seal_timer);
	loop_drop_timer(box->loop, &reel->spare_timer);
}
