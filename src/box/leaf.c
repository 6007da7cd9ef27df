// A leaf serves one exec at a time, so that its meter, its limit and its killing mean that exec and
// no other. It serves again when nothing lives in it: pid 1 tells so with the end of each exec. If
// something was left behind (a daemon that the command started) the leaf is doubtful, and is tried
// again with the question whether it is empty now. A leaf that was killed is spent (model/order.h),
// and so is one with a mark once what it was marked for has gone.
//
// A box at rest holds no fds of leaves: box_leaf_rest() closes the meters of those that are empty
// and the OOM counter with the last of them. Their numbers stay in `leaves_left`, beside those of
// an earlier daemon's leaves, and the next exec asks the warden for them again.
//
// The meter is read by pread through an fd of the warden's. How fast CPU time can pass is bounded
// by the number of CPUs, so the limit is looked after at intervals that shrink as it comes near.
//
// syscalls: pread64 close sched_getaffinity
#include "box/leaf.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/fd.h"

#define ORDER_MS 20000
#define KILL_AGAIN_MIN_MS 10 // from a kill that could not be asked to the next try
#define KILL_AGAIN_MAX_MS 1000
#define LINK_MS 5000   // for a warden that is being restarted
#define DOUBTS_TRIED 2 // before another leaf is ordered
#define STEP_MIN_MS 2
#define STEP_CALM_MS 20	  // while nothing runs: what starts then is seen within this
#define STEP_LEFT_MS 1000 // the same, of what an exec left behind
#define CALM 4

static ssize_t box_leaf_read_text(int fd, char *room, size_t size)
{
	ssize_t n;

	do {
		n = pread(fd, room, size - 1, 0);
	} while (n < 0 && errno == EINTR);
	room[n > 0 ? n : 0] = 0;
	return n;
}

// cpu.stat (v2) says it in microseconds behind a word, cpuacct.usage (v1) in plain nanoseconds.
uint64_t box_leaf_used_us(const struct box_leaf *leaf)
{
	static const char word[] = "usage_usec ";
	char text[512];
	const char *at;

	if (box_leaf_read_text(leaf->meter, text, sizeof(text)) <= 0)
		return 0;
	at = strstr(text, word);
	if (at)
		return strtoull(at + sizeof(word) - 1, NULL, 10);
	return strtoull(text, NULL, 10) / 1000;
}

uint64_t box_oom_kills(const struct box *box)
{
	static const char word[] = "oom_kill "; // not oom_kill_disable, which v1 has as well
	char text[512];

	if (box_leaf_read_text(box->oom, text, sizeof(text)) <= 0)
		return 0;
	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, word, sizeof(word) - 1) == 0)
			return strtoull(at + sizeof(word) - 1, NULL, 10);
	}
	return 0;
}

static void close_leaf(struct box_leaf *leaf)
{
	struct box *box = leaf->box;

	loop_drop_timer(box->loop, &leaf->timer);
	link_drop(&leaf->all);
	link_drop(&leaf->idle);
	fd_drop(&leaf->meter);
	fd_drop(&leaf->join[0]);
	fd_drop(&leaf->join[1]);
	box->leaf_count--;
	free(leaf);
}

static void box_leaf_on_timer(struct timer *timer);

struct box_leaf *box_leaf_add(struct box *box, uint32_t number, int meter, const int *join,
			      int joins)
{
	struct box_leaf *leaf = mem_new_of(struct box_leaf);

	leaf->box = box;
	leaf->number = number;
	leaf->meter = meter;
	leaf->timer.due = box_leaf_on_timer;
	for (int i = 0; i < 2; i++)
		leaf->join[i] = i < joins ? join[i] : -1;
	link_add(&box->leaves, &leaf->all);
	box->leaf_count++;
	return leaf;
}

void box_leaf_free_all(struct box *box)
{
	list_each (at, &box->leaves)
		close_leaf(link_of(at, struct box_leaf, all));
	fd_drop(&box->oom);
	free(take_ptr(box->leaves_left));
	box->unseen = false;
}

void box_leaf_left(struct box *box, uint32_t number, bool left)
{
	uint64_t bit = 1ull << number % 64;

	if (!box->leaves_left)
		box->leaves_left = mem_new(TALK_LEAVES_MAX / 8);
	box->leaves_left[number / 64] &= ~bit;
	box->leaves_left[number / 64] |= left ? bit : 0;
}

static bool leaf_is_left(const struct box *box, uint32_t number)
{
	return box->leaves_left && box->leaves_left[number / 64] >> number % 64 & 1;
}

