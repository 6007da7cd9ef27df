// What the page says is the word of a process without rights, but no more than that could have
// ordered: to end a sandbox. A thread that is dead has left its mark as well; what counts is one
// that still sleeps where nothing wakes it, and has for too long.
//
// Where it is the kernel that hangs, closing the daemon's files, nobody can say which pipe it is.
// One after another is ended of the sandboxes with a pipe that only the daemon had, until it is
// free.
#include "warden/blocked.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "os/thread.h"
#include "protocol/blocked_call.h"
#include "warden/build.h"
#include "warden/teardown.h"

fallible blocked_open(struct warden *warden, int fd)
{
	auto_fd page = fd;
	void *at = mmap(NULL, sizeof(struct blocked_calls), PROT_READ, MAP_SHARED, page, 0);

	if (at == MAP_FAILED)
		return err_sys(errno, "see what holds the daemon up");
	warden->holds = at;
	return OK;
}

static struct warden_box *warden_blocked_find(struct warden *warden, const struct stall_at *at)
{
	char box_id[ID_BOX_LEN + 1];
	struct warden_box *box;

	memcpy(box_id, at->box, sizeof(box_id));
	box_id[ID_BOX_LEN] = 0;
	box = map_get(warden->boxes, str_of(box_id));
	return box && !box->ahead ? box : NULL;
}

static void warden_blocked_end(struct warden *warden, struct warden_box *box)
{
	log_event(LOG_WARN, "security", "event", "box_blocks_daemon", "severity", "high", "sandbox",
		  box->id, NULL);
	build_hear(warden); // as before every end that keeps a disk
	box->keeps = box->has_disk && !box->note.ephemeral;
	teardown_begin(warden, box);
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
		const struct blocked_call *call = &warden->holds->calls[i];
		struct warden_box *box = warden_blocked_find(warden, &call->at);

		if (box && box->state == WARDEN_BOX_ALIVE && sleeps_on(call->thread) &&
		    clock_us() >= call->late_us)
			warden_blocked_end(warden, box);
	}
}

static void end_next(struct warden *warden)
{
	struct warden_box *next = NULL;

	for (int i = 0; i < BLOCKED_CALLS_LAST; i++) {
		const struct blocked_call_last *last = &warden->holds->last[i];
		struct warden_box *box = last->count ? warden_blocked_find(warden, &last->at)
						     : NULL;

		if (box && (box->state == WARDEN_BOX_DYING || box->state == WARDEN_BOX_SWEEPING))
			return; // it may have been that one
		if (box && box->state == WARDEN_BOX_ALIVE && !next)
			next = box;
	}
	if (next)
		warden_blocked_end(warden, next);
}

void blocked_end(struct warden *warden, enum blocked_call_where where)
{
	if (!warden->holds)
		return;
	if (where == BLOCKED_CALL_IN_CALL)
		end_calls(warden);
	if (where == BLOCKED_CALL_IN_CLOSE)
		end_next(warden);
}
