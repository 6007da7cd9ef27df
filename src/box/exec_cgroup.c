// An exec cgroup runs one exec at a time, so that its CPU meter, limit and kill affect that exec
// alone. It is reused when pid 1 reports it empty at the end of an exec. If processes were left in
// it, it is doubtful and tried later with TALK_EXEC_IF_EMPTY. A killed cgroup is spent
// (protocol/order.h); so is a marked one once its command has gone.
//
// An idle box holds no cgroup fds (box_exec_cgroup_freeze()): the numbers stay in `cgroups_left`,
// and the next exec asks the warden for fds again. CPU use is read by pread() through the warden's
// fd, at intervals that shrink as the limit comes near.
//
// syscalls: pread64 close sched_getaffinity
#include "box/exec_cgroup.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/box.h"
#include "box/exec_message.h"
#include "os/fd.h"

#define ORDER_MS 20000
#define KILL_AGAIN_MIN_MS 10 // between tries of a kill
#define KILL_AGAIN_MAX_MS 1000
#define LINK_MS 5000   // for a warden that restarts
#define DOUBTS_TRIED 2 // doubtful cgroups tried before a new one is ordered
#define STEP_MIN_MS 2
#define STEP_CALM_MS 20	  // while no CPU time passes: the longest delay to notice that it does
#define STEP_LEFT_MS 1000 // the same for processes that an exec left behind
#define CALM 4

static ssize_t box_exec_cgroup_read_text(int fd, char *room, size_t size)
{
	ssize_t n;

	do {
		n = pread(fd, room, size - 1, 0);
	} while (n < 0 && errno == EINTR);
	room[n > 0 ? n : 0] = 0;
	return n;
}

// cpu.stat (v2): microseconds behind a keyword; cpuacct.usage (v1): plain nanoseconds.
uint64_t box_exec_cgroup_used_us(const struct box_cgroup *exec_cgroup)
{
	static const char word[] = "usage_usec ";
	char text[512];
	const char *at;

	if (box_exec_cgroup_read_text(exec_cgroup->meter, text, sizeof(text)) <= 0)
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

	if (box_exec_cgroup_read_text(box->oom, text, sizeof(text)) <= 0)
		return 0;
	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, word, sizeof(word) - 1) == 0)
			return strtoull(at + sizeof(word) - 1, NULL, 10);
	}
	return 0;
}

static void close_cgroup(struct box_cgroup *exec_cgroup)
{
	struct box *box = exec_cgroup->box;

	loop_drop_timer(box->loop, &exec_cgroup->timer);
	link_drop(&exec_cgroup->all);
	link_drop(&exec_cgroup->idle);
	fd_drop(&exec_cgroup->meter);
	fd_drop(&exec_cgroup->join[0]);
	fd_drop(&exec_cgroup->join[1]);
	box->cgroup_count--;
	free(exec_cgroup);
}

static void box_exec_cgroup_on_timer(struct timer *timer);

struct box_cgroup *box_exec_cgroup_add(struct box *box, uint32_t number, int meter, const int *join,
				       int joins)
{
	struct box_cgroup *exec_cgroup = mem_new_of(struct box_cgroup);

	exec_cgroup->box = box;
	exec_cgroup->number = number;
	exec_cgroup->meter = meter;
	exec_cgroup->timer.due = box_exec_cgroup_on_timer;
	for (int i = 0; i < 2; i++)
		exec_cgroup->join[i] = i < joins ? join[i] : -1;
	link_add(&box->exec_cgroups, &exec_cgroup->all);
	box->cgroup_count++;
	return exec_cgroup;
}

void box_exec_cgroup_free_all(struct box *box)
{
	list_each (at, &box->exec_cgroups)
		close_cgroup(link_of(at, struct box_cgroup, all));
	fd_drop(&box->oom);
	free(take_ptr(box->cgroups_left));
	box->unseen = false;
}

void box_exec_cgroup_left(struct box *box, uint32_t number, bool left)
{
	uint64_t bit = 1ull << number % 64;

	if (!box->cgroups_left)
		box->cgroups_left = mem_new(TALK_CGROUPS_MAX / 8);
	box->cgroups_left[number / 64] &= ~bit;
	box->cgroups_left[number / 64] |= left ? bit : 0;
}

static bool exec_cgroup_is_left(const struct box *box, uint32_t number)
{
	return box->cgroups_left && box->cgroups_left[number / 64] >> number % 64 & 1;
}

// The first cgroup that exists and is not open; TALK_CGROUPS_MAX: none.
static uint32_t exec_cgroup_first_left(const struct box *box)
{
	uint32_t i = 0;

	while (i < TALK_CGROUPS_MAX && !exec_cgroup_is_left(box, i))
		i++;
	return i;
}

