// Reads orders from the daemon's socket and executes them by a table: a function for each kind, and
// the phase in which it is permitted. An order that is malformed, out of phase or with a wrong
// number of fds ends the connection. Orders that take long are answered later: teardown, builds,
// kills on cgroup v1, pauses, imports. Kills, pauses and imports have a deadline. The kernel's
// state is the only record of whether a box is frozen.
//
// syscalls: recvmsg close dup openat read write
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
#include "os/fd.h"
#include "protocol/talk.h"
#include "warden/archive.h"
#include "warden/box_network.h"
#include "warden/build.h"
#include "warden/export.h"
#include "warden/jail.h"
#include "warden/limit.h"
#include "warden/reconcile.h"
#include "warden/recover.h"
#include "warden/reply_queue.h"
#include "warden/snapshot.h"
#include "warden/teardown.h"
#include "warden/template.h"
#include "warden/trash.h"
#include "warden/volumes.h"

#define ORDERS_A_TURN 16 // then other events are served
#define KILL_AGAIN_US 1000
#define PAUSE_AGAIN_US 500
#define RETRY_PATIENCE_US 5000000
#define IMPORT_PATIENCE_US (30 * 60 * 1000000ll) // an archive arrives as slowly as its sender likes
#define FREEZE_PATIENCE_US (60 * 60 * 1000000ll)

enum phase { STRANGER = 1, GREETED = 2 };

static struct warden_box *box_find(struct warden *warden, const struct order *order)
{
	return map_get(warden->boxes, str_of(order->box));
}

static struct warden_box *find_alive(struct warden *warden, const char *box_id)
{
	struct warden_box *box = map_get(warden->boxes, str_of(box_id));

	return box && box->state == WARDEN_BOX_ALIVE && box->pidfd >= 0 ? box : NULL;
}

static fallible no_box(void)
{
	return err_new(NOT_FOUND, "no_box", "there is no such box");
}

static fallible orders_hello(struct warden *warden, const struct order *order)
{
	struct answer *answer = &warden->answer;

	if (order->version != ORDER_VERSION)
		return err_new(INVALID, "bad_version", "the warden speaks version %d",
			       ORDER_VERSION);
	warden->greeted = true;
	prebuilt_expect(warden, order->next);
	snapshots_forget_forks(warden);
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
	snprintf(answer->host.cgroup, sizeof(answer->host.cgroup), "%s", warden->groups->word);
	snprintf(answer->host.net, sizeof(answer->host.net), "%s",
		 box_network_word(warden->network.by));
	reply_queue_answer(warden, answer, NULL, 0);
	return OK;
}

static fallible orders_await_end(struct warden_box *box, const struct order *order)
{
	if (box->waiter_count == WARDEN_BOX_WAITERS)
		return err_new(CONFLICT, "being_deleted", "the box is being deleted");
	box->waiters[box->waiter_count++] = (struct warden_box_waiter){order->id, order->kind};
	memcpy(box->trace, order->trace, sizeof(box->trace));
	return OK;
}

// DESTROY of an unknown box succeeds: it is gone already.
static fallible orders_destroy(struct warden *warden, const struct order *order)
{
	struct warden_box *box = box_find(warden, order);

	build_cancel(warden, order->box);
	archive_cancel(warden, order->box);
	volumes_forget(warden, order->box);
	if (!box) {
		TRY(recover_remove_orphan(warden, order->box));
		reply_queue_done(warden, ORDER_DESTROY, order->id);
		return OK;
	}
	TRY(orders_await_end(box, order));
	box->keeps = false;
	if (box == warden->prebuilt && !strcmp(box->id, warden->next))
		snprintf(warden->next, sizeof(warden->next), "%s", order->next);
	teardown_begin(warden, box, BOX_EVENT_REMOVE);
	return OK;
}

