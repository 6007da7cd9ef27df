// The order is R-4's: lift the quota, kill pid 1 by its pidfd, thaw what a kill had frozen, wait
// for the end of it in the loop (the kernel has then emptied the whole pid namespace and dropped
// the mounts), remove the groups, the disk, the id range. A group can stay busy for a moment after
// its last process, so removing is tried again by the clock: first soon, then more rarely, for
// ever.
//
// syscalls: pidfd_send_signal waitid epoll_ctl close
#include "warden/bury.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "os/fd.h"
#include "warden/post.h"

#define FIRST_RETRY_US 200
#define LAST_RETRY_US 20000
#define STUCK_US 5000000

static void answer_all(struct warden *warden, struct cell *cell)
{
	for (int i = 0; i < cell->waiter_count; i++)
		post_done(warden, ORDER_BURY, cell->waiters[i]);
	if (cell->refusal)
		post_answer(warden, cell->refusal, NULL, 0);
}

static void forget(struct warden *warden, struct cell *cell)
{
	char took[24];

	snprintf(took, sizeof(took), "%lld", (long long)(clock_us() - cell->dying_us));
	log_trace(cell->trace);
	log_event(LOG_DEBUG, "box.buried", "sandbox", cell->id, "us", took, NULL);
	log_trace(NULL);
	answer_all(warden, cell);
	map_take(warden->boxes, str_of(cell->id));
	link_drop(&cell->link);
	for (int i = 0; i < 3; i++)
		fd_drop(&cell->fds[i]);
	free(cell->refusal);
	err_free(cell->late);
	free(cell);
}

// True when nothing of the box is left.
static bool sweep(struct warden *warden, struct cell *cell)
{
	if (cell->has_groups && !group_drop(warden->groups, cell->id, cell->leaves))
		return false;
	cell->has_groups = false;
	if (cell->has_disk) {
		auto_err err = disk_drop(warden->disk, cell->id);

		if (err) {
			log_trace(cell->trace);
			if (cell->sweeps == 0)
				log_event(LOG_WARN, "disk.busy", "sandbox", cell->id, "trail",
					  err_trail(err), NULL);
			log_trace(NULL);
			return false;
		}
		cell->has_disk = false;
	}
	if (cell->has_slot)
		ids_give(warden->ids, cell->slot, disk_trash(warden->disk) == 0);
	cell->has_slot = false;
	return true;
}

static void sweep_once(struct warden *warden, struct cell *cell)
{
	int64_t now = clock_us();
	int64_t wait = FIRST_RETRY_US;

	if (sweep(warden, cell)) {
		forget(warden, cell);
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

static void saw_end(struct warden *warden, struct cell *cell)
{
	siginfo_t info = {0};

	// Whoever reaped it first, the loop's SIGCHLD or this: both are well. Only one that is
	// there and has not ended is none of ours to sweep.
	if (cell->pidfd >= 0 && waitid(P_PIDFD, (id_t)cell->pidfd, &info, WEXITED | WNOHANG) == 0 &&
	    !info.si_pid)
		return;
	unwatch(warden, cell);
	if (cell->state != CELL_DYING)
		return; // the daemon sees its socket close, and will have it buried
	cell->state = CELL_SWEEPING;
	link_drop(&cell->link);
	link_add(&warden->graves, &cell->link);
	sweep_once(warden, cell);
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
	if (cell->has_groups)
		group_lift(warden->groups, cell->id);
	cell->state = CELL_DYING;
	killed = kill_first(cell);
	// The frozen die only once they are thawed.
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

void bury_all(struct warden *warden)
{
	size_t count = 0, at = 0, room = map_count(warden->boxes);
	auto_free struct cell **cells = mem_grow(NULL, room + 1, sizeof(struct cell *));
	struct str key;
	void *value;

	// Burying one can take it, and no other, out of the table.
	while (count < room && map_next(warden->boxes, &at, &key, &value))
		cells[count++] = value;
	for (size_t i = 0; i < count; i++) {
		cells[i]->waiter_count = 0; // nobody is left to be told
		free(cells[i]->refusal);
		cells[i]->refusal = NULL;
		bury_begin(warden, cells[i]);
	}
}
