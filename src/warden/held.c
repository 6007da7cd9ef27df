// What the page says is the word of a process without rights, but no more than that could have
// ordered: to end a sandbox. A thread that is dead has left its mark as well; what counts is one
// that still sleeps where nothing wakes it, and has for too long.
//
// Where it is the kernel that hangs, closing the daemon's files, nobody can say which pipe it is.
// One after another is ended of the sandboxes with a pipe that only the daemon had, until it is
// free.
#include "warden/held.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "model/hold.h"
#include "os/thread.h"
#include "warden/build.h"
#include "warden/bury.h"

fallible held_open(struct warden *warden, int fd)
{
	auto_fd page = fd;
	void *at = mmap(NULL, sizeof(struct holds), PROT_READ, MAP_SHARED, page, 0);

	if (at == MAP_FAILED)
		return err_sys(errno, "see what holds the daemon up");
	warden->holds = at;
	return OK;
}

static struct cell *warden_held_find(struct warden *warden, const struct brink_at *at)
{
	char box[ID_BOX_LEN + 1];
	struct cell *cell;

	memcpy(box, at->box, sizeof(box));
	box[ID_BOX_LEN] = 0;
	cell = map_get(warden->boxes, str_of(box));
	return cell && !cell->ahead ? cell : NULL;
}

static void warden_held_end(struct warden *warden, struct cell *cell)
{
	log_event(LOG_WARN, "security", "event", "box_holds_up", "severity", "high", "sandbox",
		  cell->id, NULL);
	build_hear(warden); // as before every end that keeps a disk
	cell->keeps = cell->has_disk && !cell->note.ephemeral;
	bury_begin(warden, cell);
}

static bool sleeps_on(int32_t thread)
{
	struct thread_look look;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", thread);
	return thread > 0 && thread_look(path, &look) && look.state == THREAD_UNWAKEABLE;
}

static void end_calls(struct warden *warden)
{
	for (int i = 0; i < HOLDS; i++) {
		const struct hold *call = &warden->holds->calls[i];
		struct cell *cell = warden_held_find(warden, &call->at);

		if (cell && cell->state == CELL_ALIVE && sleeps_on(call->thread) &&
		    clock_us() >= call->late_us)
			warden_held_end(warden, cell);
	}
}

static void end_next(struct warden *warden)
{
	struct cell *next = NULL;

	for (int i = 0; i < HOLDS_LAST; i++) {
		const struct hold_last *last = &warden->holds->last[i];
		struct cell *cell = last->count ? warden_held_find(warden, &last->at) : NULL;

		if (cell && (cell->state == CELL_DYING || cell->state == CELL_SWEEPING))
			return; // it may have been that one
		if (cell && cell->state == CELL_ALIVE && !next)
			next = cell;
	}
	if (next)
		warden_held_end(warden, next);
}

void held_end(struct warden *warden, enum hold_where where)
{
	if (!warden->holds)
		return;
	if (where == HOLD_IN_CALL)
		end_calls(warden);
	if (where == HOLD_IN_CLOSE)
		end_next(warden);
}