// The first that exists and is not open; TALK_LEAVES_MAX: there is none.
static uint32_t leaf_first_left(const struct box *box)
{
	uint32_t i = 0;

	while (i < TALK_LEAVES_MAX && !leaf_is_left(box, i))
		i++;
	return i;
}

bool box_leaf_rest(struct box *box)
{
	bool had = box->oom >= 0;

	if (box->kills_unsure) // see leaf_is_replaced(): a number must not be forgotten
		return false;
	list_each (at, &box->clean) {
		struct box_leaf *leaf = link_of(at, struct box_leaf, idle);

		if (leaf->join[0] >= 0)
			continue; // pid 1 does not know it yet
		box_leaf_left(box, leaf->number, true);
		close_leaf(leaf);
	}
	if (link_empty(&box->leaves))
		fd_drop(&box->oom);
	return had && box->oom < 0;
}

// The fds of a LEAF's answer: what joins it, its meter, the OOM counter of the box.
static struct box_leaf *leaf_of_answer(struct box *box, const struct answer *answer, int *fds)
{
	int joins = (int)answer->join_count;

	if (box->oom < 0)
		box->oom = take_fd(&fds[joins + 1]);
	fd_drop(&fds[joins + 1]);
	return box_leaf_add(box, answer->leaf, fds[joins], fds, joins);
}

// While the warden is away an order that changes nothing waits for the next one.
static fallible order_patiently(struct box *box, struct order *order, struct answer *answer,
				int *fds)
{
	int64_t patience = loop_now(box->loop) + LINK_MS;

	for (;;) {
		struct err *err = ask_order(box->ask, order, answer, fds,
					    loop_now(box->loop) + ORDER_MS);

		if (!err || strcmp(err_reason(err), "no_warden") != 0 ||
		    loop_now(box->loop) >= patience)
			return err;
		err_free(err);
		TRY(ask_wait_linked(box->ask, patience));
	}
}

static fallible order_again(struct box *box, uint32_t number, struct box_leaf **out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_LEAF, .again = true, .leaf = number};
	int fds[ORDER_FDS_MAX];
	struct err *err;

	memcpy(order.box, box->id, sizeof(order.box));
	box_leaf_left(box, number, false);
	box->leaf_count++;
	err = order_patiently(box, &order, answer, fds);
	box->leaf_count--;
	if (err && err_kind(err) != ERR_NOT_FOUND)
		box_leaf_left(box, number, true); // it is there, and can be asked for again
	TRY(err, "ask for leaf %u again", number);
	answer->leaf = number;
	*out = leaf_of_answer(box, answer, fds);
	(*out)->marked = answer->marked;
	if (leaf_first_left(box) == TALK_LEAVES_MAX)
		box->unseen = false;
	return OK;
}

// The next one that an earlier daemon has left, and that anybody may have; NULL: there is none.
static fallible take_left(struct box *box, struct box_leaf **out)
{
	uint32_t left;

	*out = NULL;
	while (!*out && (left = leaf_first_left(box)) < TALK_LEAVES_MAX) {
		struct err *err = order_again(box, left, out);

		if (err && err_kind(err) != ERR_NOT_FOUND)
			return err;
		err_free(err);
		if (!*out)
			continue;
		(*out)->doubtful = true;
		if ((*out)->marked)
			*out = NULL; // something of a runner's lives there
	}
	return OK;
}

void box_leaf_retire(struct box *box, uint32_t number)
{
	struct box_leaf *leaf;

	list_each (at, &box->leaves) {
		leaf = link_of(at, struct box_leaf, all);
		if (leaf->number != number)
			continue;
		if (leaf->marked && !leaf->taken && !leaf->kills)
			box_leaf_kill(leaf);
		return;
	}
	// Of an earlier daemon: the warden removes it when it is asked for, and empty.
	if (!leaf_is_left(box, number))
		return;
	leaf = NULL;
	err_free(order_again(box, number, &leaf));
	if (leaf)
		box_leaf_give(leaf, false);
}

fallible box_leaf_again(struct box *box, uint32_t number, struct box_leaf **out)
{
	struct err *err = order_again(box, number, out);

	if (!err)
		return OK;
	if (err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_CONFLICT)
		return err;
	err_free(err);
	*out = box_leaf_add(box, number, -1, NULL, 0);
	(*out)->spent = true;
	return OK;
}

// The number of a killed leaf serves again, and a kill without an answer may have been done: given
// again, it would end whoever has got that number since. So no new leaf is ordered meanwhile.
static fallible leaf_await_kills(struct box *box, int64_t deadline)
{
	while (box->kills_unsure && box->phase == BOX_ALIVE)
		TRY(bell_wait(&box->leaf_settled, deadline), "wait for the kill of a leaf");
	return OK;
}

