// syscalls: recvmsg close dup
#include "warden/orders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/talk.h"
#include "os/fd.h"
#include "warden/berth.h"
#include "warden/build.h"
#include "warden/bury.h"
#include "warden/jail.h"
#include "warden/netcell.h"
#include "warden/post.h"
#include "warden/reclaim.h"
#include "warden/rest.h"
#include "warden/tally.h"

#define ORDERS_A_TURN 16 // then others have theirs
#define KILL_AGAIN_US 1000
#define KILL_PATIENCE_US 5000000
#define IMPORT_PATIENCE_US (30 * 60 * 1000000ll) // an archive comes as slowly as its sender likes
#define FREEZE_PATIENCE_US (60 * 60 * 1000000ll)

enum phase { STRANGER = 1, GREETED = 2 };

static struct cell *find(struct warden *warden, const struct order *order)
{
	return map_get(warden->boxes, str_of(order->box));
}

static fallible no_box(void)
{
	return err_new(NOT_FOUND, "no_box", "there is no such box");
}

static fallible hello(struct warden *warden, const struct order *order)
{
	struct answer *answer = &warden->answer;

	if (order->version != ORDER_VERSION)
		return err_new(INVALID, "bad_version", "the warden speaks version %d",
			       ORDER_VERSION);
	warden->greeted = true;
	berth_expect(warden, order->next);
	*answer = (struct answer){.kind = ANSWER_DONE, .to = ORDER_HELLO, .id = order->id};
	answer->host = (struct order_host){
		.version = ORDER_VERSION,
		.pid1_version = TALK_VERSION,
		.epoch = warden->epoch,
		.can_limit_disk = disk_limits_bytes(warden->disk),
		.can_limit_inodes = disk_limits_inodes(warden->disk),
		.boxes_max = warden->boxes_max,
	};
	snprintf(answer->host.disk, sizeof(answer->host.disk), "%s", disk_word(warden->disk));
	snprintf(answer->host.cgroup, sizeof(answer->host.cgroup), "%s",
		 groups_word(warden->groups));
	snprintf(answer->host.net, sizeof(answer->host.net), "%s", netout_word(warden->netout.by));
	post_answer(warden, answer, NULL, 0);
	return OK;
}

static fallible orders_await_end(struct cell *cell, const struct order *order)
{
	if (cell->waiter_count == CELL_WAITERS)
		return err_new(CONFLICT, "being_deleted", "the box is being deleted");
	cell->waiters[cell->waiter_count++] = (struct cell_waiter){order->id, order->kind};
	memcpy(cell->trace, order->trace, sizeof(cell->trace));
	return OK;
}

// Burying what is not there is done already.
static fallible orders_bury(struct warden *warden, const struct order *order)
{
	struct cell *cell = find(warden, order);

	if (!cell) {
		TRY(reclaim_box(warden, order->box));
		post_done(warden, ORDER_BURY, order->id);
		return OK;
	}
	TRY(orders_await_end(cell, order));
	cell->keeps = false;
	if (cell == warden->berth && !strcmp(cell->id, warden->next))
		snprintf(warden->next, sizeof(warden->next), "%s", order->next);
	bury_begin(warden, cell);
	return OK;
}

// The disk must be fit to be used again: that of an ephemeral box is not.
static fallible orders_stop(struct warden *warden, const struct order *order)
{
	struct cell *cell = find(warden, order);

	if (!cell || cell->ahead)
		return no_box();
	if (cell->state == CELL_KEPT) {
		post_done(warden, ORDER_STOP, order->id);
		return OK;
	}
	if (cell->state == CELL_BUILDING)
		return err_hint(err_new(CONFLICT, "being_built", "the box is being built"),
				"stop it when it is ready");
	if (cell->state != CELL_ALIVE && !cell->keeps)
		return err_new(CONFLICT, "being_deleted", "the box is being deleted");
	if (cell->note.ephemeral || !cell->has_disk)
		return err_new(CONFLICT, "ephemeral", "the box ends with its run");
	TRY(orders_await_end(cell, order));
	build_hear(warden); // if its pid 1 holds its overlays up to us, they are to end with it
	cell->keeps = true;
	bury_begin(warden, cell);
	return OK;
}