// Refused for an ephemeral box: its disk cannot be mounted again.
static fallible orders_stop(struct warden *warden, const struct order *order)
{
	struct warden_box *box = box_find(warden, order);

	if (!box || box == warden->prebuilt)
		return no_box();
	if (box->state == WARDEN_BOX_KEPT) {
		reply_queue_done(warden, ORDER_STOP, order->id);
		return OK;
	}
	if (warden_box_is_building(box))
		return err_hint(err_new(CONFLICT, "being_built", "the box is being built"),
				"stop it when it is ready");
	if (box->state != WARDEN_BOX_ALIVE && !box->keeps)
		return err_new(CONFLICT, "being_deleted", "the box is being deleted");
	if (box->state_file.ephemeral || !box->has.disk)
		return err_new(CONFLICT, "ephemeral", "the box ends with its run");
	TRY(orders_await_end(box, order));
	build_read_zygote(warden); // reads the overlay mounts that its pid 1 may have sent: they
				   // must end with the box
	box->keeps = true;
	teardown_begin(warden, box, BOX_EVENT_REMOVE);
	return OK;
}

// The retry of that kind for the box; NULL: none.
static struct retry *retry_find(struct warden *warden, enum order_kind kind, const char *box_id,
				uint32_t exec_cgroup)
{
	list_each (at, &warden->retries) {
		struct retry *retry = link_of(at, struct retry, link);

		if (retry->kind == kind && retry->exec_cgroup == exec_cgroup &&
		    !strcmp(retry->box, box_id))
			return retry;
	}
	return NULL;
}

static void retry_add(struct warden *warden, const struct order *order, int64_t again_us)
{
	struct retry *retry = mem_new_of(struct retry);

	*retry = (struct retry){
		.kind = order->kind,
		.exec_cgroup = order->exec_cgroup,
		.order = order->id,
		.next_us = clock_us() + again_us,
		.deadline_us = clock_us() + RETRY_PATIENCE_US,
	};
	memcpy(retry->box, order->box, sizeof(retry->box));
	memcpy(retry->trace, order->trace, sizeof(retry->trace));
	link_add(&warden->retries, &retry->link);
}

static void retry_drop(struct retry *retry)
{
	link_drop(&retry->link);
	free(retry);
}

static bool cgroup_state(struct warden *warden, const struct warden_box *box)
{
	auto_err unnoted = box_state_write(warden->state_dir, box->id, &box->state_file);

	if (unnoted)
		log_event(LOG_WARN, "box_state.unwritten", "sandbox", box->id, "trail",
			  err_trail(unnoted), NULL);
	return !unnoted;
}

// A process that is cloned into a cgroup which was once killed dies at once (Linux 6.14). So a
// killed exec cgroup is removed and made again under its number; daemon and pid 1 replace its fds.
// The state file is written first: else the next warden would take the new cgroup for a killed one
// and reuse its number.
static uint32_t next_cgroup(struct warden *warden, struct warden_box *box)
{
	for (uint32_t i = 0; i < box->exec_cgroups; i++) {
		uint64_t bit = 1ull << i % 64;

		if (!(box->state_file.killed[i / 64] & bit) ||
		    retry_find(warden, ORDER_KILL, box->id, i) ||
		    !group_exec_drop(warden->groups, box->id, i))
			continue;
		box->state_file.killed[i / 64] &= ~bit;
		if (cgroup_state(warden, box))
			return i;
		box->state_file.killed[i / 64] |= bit;
	}
	return box->exec_cgroups;
}

static fallible orders_make_cgroup(struct warden *warden, struct warden_box *box, const char *mark,
				   uint32_t *out_number, struct group_exec *out)
{
	uint32_t number = next_cgroup(warden, box);

	if (number >= TALK_CGROUPS_MAX)
		return err_new(EXHAUSTED, "too_many_execs",
			       "the box has %d exec cgroups, the maximum", TALK_CGROUPS_MAX);
	TRY(group_exec(warden->groups, box->id, number, mark, ids_base(box->state_file.slot),
		       &box->group_mount, out));
	if (number == box->exec_cgroups)
		box->exec_cgroups++;
	*out_number = number;
	return OK;
}

// Written before the kill: a process that the next warden clones into this cgroup would die.
static void cgroup_mark_killed(struct warden *warden, struct warden_box *box, uint32_t number)
{
	box->state_file.killed[number / 64] |= 1ull << number % 64;
	cgroup_state(warden, box);
}