bool box_exec_cgroup_freeze(struct box *box)
{
	bool had = box->oom >= 0;

	if (box->kills_unsure) // see exec_cgroup_is_replaced(): a number must not be forgotten
		return false;
	list_each (at, &box->clean) {
		struct box_cgroup *exec_cgroup = link_of(at, struct box_cgroup, idle);

		if (exec_cgroup->join[0] >= 0)
			continue; // pid 1 does not have it yet
		box_exec_cgroup_left(box, exec_cgroup->number, true);
		close_cgroup(exec_cgroup);
	}
	if (link_empty(&box->exec_cgroups))
		fd_drop(&box->oom);
	return had && box->oom < 0;
}

// The fds of a CGROUP answer: to join it, its CPU meter, the OOM counter of the box.
static struct box_cgroup *exec_cgroup_of_answer(struct box *box, const struct answer *answer,
						int *fds)
{
	int joins = (int)answer->join_count;

	if (box->oom < 0)
		box->oom = take_fd(&fds[joins + 1]);
	fd_drop(&fds[joins + 1]);
	return box_exec_cgroup_add(box, answer->exec_cgroup, fds[joins], fds, joins);
}

// Repeats an order that is safe to repeat until the warden is back.
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

static fallible order_again(struct box *box, uint32_t number, struct box_cgroup **out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_CGROUP, .again = true, .exec_cgroup = number};
	int fds[ORDER_FDS_MAX];
	struct err *err;

	memcpy(order.box, box->id, sizeof(order.box));
	box_exec_cgroup_left(box, number, false);
	box->cgroup_count++;
	err = order_patiently(box, &order, answer, fds);
	box->cgroup_count--;
	if (err && err_kind(err) != ERR_NOT_FOUND)
		box_exec_cgroup_left(box, number, true); // it exists and can be asked for again
	TRY(err, "open cgroup %u again", number);
	answer->exec_cgroup = number;
	*out = exec_cgroup_of_answer(box, answer, fds);
	(*out)->marked = answer->marked;
	if (exec_cgroup_first_left(box) == TALK_CGROUPS_MAX)
		box->unseen = false;
	return OK;
}

// Takes the next unmarked cgroup that a previous daemon has left; NULL: none.
static fallible take_left(struct box *box, struct box_cgroup **out)
{
	uint32_t left;

	*out = NULL;
	while (!*out && (left = exec_cgroup_first_left(box)) < TALK_CGROUPS_MAX) {
		struct err *err = order_again(box, left, out);

		if (err && err_kind(err) != ERR_NOT_FOUND)
			return err;
		err_free(err);
		if (!*out)
			continue;
		(*out)->doubtful = true;
		if ((*out)->marked)
			*out = NULL; // a runner's processes may live there
	}
	return OK;
}

void box_exec_cgroup_retire(struct box *box, uint32_t number)
{
	struct box_cgroup *exec_cgroup;

	list_each (at, &box->exec_cgroups) {
		exec_cgroup = link_of(at, struct box_cgroup, all);
		if (exec_cgroup->number != number)
			continue;
		if (exec_cgroup->marked && !exec_cgroup->taken && !exec_cgroup->kills)
			box_exec_cgroup_kill(exec_cgroup);
		return;
	}
	// Of a previous daemon: the warden removes it on request if it is empty.
	if (!exec_cgroup_is_left(box, number))
		return;
	exec_cgroup = NULL;
	err_free(order_again(box, number, &exec_cgroup));
	if (exec_cgroup)
		box_exec_cgroup_give(exec_cgroup, false);
}

fallible box_exec_cgroup_again(struct box *box, uint32_t number, struct box_cgroup **out)
{
	struct err *err = order_again(box, number, out);

	if (!err)
		return OK;
	if (err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_CONFLICT)
		return err;
	err_free(err);
	*out = box_exec_cgroup_add(box, number, -1, NULL, 0);
	(*out)->spent = true;
	return OK;
}

// Numbers of killed cgroups are reused, and a kill without an answer may have been done: repeated,
// it would kill the new owner of the number. So no cgroup is ordered until such kills are settled.
static fallible order_cgroup(struct box *box, const char *mark, struct box_cgroup **out)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_CGROUP};
	int fds[ORDER_FDS_MAX];
	int64_t deadline = loop_now(box->loop) + ORDER_MS;
	struct err *err = OK;

	snprintf(order.name, sizeof(order.name), "%s", mark);
	memcpy(order.box, box->id, sizeof(order.box));
	box->cgroup_count++; // reserves a place while we wait
	while (!err && box->kills_unsure && box->phase == BOX_ALIVE)
		err = err_while(condition_wait(&box->cgroup_settled, deadline),
				"wait for the kill of a cgroup");
	if (!err) {
		box->cgroup_orders++;
		err = ask_order(box->ask, &order, answer, fds, loop_now(box->loop) + ORDER_MS);
		box->cgroup_orders--;
		condition_signal(&box->cgroup_settled);
	}
	box->cgroup_count--;
	TRY(err, "order a cgroup");
	*out = exec_cgroup_of_answer(box, answer, fds);
	(*out)->marked = *mark;
	(*out)->taken = true;
	return OK;
}