static fallible order_leaf(struct box *box, const char *mark, struct box_leaf **out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_LEAF};
	int fds[ORDER_FDS_MAX];
	struct err *err;

	snprintf(order.name, sizeof(order.name), "%s", mark);
	memcpy(order.box, box->id, sizeof(order.box));
	box->leaf_count++; // while we wait, others must not pass the bound
	err = leaf_await_kills(box, loop_now(box->loop) + ORDER_MS);
	if (!err) {
		box->leaf_orders++;
		err = ask_order(box->ask, &order, answer, fds, loop_now(box->loop) + ORDER_MS);
		box->leaf_orders--;
		bell_ring(&box->leaf_settled);
	}
	box->leaf_count--;
	TRY(err, "order a leaf");
	*out = leaf_of_answer(box, answer, fds);
	(*out)->marked = *mark;
	return OK;
}

static fallible take_new(struct box *box, const char *mark, struct box_leaf **out)
{
	TRY(order_leaf(box, mark, out));
	(*out)->taken = true;
	return OK;
}

static fallible too_many(void)
{
	return err_hint(err_new(EXHAUSTED, "too_many_execs", "the sandbox runs too many commands"),
			"wait for some of them to end");
}

fallible box_leaf_take(struct box *box, int *tries, struct box_leaf **out)
{
	struct link *from = &box->clean;
	struct box_leaf *leaf;
	bool full = box->leaf_count >= BOX_LEAVES_MAX;

	if (link_empty(from)) {
		from = &box->doubt;
		if (link_empty(from) || *tries >= (full ? BOX_LEAVES_MAX : DOUBTS_TRIED)) {
			if (full)
				return too_many();
			leaf = NULL;
			TRY(take_left(box, &leaf));
			if (!leaf)
				return take_new(box, "", out);
			leaf->taken = true;
			*out = leaf;
			return OK;
		}
		++*tries;
	}
	leaf = link_of(from->next, struct box_leaf, idle);
	link_drop(&leaf->idle);
	leaf->taken = true;
	*out = leaf;
	return OK;
}

// One that rests makes room for it.
fallible box_leaf_mark(struct box *box, const char *mark, struct box_leaf **out)
{
	if (box->leaf_count >= BOX_LEAVES_MAX) {
		if (link_empty(&box->clean))
			return too_many();
		struct box_leaf *rests = link_of(box->clean.prev, struct box_leaf, idle);

		box_leaf_kill(rests);
		while (box->leaf_count >= BOX_LEAVES_MAX && box->phase == BOX_ALIVE)
			TRY(task_sleep_until(loop_now(box->loop) + 1));
	}
	return take_new(box, mark, out);
}

static void drop_limit(struct box_leaf *leaf)
{
	loop_drop_timer(leaf->box->loop, &leaf->timer);
	leaf->limit_us = 0;
}

void box_leaf_begin(struct box_leaf *leaf, struct exec *exec)
{
	drop_limit(leaf);
	leaf->exec = exec;
}

void box_leaf_give(struct box_leaf *leaf, bool empty)
{
	struct box *box = leaf->box;

	leaf->taken = false;
	leaf->exec = NULL;
	leaf->doubtful = !empty;
	if (empty)
		drop_limit(leaf);
	if (leaf->marked && empty) { // it is removed, and its name with it
		box_leaf_kill(leaf);
		return;
	}
	if (leaf->spent || leaf->kills > 0) {
		if (leaf->kills == 0)
			close_leaf(leaf);
		return;
	}
	if (leaf->marked) // what is left in it is for whoever looks after it
		return;
	// The clean one that served last serves next: its pages are warm. Doubtful ones take turns.
	if (empty)
		link_push(&box->clean, &leaf->idle);
	else
		link_add(&box->doubt, &leaf->idle);
}

static int cpu_count(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 1;
	return CPU_COUNT(&set);
}

static void box_leaf_arm(struct box_leaf *leaf)
{
	uint64_t left_us = leaf->limit_us - leaf->seen_us;
	int64_t step = (int64_t)(left_us / 1000) / cpu_count();
	int64_t calm = leaf->exec ? STEP_CALM_MS : STEP_LEFT_MS;

	if (step < STEP_MIN_MS)
		step = STEP_MIN_MS;
	if (leaf->calm >= CALM && step < calm)
		step = calm;
	loop_set_timer(leaf->box->loop, &leaf->timer, loop_now(leaf->box->loop) + step);
}

