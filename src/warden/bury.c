// The order is that of docs/ISOLATION.md END-1: lift the quota, kill pid 1 by its pidfd, thaw what
// was frozen, wait for its end in the loop (the kernel has then emptied the whole pid namespace and
// dropped the mounts), remove the groups, the disk, the id range; then whoever waits is told, and
// last goes the note (that of one that was stopped before, for it may be built again). A group can
// stay busy for a moment after its last process, so removing is tried again by the clock: first
// soon, then more rarely, for ever.
//
// A stop is a burial that leaves the disk: the cell stays, as nothing but that.
//
// A box that an earlier life has built is not our child: its pidfd tells of its end all the same,
// and whoever is its parent reaps it.
//
// syscalls: pidfd_send_signal waitid epoll_ctl close ppoll poll
#include "warden/bury.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "os/fd.h"
#include "warden/ear.h"
#include "warden/post.h"

#define FIRST_RETRY_US 200
#define LAST_RETRY_US 20000
#define STUCK_US 5000000

// `kept`: the disk is still there. One who wanted it stopped is not told so when it is gone.
static void answer_all(struct warden *warden, struct cell *cell, bool kept)
{
	for (int i = 0; i < cell->waiter_count; i++) {
		const struct cell_waiter *waiter = &cell->waiters[i];

		if (waiter->kind == ORDER_STOP && !kept)
			post_refusal(warden, ORDER_STOP, waiter->order, cell->id,
				     err_new(CONFLICT, "being_deleted", "the box was deleted"));
		else
			post_done(warden, waiter->kind, waiter->order);
	}
	cell->waiter_count = 0;
	if (cell->refusal)
		post_answer(warden, cell->refusal, NULL, 0);
	free(cell->refusal);
	cell->refusal = NULL;
}

static void bury_tell(const struct cell *cell, const char *event)
{
	char took[24];

	snprintf(took, sizeof(took), "%lld", (long long)(clock_us() - cell->dying_us));
	log_trace(cell->trace);
	log_event(LOG_DEBUG, event, "sandbox", cell->id, "us", took, NULL);
	log_trace(NULL);
}

static void drop_note(struct warden *warden, struct cell *cell)
{
	if (cell->has_note)
		note_drop(warden->cells, cell->id);
	cell->has_note = false;
}

static void drop_mount(struct warden *warden, struct cell *cell)
{
	warden->group_mounts -= cell->group_mount >= 0;
	fd_drop(&cell->group_mount);
}

// Nobody need wait for what is left: a note of nothing, and a program that steers nobody.
static void bury_forget(struct warden *warden, struct cell *cell)
{
	bury_tell(cell, "box.buried");
	answer_all(warden, cell, false);
	drop_note(warden, cell);
	fd_drop(&cell->steer);
	map_take(warden->boxes, str_of(cell->id));
	for (int i = 0; i < ORDER_FDS_MAX; i++)
		fd_drop(&cell->fds[i]);
	fd_drop(&cell->netns);
	drop_mount(warden, cell);
	if (warden->berth == cell)
		warden->berth = NULL;
	err_free(cell->late);
	free(cell);
}

static void bury_keep(struct warden *warden, struct cell *cell)
{
	bury_tell(cell, "box.stopped");
	drop_note(warden, cell);
	fd_drop(&cell->steer);
	answer_all(warden, cell, true);
	for (int i = 0; i < ORDER_FDS_MAX; i++)
		fd_drop(&cell->fds[i]);
	drop_mount(warden, cell);
	err_free(take_ptr(cell->late));
	cell->awaits = false;
	cell->state = CELL_KEPT;
	cell->doomed = cell->told_stuck = cell->is_child = false;
	cell->leaves = 0;
	cell->pid = 0;
	cell->sweeps = 0;
	cell->next_us = cell->dying_us = 0;
	warden->kept++;
}

// True when the disk is gone, or was put down and stays.
static bool sweep_disk(struct warden *warden, struct cell *cell)
{
	if (!cell->has_disk)
		return true;
	if (cell->keeps)
		return disk_rests(warden->disk, cell->id);
	auto_err err = disk_drop(warden->disk, cell->id);

	if (!err) {
		cell->has_disk = false;
		return true;
	}
	log_trace(cell->trace);
	if (cell->sweeps == 0)
		log_event(LOG_WARN, "disk.busy", "sandbox", cell->id, "trail", err_trail(err),
			  NULL);
	log_trace(NULL);
	return false;
}