static bool is_being_killed(struct warden *warden, const struct cell *cell, uint32_t leaf)
{
	list_each (at, &warden->murders) {
		const struct murder *murder = link_of(at, struct murder, link);

		if (murder->leaf == leaf && !strcmp(murder->box, cell->id))
			return true;
	}
	return false;
}

static bool leaf_note(struct warden *warden, const struct cell *cell)
{
	auto_err unnoted = note_write(warden->cells, cell->id, &cell->note);

	if (unnoted)
		log_event(LOG_WARN, "note.unwritten", "sandbox", cell->id, "trail",
			  err_trail(unnoted), NULL);
	return !unnoted;
}

// What is cloned into a group that was once killed dies at birth (Linux 6.14). So a killed leaf is
// removed, and made again under its number; daemon and pid 1 take the new fds for it. That is noted
// first: the next life would take a leaf that serves for a killed one, and give its number away.
static uint32_t next_leaf(struct warden *warden, struct cell *cell)
{
	for (uint32_t i = 0; i < cell->leaves; i++) {
		uint64_t bit = 1ull << i % 64;

		if (!(cell->note.killed[i / 64] & bit) || is_being_killed(warden, cell, i) ||
		    !group_leaf_drop(warden->groups, cell->id, i))
			continue;
		cell->note.killed[i / 64] &= ~bit;
		if (leaf_note(warden, cell))
			return i;
		cell->note.killed[i / 64] |= bit;
	}
	return cell->leaves;
}

static fallible orders_make_leaf(struct warden *warden, struct cell *cell, const char *mark,
				 uint32_t *out_number, struct group_leaf *out)
{
	uint32_t number = next_leaf(warden, cell);

	if (number >= TALK_LEAVES_MAX)
		return err_new(EXHAUSTED, "too_many_execs", "the box has %d leaves and no more",
			       TALK_LEAVES_MAX);
	TRY(group_leaf(warden->groups, cell->id, number, mark, ids_base(cell->note.slot),
		       &cell->group_mount, out));
	if (number == cell->leaves)
		cell->leaves++;
	*out_number = number;
	return OK;
}

// Noted before it is killed: whatever the next life clones into it would die of that.
static void spend(struct warden *warden, struct cell *cell, uint32_t number)
{
	cell->note.killed[number / 64] |= 1ull << number % 64;
	leaf_note(warden, cell);
}

// One with a mark serves once: if nothing lives in it, it is removed, and its number is free.
static fallible orders_open_again(struct warden *warden, struct cell *cell, uint32_t number,
				  struct group_leaf *out, bool *out_marked)
{
	struct err *err;

	if (group_leaf_retire(warden->groups, cell->id, number)) {
		spend(warden, cell, number);
		return err_new(NOT_FOUND, "no_leaf", "nothing was left in that leaf");
	}
	err = group_leaf_meter(warden->groups, cell->id, number, &out->meter, out_marked);
	if (err && group_leaf_is_gone(warden->groups, cell->id, number))
		return err_recast(err, ERR_NOT_FOUND, "no_leaf", "the box has no such leaf");
	return err;
}

// A mount that is not kept lives on in the fds that were opened through it: pid 1 has those.
static void keep_mount(struct warden *warden, struct cell *cell, bool had)
{
	if (had || cell->group_mount < 0)
		return;
	if (warden->group_mounts < WARDEN_MOUNTS_MAX)
		warden->group_mounts++;
	else
		fd_drop(&cell->group_mount);
}