// An exec cgroup with a mark serves once: if empty it is removed, and its number is free.
static fallible orders_open_again(struct warden *warden, struct warden_box *box, uint32_t number,
				  struct group_exec *out, bool *out_marked)
{
	struct err *err;

	if (group_exec_retire(warden->groups, box->id, number)) {
		cgroup_mark_killed(warden, box, number);
		return err_new(NOT_FOUND, "no_cgroup", "that exec cgroup is empty");
	}
	err = group_exec_meter(warden->groups, box->id, number, &out->meter, out_marked);
	if (err && group_exec_is_gone(warden->groups, box->id, number))
		return err_recast(err, ERR_NOT_FOUND, "no_cgroup",
				  "the box has no such exec cgroup");
	return err;
}

// A mount that is not kept lives on in the fds that were opened through it: pid 1 has those.
static void keep_mount(struct warden *warden, struct warden_box *box, bool had)
{
	if (had || box->group_mount < 0)
		return;
	if (warden->group_mounts < WARDEN_MOUNTS_MAX)
		warden->group_mounts++;
	else
		fd_drop(&box->group_mount);
}

// The fds that join a new exec cgroup, one on v2 and two on v1, then its meter and the box's OOM
// counter.
static fallible orders_cgroup(struct warden *warden, const struct order *order)
{
	struct warden_box *box = box_find(warden, order);
	uint32_t number = order->exec_cgroup;
	struct group_exec made = {.meter = -1};
	bool marked = false;
	auto_fd oom = -1;
	int fds[GROUP_CGROUP_JOINS + 2];
	struct err *err;
	bool had;

	if (!box || box->state != WARDEN_BOX_ALIVE)
		return no_box();
	TRY(group_oom(warden->groups, box->id, &oom));
	had = box->group_mount >= 0;
	err = order->again ? orders_open_again(warden, box, number, &made, &marked)
			   : orders_make_cgroup(warden, box, order->name, &number, &made);
	keep_mount(warden, box, had);
	TRY(err);
	warden->answer = (struct answer){
		.kind = ANSWER_DONE,
		.to = ORDER_CGROUP,
		.id = order->id,
		.exec_cgroup = number,
		.join_count = (uint32_t)made.join_count,
		.marked = marked,
	};
	memcpy(fds, made.joins, (size_t)made.join_count * sizeof(*fds));
	fds[made.join_count] = made.meter;
	fds[made.join_count + 1] = take_fd(&oom);
	reply_queue_answer(warden, &warden->answer, fds, made.join_count + 2);
	return OK;
}

static fallible orders_adopt(struct warden *warden, const struct order *order)
{
	struct warden_box *box = find_alive(warden, order->box);
	struct answer *answer = &warden->answer;

	if (!box)
		return no_box();
	*answer = (struct answer){
		.kind = ANSWER_DONE,
		.to = ORDER_ADOPT,
		.id = order->id,
		.pid = (uint32_t)box->pid,
		.frozen = group_pulse(warden->groups, box->id) != GROUP_RUNS,
		.exec_cgroups = box->exec_cgroups,
		.cpu_us = order->cpu ? group_cpu_us(warden->groups, box->id) : 0,
	};
	memcpy(answer->spent, box->state_file.killed, sizeof(answer->spent));
	reply_queue_answer(warden, answer, NULL, 0);
	return OK;
}

// Read from outside: a frozen box stays frozen, and a stopped one stopped.
static fallible orders_usage(struct warden *warden, const struct order *order)
{
	const struct warden_box *box = box_find(warden, order);
	struct answer *answer = &warden->answer;
	struct order_usage usage = ORDER_USAGE_NONE;
	uint64_t content;
	bool is_there = archive_sizes(warden, order->box, &usage.disk, &content) ||
			disk_used(warden->disk, order->box, &usage.disk);

	if (box && box->state == WARDEN_BOX_ALIVE) {
		usage.memory = group_memory(warden->groups, box->id);
		usage.cpu_us = group_cpu_us(warden->groups, box->id);
		usage.pids = group_pids(warden->groups, box->id);
		// Without a mount of its own the disk is looked for: not for every box.
		if (box->mounts >= 0 || box->limits.inodes)
			disk_inodes(warden->disk, box->id, box->mounts, &usage.inodes,
				    &usage.inodes_free);
	} else if (!box && !is_there) {
		return no_box();
	}
	*answer = (struct answer){
		.kind = ANSWER_DONE, .to = ORDER_USAGE, .id = order->id, .usage = usage};
	reply_queue_answer(warden, answer, NULL, 0);
	return OK;
}