// True when nothing of the box is left but its note and what is to be kept.
static bool bury_sweep(struct warden *warden, struct cell *cell)
{
	kill_point("warden.box_ended", NULL);
	if (cell->has_groups && !group_drop(warden->groups, cell->id, cell->leaves))
		return false;
	kill_point("warden.groups_removed", NULL);
	cell->has_groups = false;
	if (cell->has_ear)
		ear_drop(warden->ears, cell->id);
	cell->has_ear = false;
	if (!sweep_disk(warden, cell))
		return false;
	if (cell->has_slot)
		ids_give(warden->ids, cell->note.slot,
			 cell->keeps || disk_trash(warden->disk) == 0);
	cell->has_slot = false;
	return true;
}

static void sweep_once(struct warden *warden, struct cell *cell)
{
	int64_t now = clock_us();
	int64_t wait = FIRST_RETRY_US;

	if (bury_sweep(warden, cell)) {
		link_drop(&cell->link);
		if (cell->keeps && cell->has_disk)
			bury_keep(warden, cell);
		else
			bury_forget(warden, cell);
		return;
	}
	for (int i = 0; i < cell->sweeps && wait < LAST_RETRY_US; i++)
		wait += wait / 2;
	cell->sweeps++;
	cell->next_us = now + wait;
	if (now - cell->dying_us > STUCK_US && !cell->told_stuck) {
		cell->told_stuck = true;
		log_trace(cell->trace);
		log_event(LOG_WARN, "box.stuck", "sandbox", cell->id, NULL);
		log_trace(NULL);
	}
}

static struct str watch_key(const uint64_t *number)
{
	return (struct str){(const char *)number, sizeof(*number)};
}

int bury_watch(struct warden *warden, struct cell *cell)
{
	struct epoll_event event = {.events = EPOLLIN};

	cell->watch = ++warden->last_watch;
	event.data.u64 = TAG_COUNT + cell->watch;
	if (epoll_ctl(warden->epoll, EPOLL_CTL_ADD, cell->pidfd, &event))
		return -1;
	map_put(warden->watched, watch_key(&cell->watch), cell);
	return 0;
}

// Closing alone would leave it in the epoll set while the zygote still has its copy.
static void unwatch(struct warden *warden, struct cell *cell)
{
	if (cell->pidfd < 0)
		return;
	epoll_ctl(warden->epoll, EPOLL_CTL_DEL, cell->pidfd, NULL);
	map_take(warden->watched, watch_key(&cell->watch));
	fd_drop(&cell->pidfd);
}

bool bury_has_ended(const struct cell *cell)
{
	struct pollfd one = {.fd = cell->pidfd, .events = POLLIN};

	return cell->pidfd < 0 || poll(&one, 1, 0) != 0;
}

// A box that was deleted has nothing to write out: its overlays end elsewhere. One that is stopped
// has: its end waits for theirs.
static void bury_let_go(struct warden *warden, struct cell *cell)
{
	if (!cell->keeps && warden->shroud && cell->mounts >= 0)
		shroud_take(warden->shroud, cell->mounts);
	else
		fd_drop(&cell->mounts);
	cell->mounts = -1;
}

static void start_sweeping(struct warden *warden, struct cell *cell)
{
	cell->awaits = false; // what its pid 1 had sent was heard before its end was
	bury_let_go(warden, cell);
	cell->state = CELL_SWEEPING;
	link_drop(&cell->link);
	link_add(&warden->graves, &cell->link);
	sweep_once(warden, cell);
}