// The fds that join a new one, one on v2 and two on v1, then its meter and the OOM counter of the
// box.
static fallible orders_leaf(struct warden *warden, const struct order *order)
{
	struct cell *cell = find(warden, order);
	uint32_t number = order->leaf;
	struct group_leaf made = {.meter = -1};
	bool marked = false;
	auto_fd oom = -1;
	int fds[GROUP_LEAF_JOINS + 2];
	struct err *err;
	bool had;

	if (!cell || cell->state != CELL_ALIVE)
		return no_box();
	TRY(group_oom(warden->groups, cell->id, &oom));
	had = cell->group_mount >= 0;
	err = order->again ? orders_open_again(warden, cell, number, &made, &marked)
			   : orders_make_leaf(warden, cell, order->name, &number, &made);
	keep_mount(warden, cell, had);
	TRY(err);
	warden->answer = (struct answer){
		.kind = ANSWER_DONE,
		.to = ORDER_LEAF,
		.id = order->id,
		.leaf = number,
		.join_count = (uint32_t)made.join_count,
		.marked = marked,
	};
	memcpy(fds, made.joins, (size_t)made.join_count * sizeof(*fds));
	fds[made.join_count] = made.meter;
	fds[made.join_count + 1] = take_fd(&oom);
	post_answer(warden, &warden->answer, fds, made.join_count + 2);
	return OK;
}

static fallible orders_adopt(struct warden *warden, const struct order *order)
{
	struct cell *cell = find(warden, order);
	struct answer *answer = &warden->answer;

	if (!cell || cell->state != CELL_ALIVE || cell->pidfd < 0)
		return no_box();
	*answer = (struct answer){
		.kind = ANSWER_DONE,
		.to = ORDER_ADOPT,
		.id = order->id,
		.pid = (uint32_t)cell->pid,
		.frozen = group_pulse(warden->groups, cell->id) != GROUP_RUNS,
		.leaves = cell->leaves,
		.cpu_us = order->cpu ? group_cpu_us(warden->groups, cell->id) : 0,
	};
	memcpy(answer->spent, cell->note.killed, sizeof(answer->spent));
	post_answer(warden, answer, NULL, 0);
	return OK;
}

// Read from the outside: a frozen box stays frozen, and a stopped one stopped.
static fallible usage(struct warden *warden, const struct order *order)
{
	const struct cell *cell = find(warden, order);
	struct answer *answer = &warden->answer;
	struct order_usage usage = {
		.memory = ORDER_USAGE_UNKNOWN,
		.cpu_us = ORDER_USAGE_UNKNOWN,
		.pids = ORDER_USAGE_UNKNOWN,
		.disk = ORDER_USAGE_UNKNOWN,
	};
	bool is_there = disk_used(warden->disk, order->box, &usage.disk);

	if (cell && cell->state == CELL_ALIVE) {
		usage.memory = group_memory(warden->groups, cell->id);
		usage.cpu_us = group_cpu_us(warden->groups, cell->id);
		usage.pids = group_pids(warden->groups, cell->id);
	} else if (!cell && !is_there) {
		return no_box();
	}
	*answer = (struct answer){
		.kind = ANSWER_DONE, .to = ORDER_USAGE, .id = order->id, .usage = usage};
	post_answer(warden, answer, NULL, 0);
	return OK;
}

static fallible kill_leaf(struct warden *warden, const struct order *order)
{
	struct cell *cell = find(warden, order);
	struct murder *murder;

	if (!cell || cell->state != CELL_ALIVE || order->leaf >= cell->leaves)
		return no_box();
	spend(warden, cell, order->leaf);
	if (group_leaf_retire(warden->groups, cell->id, order->leaf) ||
	    group_kill(warden->groups, cell->id, order->leaf)) {
		post_done(warden, ORDER_KILL, order->id);
		return OK;
	}
	murder = mem_new_of(struct murder);
	snprintf(murder->box, sizeof(murder->box), "%s", cell->id);
	memcpy(murder->trace, order->trace, sizeof(murder->trace));
	murder->leaf = order->leaf;
	murder->order = order->id;
	murder->next_us = clock_us() + KILL_AGAIN_US;
	murder->deadline_us = clock_us() + KILL_PATIENCE_US;
	link_add(&warden->murders, &murder->link);
	return OK;
}