static fallible orders_trash(struct warden *warden, const struct order *order)
{
	struct answer *answer = &warden->answer;
	uint64_t disks = disk_trash_bytes(warden->disk);
	uint64_t templates = templates_trash_bytes(warden->templates);
	bool is_known = disks != TRASH_UNKNOWN && templates != TRASH_UNKNOWN;

	*answer = (struct answer){.kind = ANSWER_DONE,
				  .to = ORDER_TRASH,
				  .id = order->id,
				  .trash = is_known ? disks + templates : ORDER_USAGE_UNKNOWN};
	reply_queue_answer(warden, answer, NULL, 0);
	return OK;
}

static fallible kill_cgroup(struct warden *warden, const struct order *order)
{
	struct warden_box *box = box_find(warden, order);

	if (!box || box->state != WARDEN_BOX_ALIVE || order->exec_cgroup >= box->exec_cgroups)
		return no_box();
	cgroup_mark_killed(warden, box, order->exec_cgroup);
	if (group_exec_retire(warden->groups, box->id, order->exec_cgroup) ||
	    group_kill(warden->groups, box->id, order->exec_cgroup)) {
		reply_queue_done(warden, ORDER_KILL, order->id);
		return OK;
	}
	retry_add(warden, order, KILL_AGAIN_US);
	return OK;
}

// Freezes a box with all its processes, pid 1 included. Answered when all of them are frozen.
static fallible orders_pause(struct warden *warden, const struct order *order)
{
	struct warden_box *box = find_alive(warden, order->box);

	if (!box)
		return no_box();
	snapshot_yield(warden, box->id);
	if (group_pause(warden->groups, box->id, true))
		return err_sys(errno, "freeze %s", box->id);
	if (group_pulse(warden->groups, box->id) == GROUP_FROZEN)
		reply_queue_done(warden, ORDER_PAUSE, order->id);
	else
		retry_add(warden, order, PAUSE_AGAIN_US);
	return OK;
}

// Cancels a PAUSE of the same box that is still waiting.
static fallible orders_thaw(struct warden *warden, const struct order *order)
{
	struct warden_box *box = find_alive(warden, order->box);
	struct retry *pause;

	if (!box)
		return no_box();
	while ((pause = retry_find(warden, ORDER_PAUSE, box->id, 0))) {
		reply_queue_refusal(warden, ORDER_PAUSE, pause->order, pause->box,
				    err_new(CANCELLED, "thawed", "the box was thawed"));
		retry_drop(pause);
	}
	if (group_pause(warden->groups, box->id, false))
		return err_sys(errno, "thaw %s", box->id);
	reply_queue_done(warden, ORDER_THAW, order->id);
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
		if (!templates_at_work(warden->templates) && !archives_at_work(warden))
			jail_close(warden->groups, &warden->jail_door);
		return err;
	}
	warden->answer = (struct answer){.kind = ANSWER_MORE, .to = ORDER_IMPORT, .id = order->id};
	reply_queue_answer(warden, &warden->answer, &pipe, 1);
	return OK;
}

static fallible orders_layer(struct warden *warden, const struct order *order)
{
	struct err *err;

	warden->answer = (struct answer){.kind = ANSWER_DONE, .to = ORDER_LAYER, .id = order->id};
	if (template_has_layer(warden->templates, order->name, &warden->answer)) {
		reply_queue_answer(warden, &warden->answer, NULL, 0);
		return OK;
	}
	TRY(begin_long(warden, order, IMPORT_PATIENCE_US));
	err = jail_open(warden->groups, &warden->jail_door);
	if (!err)
		err = template_layer(warden->templates, order, warden->jail_userns,
				     &warden->jail_door, warden->brought);
	if (err) {
		warden->long_count--;
		if (!templates_at_work(warden->templates) && !archives_at_work(warden))
			jail_close(warden->groups, &warden->jail_door);
	}
	return err;
}

