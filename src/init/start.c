// How what the daemon asks for begins: a place in the table, a leaf, and a child: the spare that
// waits, one that its mother bears, or one of pid 1's own. Whatever cannot begin is refused with
// the step where it stopped.
#include <errno.h>
#include <unistd.h>

#include "init/hand.h"
#include "init/held.h"
#include "init/spare.h"
#include "init/state.h"
#include "os/fd.h"

#define HURRY_US 500 // from the end of a command to the next: nobody rests between them

static struct conv *init_start_take_place(void)
{
	for (int i = 0; i < TALK_CONV_MAX; i++) {
		if (init.convs[i].used)
			continue;
		if (i < init.conv_end) {
			run_drop(&init.stale);
			init.stale = init.convs[i].run;
			init.convs[i].run = RUN_NONE;
			init.untidy = true;
		} else {
			init.conv_end = i + 1;
		}
		return &init.convs[i];
	}
	return NULL;
}

void start_tidy(void)
{
	init.untidy = false;
	run_drop(&init.stale);
	for (int i = 0; i < init.conv_end; i++)
		if (!init.convs[i].used)
			run_drop(&init.convs[i].run);
}

static void init_start_refuse(struct conv *conv, uint32_t id, enum talk_step step, int errnum)
{
	*conv = (struct conv){
		.used = true,
		.forgotten = true,
		.owes = OWES_FAILED,
		.id = id,
		.run = RUN_NONE,
		.step = (int)step,
		.errnum = errnum,
	};
	init_settle(conv);
}