fallible box_exec_cgroup_take(struct box *box, int *tries, struct box_cgroup **out)
{
	bool full = box->cgroup_count >= BOX_CGROUPS_MAX;
	bool may_doubt = *tries < (full ? BOX_CGROUPS_MAX : DOUBTS_TRIED);
	struct box_cgroup *exec_cgroup = NULL;

	if (!link_empty(&box->clean)) {
		exec_cgroup = link_of(box->clean.next, struct box_cgroup, idle);
	} else if (!link_empty(&box->doubt) && may_doubt) {
		exec_cgroup = link_of(box->doubt.next, struct box_cgroup, idle);
		++*tries;
	} else {
		if (full)
			return exec_message_too_many();
		TRY(take_left(box, &exec_cgroup));
		if (!exec_cgroup)
			return order_cgroup(box, "", out);
	}
	link_drop(&exec_cgroup->idle);
	exec_cgroup->taken = true;
	*out = exec_cgroup;
	return OK;
}

// Evicts an idle cgroup if the box has too many.
fallible box_exec_cgroup_mark(struct box *box, const char *mark, struct box_cgroup **out)
{
	if (box->cgroup_count >= BOX_CGROUPS_MAX) {
		if (link_empty(&box->clean))
			return exec_message_too_many();
		struct box_cgroup *rests = link_of(box->clean.prev, struct box_cgroup, idle);

		box_exec_cgroup_kill(rests);
		while (box->cgroup_count >= BOX_CGROUPS_MAX && box->phase == BOX_ALIVE)
			TRY(task_sleep_until(loop_now(box->loop) + 1));
	}
	return order_cgroup(box, mark, out);
}

static void drop_limit(struct box_cgroup *exec_cgroup)
{
	loop_drop_timer(exec_cgroup->box->loop, &exec_cgroup->timer);
	exec_cgroup->limit_us = 0;
}

void box_exec_cgroup_begin(struct box_cgroup *exec_cgroup, struct exec *exec)
{
	drop_limit(exec_cgroup);
	exec_cgroup->exec = exec;
}

void box_exec_cgroup_give(struct box_cgroup *exec_cgroup, bool empty)
{
	struct box *box = exec_cgroup->box;

	exec_cgroup->taken = false;
	exec_cgroup->exec = NULL;
	exec_cgroup->doubtful = !empty;
	if (empty)
		drop_limit(exec_cgroup);
	if (exec_cgroup->marked && empty) { // the kill removes it, with its name
		box_exec_cgroup_kill(exec_cgroup);
		return;
	}
	if (exec_cgroup->spent || exec_cgroup->kills > 0) {
		if (exec_cgroup->kills == 0)
			close_cgroup(exec_cgroup);
		return;
	}
	if (exec_cgroup->marked) // its supervisor ends what is left in it
		return;
	// The clean cgroup used last is used next: its pages are warm. Doubtful ones take turns.
	if (empty)
		link_push(&box->clean, &exec_cgroup->idle);
	else
		link_add(&box->doubt, &exec_cgroup->idle);
}

static int cpu_count(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 1;
	return CPU_COUNT(&set);
}

static void box_exec_cgroup_arm(struct box_cgroup *exec_cgroup)
{
	uint64_t left_us = exec_cgroup->limit_us - exec_cgroup->seen_us;
	int64_t step = (int64_t)(left_us / 1000) / cpu_count();
	int64_t calm = exec_cgroup->exec ? STEP_CALM_MS : STEP_LEFT_MS;

	if (step < STEP_MIN_MS)
		step = STEP_MIN_MS;
	if (exec_cgroup->calm >= CALM && step < calm)
		step = calm;
	loop_set_timer(exec_cgroup->box->loop, &exec_cgroup->timer,
		       loop_now(exec_cgroup->box->loop) + step);
}

static void box_exec_cgroup_on_timer(struct timer *timer)
{
	struct box_cgroup *exec_cgroup = link_of(timer, struct box_cgroup, timer);
	uint64_t used = box_exec_cgroup_used_us(exec_cgroup);

	exec_cgroup->calm = used == exec_cgroup->seen_us ? exec_cgroup->calm + 1 : 0;
	exec_cgroup->seen_us = used;
	if (used < exec_cgroup->limit_us) {
		box_exec_cgroup_arm(exec_cgroup);
		return;
	}
	if (exec_cgroup->taken && !exec_cgroup->exec) {
		// pid 1 may be starting a command in it: wait.
		loop_set_timer(exec_cgroup->box->loop, timer,
			       loop_now(exec_cgroup->box->loop) + STEP_CALM_MS);
		return;
	}
	exec_cgroup->limit_us = 0;
	if (exec_cgroup->exec)
		exec_cgroup->box->cgroup_events->cpu_limit(exec_cgroup->exec);
	else
		box_exec_cgroup_kill(exec_cgroup);
}

