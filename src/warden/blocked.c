// The page of blocked calls is written by the unprivileged daemon. A lie in it can do no more than
// the daemon could order anyway: end a box. A dead thread leaves its entry behind as well, so an
// entry counts only if its thread still sleeps in the kernel, and has for too long.
//
// If the kernel hangs while it closes the daemon's files, no entry names the pipe. Boxes with a
// pipe that only the daemon had open are then ended one after another, until the daemon can exit.
#include "warden/blocked.h"

#include <errno.h>
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
		return err_sys(errno, "map the page of blocked calls");
	warden->blocked_calls = at;
	return OK;
}

static struct warden_box *warden_blocked_find(struct warden *warden, const struct stall_at *at)
{
	char box_id[ID_BOX_LEN + 1];
	struct warden_box *box;

	memcpy(box_id, at->box, sizeof(box_id));
	box_id[ID_BOX_LEN] = 0;
	box = map_get(warden->boxes, str_of(box_id));
	return box != warden->prebuilt ? box : NULL;
}

static void warden_blocked_end(struct warden *warden, struct warden_box *box)
{
	log_event(LOG_WARN, "security", "event", "box_blocks_daemon", "severity", "high", "sandbox",
		  box->id, NULL);
	build_read_zygote(warden); // as before every teardown that keeps a disk
	box->keeps = box->has.disk && !box->state_file.ephemeral;
	teardown_begin(warden, box, BOX_EVENT_REMOVE);
}

static void end_calls(struct warden *warden)
{
	for (int i = 0; i < HOLDS; i++) {
		const struct blocked_call *call = &warden->blocked_calls->calls[i];
		struct warden_box *box = warden_blocked_find(warden, &call->at);
		struct thread_look look;

		if (box && box->state == WARDEN_BOX_ALIVE && call->thread > 0 &&
		    thread_look_process(call->thread, &look) && look.state == THREAD_UNWAKEABLE &&
		    clock_us() >= call->late_us)
			warden_blocked_end(warden, box);
	}
}

static void end_next(struct warden *warden)
{
	struct warden_box *next = NULL;

	for (int i = 0; i < BLOCKED_CALLS_LAST; i++) {
		const struct blocked_call_last *last = &warden->blocked_calls->last[i];
		struct warden_box *box = last->count ? warden_blocked_find(warden, &last->at)
						     : NULL;

		if (box && (box->state == WARDEN_BOX_DYING || box->state == WARDEN_BOX_SWEEPING))
			return; // this box may have been the cause
		if (box && box->state == WARDEN_BOX_ALIVE && !next)
			next = box;
	}
	if (next)
		warden_blocked_end(warden, next);
}

void blocked_end(struct warden *warden, enum blocked_call_where where)
{
	if (!warden->blocked_calls)
		return;
	if (where == BLOCKED_CALL_IN_CALL)
		end_calls(warden);
	if (where == BLOCKED_CALL_IN_CLOSE)
		end_next(warden);
}