void start_drop_fds(const int *fds, int count)
{
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

// A leaf that is new, or was made anew, comes with its fds. 0, or the errno to refuse with.
static int meet_leaf(const struct talk_exec *exec, const int *fds, int count)
{
	bool by_clone = init.birth.joins_by_clone;
	struct leaf *leaf;

	if (count == FD_LOST)
		return EMFILE;
	if (exec->leaf >= TALK_LEAVES_MAX) {
		start_drop_fds(fds, count);
		return EINVAL;
	}
	leaf = &init.leaves[exec->leaf];
	if (count > 0 ? count != leaf_fds(by_clone) : !leaf->known) {
		start_drop_fds(fds, count);
		return EPROTO;
	}
	if (count > 0)
		spare_lose(exec->leaf);
	if (count > 0 && !leaf_learn(leaf, by_clone, fds))
		return errno;
	// Where a spare waits nothing else lives: the leaf was empty when it was born there.
	if ((exec->flags & TALK_EXEC_IF_EMPTY) && !spare_waits_in(exec->leaf) &&
	    !spare_leaf_is_empty(&init.birth, exec->leaf, leaf))
		return EBUSY;
	return 0;
}

static void init_start_start(struct conv *conv, uint32_t id, const struct run_order *order)
{
	const struct leaf *leaf = &init.leaves[order->exec.leaf];
	struct run run;
	enum talk_step step;
	bool started;

	if (init.served == order->exec.leaf)
		init.wants = false; // it is not idle any more
	spare_lose(order->exec.leaf);
	started = run_start(&init.birth, leaf, order, &run, &step);
	if (!started && step == TALK_STEP_FORK && spare_make_room())
		started = run_start(&init.birth, leaf, order, &run, &step);
	// Something in the box killed it before it began.
	if (!started && step == TALK_STEP_SETUP && errno == EINTR)
		started = run_start(&init.birth, leaf, order, &run, &step);
	if (!started) {
		init_start_refuse(conv, id, step, errno);
		return;
	}
	*conv = (struct conv){
		.used = true,
		.owes = OWES_STARTED,
		.id = id,
		.leaf = order->exec.leaf,
		.asked_us = init_now_us(),
		.pid = run.pid,
		.run = run,
		.flags = order->exec.flags,
	};
	held_set_tag(conv, (int)(conv - init.convs), order->exec.tag);
	if (run.in < 0)
		init.fresh = true; // on a terminal too: nobody types before a moment has passed
	else
		init_settle(conv); // it may wait for its input
}

static bool is_alone(const struct conv *conv)
{
	for (int i = 0; i < init.conv_end; i++)
		if (&init.convs[i] != conv && init.convs[i].used &&
		    (init.convs[i].pid > 0 || init.convs[i].starting))
			return false;
	return true;
}

// What can be done for the next that comes right behind it, now that the daemon has heard of this
// one: the daemon is busy with that, and we are not.
void start_look_ahead(const struct conv *conv, int64_t last_us)
{
	if ((conv->flags & (TALK_EXEC_STDIN | TALK_EXEC_PTY | TALK_EXEC_DIALOGUE)) ||
	    conv->asked_us - last_us >= HURRY_US || !is_alone(conv))
		return;
	start_tidy();
	spare_make_next(conv->leaf);
	init.wants = !spare_waits_in(conv->leaf);
}

static bool start_by_spare(struct conv *conv, uint32_t id, const struct run_order *order)
{
	struct conv made = {.used = true, .starting = true, .id = id, .leaf = order->exec.leaf};

	if (!spare_use(order, &made.run))
		return false;
	made.asked_us = init_now_us();
	made.flags = order->exec.flags;
	*conv = made;
	held_set_tag(conv, (int)(conv - init.convs), order->exec.tag);
	init.wants = false; // the leaf is not idle any more
	init.letter ^= 1;
	init.look_us = made.asked_us + SPARE_SOON_MS * 1000;
	init.stuck_us = init.look_us + SPARE_STUCK_MS * 1000;
	return true;
}

// The spare has executed, or failed, or never came to it: then the command is started the other
// way.
void start_conclude(struct conv *conv, bool executed)
{
	int pid = spare_number();
	struct spare_end end = spare_end();

	conv->starting = false;
	conv->pid = conv->run.pid = pid;
	if (end.moved && end.step == TALK_STEP_NONE && executed) {
		conv->owes |= OWES_STARTED;
		return;
	}
	run_drop(&conv->run);
	if (end.moved && end.step != TALK_STEP_NONE)
		init_start_refuse(conv, conv->id, end.step, end.errnum);
	else
		init_start_start(conv, conv->id, &init.letters[init.letter ^ 1]->order);
}

// The command that a spare has in hand: most end soon, and their death tells that they began. One
// that lasts has its leaf for itself: its tree is what lives there.
void start_look(bool now)
{
	int64_t time = init_now_us();
	struct conv *conv = NULL;

	if (!now && time < init.look_us)
		return;
	for (int i = 0; i < init.conv_end && !conv; i++)
		if (init.convs[i].used && init.convs[i].starting)
			conv = &init.convs[i];
	if (!conv)
		return;
	if (time >= init.stuck_us) {
		spare_give_up();
		init.stuck_us = time + SPARE_STUCK_MS * 1000;
	}
	init.look_us = time + SPARE_SOON_MS * 1000;
	if (!spare_has_started())
		return;
	start_conclude(conv, true);
	spare_lose(conv->leaf);
	if (conv->used && conv->owes && !init.fresh)
		init_settle(conv);
}

// One that waits sits on what the last one sat on; one that is born for it takes any seat.
static bool may_use_spare(const struct run_order *order)
{
	if (spare_waits_in(order->exec.leaf) && !spare_suits(order))
		spare_drop();
	return spare_waits_in(order->exec.leaf) || spare_mother_waits_in(order->exec.leaf);
}

void start_exec(uint32_t id, struct run_order *order, const int *fds, int count)
{
	struct conv *conv = init_start_take_place();
	int errnum = meet_leaf(&order->exec, fds, count);

	if (!conv || init_find(id))
		init_start_refuse(&init.other, id, TALK_STEP_BUSY, EAGAIN);
	else if (errnum)
		init_start_refuse(conv, id, TALK_STEP_JOIN, errnum);
	else if (!run_find_user(order))
		init_start_refuse(conv, id, TALK_STEP_USER, ENOENT);
	else if (!may_use_spare(order) || !start_by_spare(conv, id, order))
		init_start_start(conv, id, order);
	// It may wait for its input, so its start is told as soon as it is known.
	else if (order->exec.flags & (TALK_EXEC_STDIN | TALK_EXEC_DIALOGUE)) {
		spare_await();
		start_look(true);
	}
}

void start_hand(uint32_t id, struct str user)
{
	struct conv *conv = init_start_take_place();
	struct run run = RUN_NONE;
	enum talk_step step;

	if (!conv || init_find(id)) {
		init_start_refuse(&init.other, id, TALK_STEP_BUSY, EAGAIN);
		return;
	}
	if (!hand_start(&init.birth, user, &run.out, &step)) {
		init_start_refuse(conv, id, step, errno);
		return;
	}
	*conv = (struct conv){
		.used = true,
		.forgotten = true,
		.owes = OWES_HAND,
		.id = id,
		.run = run,
	};
	init_settle(conv);
}