void box_exec_cgroup_limit(struct box_cgroup *exec_cgroup, uint64_t cpu_us)
{
	exec_cgroup->seen_us = box_exec_cgroup_used_us(exec_cgroup);
	exec_cgroup->limit_us = exec_cgroup->seen_us + cpu_us;
	exec_cgroup->calm = 0;
	box_exec_cgroup_arm(exec_cgroup);
}

static fallible order_kill_once(const struct box_cgroup *exec_cgroup)
{
	struct box *box = exec_cgroup->box;
	struct order order = {.kind = ORDER_KILL, .exec_cgroup = exec_cgroup->number};

	return ask_plain(box->ask, &order, box->id, loop_now(box->loop) + ORDER_MS);
}

fallible box_exec_cgroup_kill_spent(struct box_cgroup *exec_cgroup)
{
	struct err *err = order_kill_once(exec_cgroup);

	exec_cgroup->killed = true;
	if (!err || err_kind(err) == ERR_NOT_FOUND)
		err_free(take_ptr(err));
	return err_while(err, "kill spent cgroup %u", exec_cgroup->number);
}

// True if a newer cgroup has its number: it was killed and removed.
static bool exec_cgroup_is_replaced(const struct box_cgroup *exec_cgroup)
{
	list_each (at, &exec_cgroup->box->exec_cgroups) {
		const struct box_cgroup *other = link_of(at, struct box_cgroup, all);

		if (other != exec_cgroup && other->number == exec_cgroup->number)
			return true;
	}
	return false;
}

// Before a kill is repeated: wait until the numbers of all new cgroups are known. No more are
// ordered meanwhile.
static void exec_cgroup_await_orders(struct box *box)
{
	err_free(ask_wait_linked(box->ask, loop_now(box->loop) + ORDER_MS));
	while (box->cgroup_orders && box_is_alive(box))
		err_free(condition_wait(&box->cgroup_settled, loop_now(box->loop) + ORDER_MS));
}

// A kill that the kernel refuses (the warden reports it) breaks the box. Any other error is of the
// connection to the warden and says nothing of the box: repeat while the box is alive.
static void order_kill_until_done(struct box_cgroup *exec_cgroup)
{
	struct box *box = exec_cgroup->box;
	int64_t pause = KILL_AGAIN_MIN_MS;
	bool unsure = false;

	while (box_is_alive(box) && !exec_cgroup->killed) {
		auto_err err = order_kill_once(exec_cgroup);

		if (!err || !box_is_alive(box))
			break;
		box->kills_unsure += !unsure;
		unsure = true;
		log_event(LOG_WARN, "exec.kill", "sandbox", box->id, "error", err_trail(err), NULL);
		if (!strcmp(err_reason(err), ORDER_KILL_FAILED)) {
			box_break(box, "a cgroup could not be killed");
			break;
		}
		err_free(task_sleep_until(loop_now(box->loop) + pause));
		pause = pause * 2 < KILL_AGAIN_MAX_MS ? pause * 2 : KILL_AGAIN_MAX_MS;
		exec_cgroup_await_orders(box);
		if (exec_cgroup_is_replaced(exec_cgroup))
			break;
	}
	box->kills_unsure -= unsure;
	condition_signal(&box->cgroup_settled);
}

// A task for a struct box_cgroup.
static void order_kill(void *arg)
{
	struct box_cgroup *exec_cgroup = arg;
	struct box *box = exec_cgroup->box;

	order_kill_until_done(exec_cgroup);
	exec_cgroup->kills--;
	if (exec_cgroup->exec)
		exec_cgroup->box->cgroup_events->killed(exec_cgroup->exec);
	if (exec_cgroup->kills == 0 && !exec_cgroup->taken)
		close_cgroup(exec_cgroup);
	box_unref(box);
}

static void exec_cgroup_spend(struct box_cgroup *exec_cgroup)
{
	link_drop(&exec_cgroup->idle);
	exec_cgroup->spent = true;
	exec_cgroup->kills++;
	box_ref(exec_cgroup->box);
}

void box_exec_cgroup_kill(struct box_cgroup *exec_cgroup)
{
	exec_cgroup_spend(exec_cgroup);
	task_start(exec_cgroup->box->loop, "exec_cgroup.kill", order_kill, exec_cgroup);
}

void box_exec_cgroup_kill_wait(struct box_cgroup *exec_cgroup)
{
	exec_cgroup_spend(exec_cgroup);
	order_kill(exec_cgroup);
}