static void saw_end(struct warden *warden, struct cell *cell)
{
	siginfo_t info;

	if (!bury_has_ended(cell))
		return;
	// Whoever reaps it first, the loop's SIGCHLD or this: both are well.
	if (cell->is_child && cell->pidfd >= 0)
		waitid(P_PIDFD, (id_t)cell->pidfd, &info, WEXITED | WNOHANG);
	unwatch(warden, cell);
	if (cell->state == CELL_DYING) {
		start_sweeping(warden, cell);
		return;
	}
	fd_drop(&cell->steer);
	if (cell->state == CELL_BERTH) {
		// With goods it may have ended of those, and its order will say.
		log_event(cell->furnished ? LOG_INFO : LOG_WARN, "berth.ended", "sandbox", cell->id,
			  NULL);
		warden->next[0] = 0; // see warden/berth.c
		bury_begin(warden, cell);
	}
	// Else the daemon sees its socket close, and decides what becomes of it.
}

void bury_heard(struct warden *warden, uint64_t tag)
{
	uint64_t number = tag - TAG_COUNT;
	struct cell *cell = map_get(warden->watched, watch_key(&number));

	if (cell)
		saw_end(warden, cell);
}

static bool kill_first(const struct cell *cell)
{
	if (cell->pidfd < 0)
		return false;
	if (syscall(SYS_pidfd_send_signal, cell->pidfd, SIGKILL, NULL, 0) == 0)
		return true;
	log_trace(cell->trace);
	if (errno != ESRCH)
		log_event(LOG_ERROR, "box.kill", "sandbox", cell->id, NULL);
	log_trace(NULL);
	return false;
}

void bury_begin(struct warden *warden, struct cell *cell)
{
	bool killed;

	if (cell->state == CELL_DYING || cell->state == CELL_SWEEPING)
		return;
	if (!cell->dying_us)
		cell->dying_us = clock_us();
	if (cell->state == CELL_BUILDING) {
		cell->doomed = true; // its pidfd is under way to us
		return;
	}
	if (cell->state == CELL_KEPT) {
		warden->kept--;
		start_sweeping(warden, cell);
		return;
	}
	if (cell->has_groups)
		group_lift(warden->groups, cell->id);
	cell->state = CELL_DYING;
	if (cell->keeps)
		bury_let_go(warden, cell);
	killed = kill_first(cell);
	// The frozen die only once they are thawed.
	if (cell->has_groups)
		group_pause(warden->groups, cell->id, false);
	for (uint32_t leaf = 0; cell->has_groups && leaf < cell->leaves; leaf++) {
		group_thaw(warden->groups, cell->id, leaf);
		if (weak(PIDNS))
			group_kill(warden->groups, cell->id, leaf);
	}
	if (!killed)
		saw_end(warden, cell);
}

int64_t bury_turn(struct warden *warden)
{
	int64_t now = clock_us(), next = CLOCK_NEVER;

	list_each (at, &warden->graves) {
		struct cell *cell = link_of(at, struct cell, link);

		if (cell->next_us <= now)
			sweep_once(warden, cell);
		else if (cell->next_us < next)
			next = cell->next_us;
	}
	// Those that were tried just now wait at least this long.
	if (next == CLOCK_NEVER && !link_empty(&warden->graves))
		next = now + FIRST_RETRY_US;
	return next;
}

// Cells of the table as an array, the caller's: burying one takes it, and no other, out of it.
static struct cell **all_cells(struct warden *warden, size_t *out_count)
{
	size_t count = 0, at = 0, room = map_count(warden->boxes);
	struct cell **cells = mem_grow(NULL, room + 1, sizeof(struct cell *));
	struct str key;
	void *value;

	while (count < room && map_next(warden->boxes, &at, &key, &value))
		cells[count++] = value;
	*out_count = count;
	return cells;
}

void bury_end_all(struct warden *warden)
{
	size_t count;
	auto_free struct cell **cells = all_cells(warden, &count);

	for (size_t i = 0; i < count; i++) {
		if (cells[i]->state == CELL_KEPT)
			continue;
		if (cells[i]->state == CELL_ALIVE)
			cells[i]->keeps = !cells[i]->note.ephemeral;
		bury_begin(warden, cells[i]);
	}
}

void bury_forget_orders(struct warden *warden)
{
	size_t count;
	auto_free struct cell **cells = all_cells(warden, &count);

	for (size_t i = 0; i < count; i++) {
		cells[i]->waiter_count = 0;
		cells[i]->build_owed = false;
		free(cells[i]->refusal);
		cells[i]->refusal = NULL;
	}
}
