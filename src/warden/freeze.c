// PAUSE and THAW. A PAUSE that the freezer has not finished is polled every 500 us from the loop,
// and given up after 5 s: the box is then thawed and the order refused with not_frozen. A THAW
// cancels a PAUSE of the same box that is still waiting.
//
// syscalls: openat read write close
#include "warden/freeze.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "warden/reply_queue.h"

#define LOOK_US 500
#define PATIENCE_US 5000000

static bool is_alive(const struct warden_box *box)
{
	return box && box->state == WARDEN_BOX_ALIVE && box->pidfd >= 0;
}

static void pause_drop(struct pause *pause)
{
	link_drop(&pause->link);
	free(pause);
}

fallible warden_freeze_begin(struct warden *warden, const struct order *order)
{
	struct warden_box *box = map_get(warden->boxes, str_of(order->box));
	struct pause *pause;

	if (!is_alive(box))
		return err_new(NOT_FOUND, "no_box", "there is no such box");
	if (group_pause(warden->groups, box->id, true))
		return err_sys(errno, "freeze %s", box->id);
	if (group_pulse(warden->groups, box->id) == GROUP_FROZEN) {
		reply_queue_done(warden, ORDER_PAUSE, order->id);
		return OK;
	}
	pause = mem_new_of(struct pause);
	snprintf(pause->box, sizeof(pause->box), "%s", box->id);
	snprintf(pause->trace, sizeof(pause->trace), "%s", order->trace);
	pause->order = order->id;
	pause->next_us = clock_us() + LOOK_US;
	pause->deadline_us = clock_us() + PATIENCE_US;
	link_add(&warden->pauses, &pause->link);
	return OK;
}

fallible warden_freeze_end(struct warden *warden, const struct order *order)
{
	struct warden_box *box = map_get(warden->boxes, str_of(order->box));

	if (!is_alive(box))
		return err_new(NOT_FOUND, "no_box", "there is no such box");
	list_each (at, &warden->pauses) {
		struct pause *pause = link_of(at, struct pause, link);

		if (strcmp(pause->box, box->id) != 0)
			continue;
		reply_queue_refusal(warden, ORDER_PAUSE, pause->order, pause->box,
				    err_new(CANCELLED, "thawed", "the box was thawed"));
		pause_drop(pause);
	}
	if (group_pause(warden->groups, box->id, false))
		return err_sys(errno, "thaw %s", box->id);
	reply_queue_done(warden, ORDER_THAW, order->id);
	return OK;
}

// True: the order is answered.
static bool warden_freeze_look(struct warden *warden, struct pause *pause, int64_t now)
{
	if (!is_alive(map_get(warden->boxes, str_of(pause->box)))) {
		reply_queue_refusal(warden, ORDER_PAUSE, pause->order, pause->box,
				    err_new(NOT_FOUND, "no_box", "the box has ended"));
		return true;
	}
	if (group_pulse(warden->groups, pause->box) == GROUP_FROZEN) {
		reply_queue_done(warden, ORDER_PAUSE, pause->order);
		return true;
	}
	if (now < pause->deadline_us) {
		pause->next_us = now + LOOK_US;
		return false;
	}
	group_pause(warden->groups, pause->box, false);
	log_trace(pause->trace);
	reply_queue_refusal(warden, ORDER_PAUSE, pause->order, pause->box,
			    err_hint(err_new(TIMEOUT, "not_frozen", "the box does not freeze"),
				     "a process in it is in an uninterruptible wait; try again"));
	log_trace(NULL);
	return true;
}

int64_t warden_freeze_turn(struct warden *warden, int64_t now)
{
	int64_t next = CLOCK_NEVER;

	list_each (at, &warden->pauses) {
		struct pause *pause = link_of(at, struct pause, link);

		if (pause->next_us <= now && warden_freeze_look(warden, pause, now)) {
			pause_drop(pause);
			continue;
		}
		next = pause->next_us < next ? pause->next_us : next;
	}
	return next;
}

void warden_freeze_forget(struct warden *warden)
{
	list_each (at, &warden->pauses)
		pause_drop(link_of(at, struct pause, link));
}