static fallible begin_long(struct warden *warden, const struct order *order, int64_t patience_us)
{
	if (warden->long_count == WARDEN_LONG_MAX)
		return err_new(EXHAUSTED, "too_many_imports",
			       "%d templates are being made, and no more at once", WARDEN_LONG_MAX);
	warden->long_orders[warden->long_count++] = (struct long_order){order->id,
									clock_us() + patience_us};
	return OK;
}

static fallible orders_import(struct warden *warden, const struct order *order)
{
	struct err *err;
	int pipe = -1;

	TRY(begin_long(warden, order, IMPORT_PATIENCE_US));
	err = jail_open(warden->groups, &warden->jail_door);
	if (!err)
		err = template_import(warden->templates, order, warden->jail_userns,
				      &warden->jail_door, &pipe);
	if (err) {
		warden->long_count--;
		if (!templates_at_work(warden->templates))
			jail_close(warden->groups, &warden->jail_door);
		return err;
	}
	warden->answer = (struct answer){.kind = ANSWER_MORE, .to = ORDER_IMPORT, .id = order->id};
	post_answer(warden, &warden->answer, &pipe, 1);
	return OK;
}

static fallible orders_freeze(struct warden *warden, const struct order *order)
{
	struct err *err;

	TRY(begin_long(warden, order, FREEZE_PATIENCE_US));
	err = template_freeze(warden->templates, order);
	if (err)
		warden->long_count--;
	return err;
}

static fallible forget(struct warden *warden, const struct order *order)
{
	TRY(template_forget(warden->templates, order->name));
	post_done(warden, ORDER_FORGET, order->id);
	return OK;
}

static fallible orders_list(struct warden *warden, const struct order *order)
{
	warden->answer = (struct answer){.kind = ANSWER_DONE, .to = ORDER_LIST, .id = order->id};
	TRY(template_list(warden->templates, order->name, &warden->answer));
	warden->answer.kind = ANSWER_DONE;
	warden->answer.to = ORDER_LIST;
	warden->answer.id = order->id;
	post_answer(warden, &warden->answer, NULL, 0);
	return OK;
}

static const struct {
	unsigned phases;
	struct err *(*run)(struct warden *warden, const struct order *order);
} table[ORDER_KIND_COUNT] = {
	[ORDER_HELLO] = {STRANGER | GREETED, hello},
	[ORDER_BUILD] = {GREETED, build_begin},
	[ORDER_BURY] = {GREETED, orders_bury},
	[ORDER_LEAF] = {GREETED, orders_leaf},
	[ORDER_KILL] = {GREETED, kill_leaf},
	[ORDER_IMPORT] = {GREETED, orders_import},
	[ORDER_FREEZE] = {GREETED, orders_freeze},
	[ORDER_FORGET] = {GREETED, forget},
	[ORDER_LIST] = {GREETED, orders_list},
	[ORDER_CELLS] = {GREETED, tally_cells},
	[ORDER_ADOPT] = {GREETED, orders_adopt},
	[ORDER_STOP] = {GREETED, orders_stop},
	[ORDER_PAUSE] = {GREETED, rest_begin},
	[ORDER_THAW] = {GREETED, rest_end},
	[ORDER_CENSUS] = {GREETED, tally_census},
	[ORDER_NETWORK] = {GREETED, netcell_order},
	[ORDER_USAGE] = {GREETED, usage},
};

// True when one was read; *over when none can be any more.
static bool read_one(struct warden *warden, bool *over)
{
	struct order *order = &warden->order;
	auto_fd brought = -1;
	int count = 1;
	ssize_t len = fd_recv(warden->daemon, warden->room, sizeof(warden->room), &brought, &count,
			      MSG_DONTWAIT);
	unsigned phase = warden->greeted ? GREETED : STRANGER;
	struct err *err;

	if (len < 0 || count == 0)
		take_fd(&brought); // none, or closed already
	if (len < 0 && errno == EAGAIN)
		return false;
	*over = true;
	if (len <= 0)
		return false;
	auto_err bad = order_decode(warden->room, (size_t)len, order);

	if (bad || !(table[order->kind].phases & phase) || count != order_brings(order)) {
		log_event(LOG_ERROR, "order.forbidden", "operation",
			  bad ? "?" : order_word(order->kind), "severity", "high", "trail",
			  bad ? err_trail(bad) : "not in this phase", NULL);
		return false;
	}
	*over = false;
	kill_point("warden.order_heard", order_word(order->kind));
	log_trace(order->trace);
	warden->brought = brought;
	err = table[order->kind].run(warden, order);
	warden->brought = -1;
	log_trace(order->trace); // what it did may have told of other boxes
	if (err)
		post_refusal(warden, order->kind, order->id, order->box[0] ? order->box : NULL,
			     err);
	log_trace(NULL);
	return true;
}