static fallible orders_export(struct warden *warden, const struct order *order)
{
	on_exit_call(export_trees_close) struct export_trees trees = {
		.base = -1, .usr = -1, .disk = -1, .parent = -1};
	struct err *err;

	TRY(begin_long(warden, order, IMPORT_PATIENCE_US));
	err = jail_open(warden->groups, &warden->jail_door);
	if (!err)
		err = snapshot_trees(warden, order, warden->jail_userns, &trees);
	if (!err)
		err = template_export(warden->templates, order, &trees, warden->jail_userns,
				      &warden->jail_door, warden->brought);
	if (err) {
		warden->long_count--;
		if (!templates_at_work(warden->templates) && !archives_at_work(warden))
			jail_close(warden->groups, &warden->jail_door);
	}
	return err;
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

// A snapshot of an archived box drops the disk at its end, also when its daemon is gone.
static fallible orders_archive(struct warden *warden, const struct order *order)
{
	if (snapshot_is_made(warden, order->box))
		return err_hint(err_new(UNAVAILABLE, "disk_busy",
					"the files of the sandbox are being copied"),
				"try again in a moment");
	return archive_order(warden, order);
}

static fallible orders_forget_template(struct warden *warden, const struct order *order)
{
	bool done = false;

	if (template_is_read(warden->templates, order->name))
		return err_hint(err_new(CONFLICT, "in_use",
					"the template is being exported, or unpacked onto"),
				"try again when that has ended");
	TRY(snapshot_forget(warden, order->name, &done));
	if (!done)
		TRY(template_forget(warden->templates, order->name));
	reply_queue_done(warden, ORDER_FORGET, order->id);
	return OK;
}

static fallible orders_list(struct warden *warden, const struct order *order)
{
	warden->answer = (struct answer){.kind = ANSWER_DONE, .to = ORDER_LIST, .id = order->id};
	TRY(template_list(warden->templates, order->name, &warden->answer));
	reply_queue_answer(warden, &warden->answer, NULL, 0);
	return OK;
}

static const struct {
	unsigned phases;
	struct err *(*run)(struct warden *warden, const struct order *order);
} table[ORDER_KIND_COUNT] = {
	[ORDER_HELLO] = {STRANGER | GREETED, orders_hello},
	[ORDER_BUILD] = {GREETED, build_begin},
	[ORDER_DESTROY] = {GREETED, orders_destroy},
	[ORDER_CGROUP] = {GREETED, orders_cgroup},
	[ORDER_KILL] = {GREETED, kill_cgroup},
	[ORDER_IMPORT] = {GREETED, orders_import},
	[ORDER_FREEZE] = {GREETED, orders_freeze},
	[ORDER_FORGET] = {GREETED, orders_forget_template},
	[ORDER_LIST] = {GREETED, orders_list},
	[ORDER_BOXES] = {GREETED, warden_reconcile_boxes},
	[ORDER_ADOPT] = {GREETED, orders_adopt},
	[ORDER_STOP] = {GREETED, orders_stop},
	[ORDER_PAUSE] = {GREETED, orders_pause},
	[ORDER_THAW] = {GREETED, orders_thaw},
	[ORDER_INVENTORY] = {GREETED, warden_reconcile_inventory},
	[ORDER_NETWORK] = {GREETED, box_network_order},
	[ORDER_USAGE] = {GREETED, orders_usage},
	[ORDER_LAYER] = {GREETED, orders_layer},
	[ORDER_SNAPSHOT] = {GREETED, snapshot_order},
	[ORDER_DESCRIBE] = {GREETED, snapshot_describe},
	[ORDER_EXPORT] = {GREETED, orders_export},
	[ORDER_VOLUME] = {GREETED, volumes_make},
	[ORDER_UNVOLUME] = {GREETED, volumes_remove},
	[ORDER_VOLUMES] = {GREETED, volumes_list},
	[ORDER_MOUNT] = {GREETED, volumes_mount},
	[ORDER_TRASH] = {GREETED, orders_trash},
	[ORDER_LIMIT] = {GREETED, limit_order},
	[ORDER_ARCHIVE] = {GREETED, orders_archive},
};

// True: an order was read. *over: the connection is over.
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
	log_trace(order->trace); // executing it may have logged for other boxes
	if (err)
		reply_queue_refusal(warden, order->kind, order->id,
				    order->box[0] ? order->box : NULL, err);
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
		reply_queue_answer(warden, answer, NULL, 0);
		return;
	}
}