static void box_leaf_on_timer(struct timer *timer)
{
	struct box_leaf *leaf = link_of(timer, struct box_leaf, timer);
	uint64_t used = box_leaf_used_us(leaf);

	leaf->calm = used == leaf->seen_us ? leaf->calm + 1 : 0;
	leaf->seen_us = used;
	if (used < leaf->limit_us) {
		box_leaf_arm(leaf);
		return;
	}
	if (leaf->taken && !leaf->exec) {
		// pid 1 is being asked whether it is empty, and may start a command in it: wait.
		loop_set_timer(leaf->box->loop, timer, loop_now(leaf->box->loop) + STEP_CALM_MS);
		return;
	}
	leaf->limit_us = 0;
	if (leaf->exec)
		leaf->box->leaf_events->cpu_limit(leaf->exec);
	else
		box_leaf_kill(leaf);
}

void box_leaf_limit(struct box_leaf *leaf, uint64_t cpu_us)
{
	leaf->seen_us = box_leaf_used_us(leaf);
	leaf->limit_us = leaf->seen_us + cpu_us;
	leaf->calm = 0;
	box_leaf_arm(leaf);
}

static bool leaf_box_lives(const struct box *box)
{
	return box->phase == BOX_ALIVE && !box->burying;
}

static fallible order_kill_once(const struct box_leaf *leaf)
{
	struct box *box = leaf->box;
	struct order order = {.kind = ORDER_KILL, .leaf = leaf->number};
	auto_free struct answer *answer = mem_new_of(struct answer);
	int none[ORDER_FDS_MAX];

	memcpy(order.box, box->id, sizeof(order.box));
	return ask_order(box->ask, &order, answer, none, loop_now(box->loop) + ORDER_MS);
}

fallible box_leaf_kill_spent(struct box_leaf *leaf)
{
	struct err *err = order_kill_once(leaf);

	leaf->killed = true;
	if (!err || err_kind(err) == ERR_NOT_FOUND)
		err_free(take_ptr(err));
	return err_while(err, "kill leaf %u, which was to be killed", leaf->number);
}

// Another leaf has its number: it was killed, and removed.
static bool leaf_is_replaced(const struct box_leaf *leaf)
{
	list_each (at, &leaf->box->leaves) {
		const struct box_leaf *other = link_of(at, struct box_leaf, all);

		if (other != leaf && other->number == leaf->number)
			return true;
	}
	return false;
}

// Before a kill is given again, the numbers of all new leaves are known, and no more are ordered.
static void leaf_await_orders(struct box *box)
{
	err_free(ask_wait_linked(box->ask, loop_now(box->loop) + ORDER_MS));
	while (box->leaf_orders && leaf_box_lives(box))
		err_free(bell_wait(&box->leaf_settled, loop_now(box->loop) + ORDER_MS));
}

// The kernel's own refusal, which the warden reports, condemns the box. Every other error is one of
// the way to the warden and says nothing of the box: the order is given again for as long as the
// box is alive.
static void order_kill_until_done(struct box_leaf *leaf)
{
	struct box *box = leaf->box;
	int64_t pause = KILL_AGAIN_MIN_MS;
	bool unsure = false;

	while (leaf_box_lives(box) && !leaf->killed) {
		auto_err err = order_kill_once(leaf);

		if (!err || !leaf_box_lives(box))
			break;
		box->kills_unsure += !unsure;
		unsure = true;
		log_event(LOG_WARN, "exec.kill", "sandbox", box->id, "error", err_trail(err), NULL);
		if (!strcmp(err_reason(err), ORDER_KILL_FAILED)) {
			box_break(box, "a leaf could not be killed");
			break;
		}
		err_free(task_sleep_until(loop_now(box->loop) + pause));
		pause = pause * 2 < KILL_AGAIN_MAX_MS ? pause * 2 : KILL_AGAIN_MAX_MS;
		leaf_await_orders(box);
		if (leaf_is_replaced(leaf))
			break;
	}
	box->kills_unsure -= unsure;
	bell_ring(&box->leaf_settled);
}

static void order_kill(struct box_leaf *leaf)
{
	struct box *box = leaf->box;

	order_kill_until_done(leaf);
	leaf->kills--;
	if (leaf->exec)
		leaf->box->leaf_events->killed(leaf->exec);
	if (leaf->kills == 0 && !leaf->taken)
		close_leaf(leaf);
	box_drop(box);
}

static void kill_task(void *arg)
{
	order_kill(arg);
}

static void condemn(struct box_leaf *leaf)
{
	link_drop(&leaf->idle);
	leaf->spent = true;
	leaf->kills++;
	box_hold(leaf->box);
}

void box_leaf_kill(struct box_leaf *leaf)
{
	condemn(leaf);
	task_start(leaf->box->loop, "leaf.kill", kill_task, leaf);
}

void box_leaf_kill_wait(struct box_leaf *leaf)
{
	condemn(leaf);
	order_kill(leaf);
}