bool orders_read(struct warden *warden)
{
	bool over = false;

	for (int i = 0; i < ORDERS_A_TURN; i++) {
		if (warden->building_count >= WARDEN_BUILDS_MAX)
			break;
		if (!read_one(warden, &over))
			break;
	}
	return !over;
}

void orders_finish_long(struct warden *warden, const struct answer *answer)
{
	for (int i = 0; i < warden->long_count; i++) {
		if (warden->long_orders[i].id != answer->id)
			continue;
		warden->long_orders[i] = warden->long_orders[--warden->long_count];
		post_answer(warden, answer, NULL, 0);
		return;
	}
}

// One stroke more at a leaf that has not emptied. True: the murder is over, and answered.
static bool orders_strike(struct warden *warden, struct murder *murder, int64_t now)
{
	const struct cell *cell = map_get(warden->boxes, str_of(murder->box));

	// A box that is being buried dies as a whole.
	if (!cell || cell->state != CELL_ALIVE ||
	    group_kill(warden->groups, murder->box, murder->leaf)) {
		post_done(warden, ORDER_KILL, murder->order);
		return true;
	}
	if (now < murder->deadline_us) {
		murder->next_us = now + KILL_AGAIN_US;
		return false;
	}
	group_thaw(warden->groups, murder->box, murder->leaf);
	log_trace(murder->trace);
	post_refusal(warden, ORDER_KILL, murder->order, murder->box,
		     err_new(UNAVAILABLE, ORDER_KILL_FAILED, "the processes do not end"));
	log_trace(NULL);
	return true;
}

static int64_t murders_turn(struct warden *warden, int64_t now)
{
	int64_t next = CLOCK_NEVER;

	list_each (at, &warden->murders) {
		struct murder *murder = link_of(at, struct murder, link);

		if (murder->next_us <= now && orders_strike(warden, murder, now)) {
			link_drop(&murder->link);
			free(murder);
			continue;
		}
		next = murder->next_us < next ? murder->next_us : next;
	}
	return next;
}

// The child's death is the answer.
static int64_t long_turn(struct warden *warden, int64_t now)
{
	int64_t next = CLOCK_NEVER;

	for (int i = 0; i < warden->long_count; i++) {
		struct long_order *order = &warden->long_orders[i];

		if (order->deadline_us <= now) {
			log_event(LOG_WARN, "template.late", NULL);
			template_cancel(warden->templates, order->id);
			order->deadline_us = CLOCK_NEVER;
		}
		next = order->deadline_us < next ? order->deadline_us : next;
	}
	return next;
}

int64_t orders_turn(struct warden *warden)
{
	int64_t now = clock_us();
	int64_t next = murders_turn(warden, now), jobs = long_turn(warden, now);
	int64_t pauses = rest_turn(warden, now);

	next = jobs < next ? jobs : next;
	return pauses < next ? pauses : next;
}

void orders_forget(struct warden *warden)
{
	warden->greeted = false;
	// The next daemon counts its orders from one again, and must not be given these answers.
	template_cancel(warden->templates, 0);
	warden->long_count = 0;
	build_forget(warden);
	bury_forget_orders(warden);
	rest_forget(warden);
	while (!link_empty(&warden->murders)) {
		struct murder *murder = link_of(warden->murders.next, struct murder, link);

		group_thaw(warden->groups, murder->box, murder->leaf);
		link_drop(&murder->link);
		free(murder);
	}
}