// Kills again in an exec cgroup that is not empty. True: done, and answered.
static bool retry_kill(struct warden *warden, const struct retry *retry, bool is_late)
{
	const struct warden_box *box = map_get(warden->boxes, str_of(retry->box));

	// A box that is being destroyed dies as a whole.
	if (!box || box->state != WARDEN_BOX_ALIVE ||
	    group_kill(warden->groups, retry->box, retry->exec_cgroup)) {
		reply_queue_done(warden, ORDER_KILL, retry->order);
		return true;
	}
	if (!is_late)
		return false;
	group_thaw(warden->groups, retry->box, retry->exec_cgroup);
	reply_queue_refusal(warden, ORDER_KILL, retry->order, retry->box,
			    err_new(UNAVAILABLE, ORDER_KILL_FAILED, "the processes do not end"));
	return true;
}

// Looks whether all processes are frozen. A box that does not freeze in time runs on.
static bool retry_pause(struct warden *warden, const struct retry *retry, bool is_late)
{
	if (!find_alive(warden, retry->box)) {
		reply_queue_refusal(warden, ORDER_PAUSE, retry->order, retry->box,
				    err_new(NOT_FOUND, "no_box", "the box has ended"));
		return true;
	}
	if (group_pulse(warden->groups, retry->box) == GROUP_FROZEN) {
		reply_queue_done(warden, ORDER_PAUSE, retry->order);
		return true;
	}
	if (!is_late)
		return false;
	group_pause(warden->groups, retry->box, false);
	reply_queue_refusal(warden, ORDER_PAUSE, retry->order, retry->box,
			    err_hint(err_new(TIMEOUT, "not_frozen", "the box does not freeze"),
				     "a process in it is in an uninterruptible wait; try again"));
	return true;
}

static int64_t retries_turn(struct warden *warden, int64_t now)
{
	int64_t next = CLOCK_NEVER;

	list_each (at, &warden->retries) {
		struct retry *retry = link_of(at, struct retry, link);
		bool is_kill = retry->kind == ORDER_KILL, is_late = now >= retry->deadline_us;

		if (retry->next_us <= now) {
			bool done;

			log_trace(retry->trace);
			done = is_kill ? retry_kill(warden, retry, is_late)
				       : retry_pause(warden, retry, is_late);
			log_trace(NULL);
			if (done) {
				retry_drop(retry);
				continue;
			}
			retry->next_us = now + (is_kill ? KILL_AGAIN_US : PAUSE_AGAIN_US);
		}
		next = retry->next_us < next ? retry->next_us : next;
	}
	return next;
}

// Kills the child of an order that takes too long. Reaping it produces the answer.
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
	int64_t next = retries_turn(warden, now), jobs = long_turn(warden, now);
	int64_t snapshots = snapshots_turn(warden), limits = limits_turn(warden);
	int64_t archives = archives_turn(warden);

	next = snapshots < next ? snapshots : next;
	next = limits < next ? limits : next;
	next = archives < next ? archives : next;
	return jobs < next ? jobs : next;
}

void orders_forget(struct warden *warden)
{
	warden->greeted = false;
	// The next daemon counts its orders from one again, and must not get these answers.
	template_cancel(warden->templates, 0);
	warden->long_count = 0;
	build_forget(warden);
	snapshots_forget(warden);
	limits_forget(warden);
	archives_forget(warden);
	volumes_forget(warden, NULL);
	teardown_forget_orders(warden);
	// Boxes that are being frozen freeze all the same.
	list_each (at, &warden->retries) {
		struct retry *retry = link_of(at, struct retry, link);

		if (retry->kind == ORDER_KILL)
			group_thaw(warden->groups, retry->box, retry->exec_cgroup);
		retry_drop(retry);
	}
}
