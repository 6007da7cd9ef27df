// Builds the base of the next box ahead of its order: cgroups, a clone in new namespaces, /dev,
// /proc, the exec of pid 1, which waits for its rootfs mounts. There is at most one prebuilt box,
// while a daemon is connected; the next is built after the first command of the box that took it.
// Boxes in a burst are built from scratch. A prebuilt box runs no foreign code and is hidden from
// the daemon: in no list, and only BUILD and DESTROY apply to it. Its state file has no pid, so the
// next warden destroys it. Its rootfs mounts may be sent before its order, while the daemon writes
// the create record. It is destroyed if no order follows or another daemon connects. After one
// ended or failed none is tried until the next box was ordered: a failure in a loop must not keep
// the host busy.
#include "warden/prebuilt.h"

#include <string.h>

#include "base/clock.h"
#include "base/weak.h"
#include "warden/build.h"
#include "warden/teardown.h"

#define PATIENCE_US 60000000 // how long a named box may wait for its order
#define PAUSE_US 5000 // after an order: the new box is used first, and more orders may follow

// A weak build serves one attack only, and prebuilds nothing.
static bool is_wanted(const struct warden *warden)
{
	return !WEAK_BUILD && warden->next[0] && !map_get(warden->boxes, str_of(warden->next)) &&
	       build_count(warden) < warden->boxes_max;
}

void prebuilt_expect(struct warden *warden, const char *next)
{
	memcpy(warden->next, next, sizeof(warden->next));
	warden->asked_us = 0;
	if (warden->prebuilt && warden->prebuilt->state == WARDEN_BOX_SET_UP)
		teardown_begin(warden, warden->prebuilt, BOX_EVENT_REMOVE);
	if (!warden->prebuilt && is_wanted(warden))
		build_ahead(warden, warden->next);
}

int64_t prebuilt_due(const struct warden *warden)
{
	const struct warden_box *prebuilt = warden->prebuilt;

	if (warden->building_count)
		return CLOCK_NEVER;
	if (prebuilt && prebuilt->state == WARDEN_BOX_SET_UP)
		return prebuilt->state_file.born_us + PATIENCE_US;
	if (prebuilt && prebuilt->state != WARDEN_BOX_PREBUILT)
		return CLOCK_NEVER; // it is being removed
	if (prebuilt ? !strcmp(prebuilt->id, warden->next) : !is_wanted(warden))
		return CLOCK_NEVER;
	return warden->asked_us + PAUSE_US;
}

void prebuilt_turn(struct warden *warden)
{
	if (warden->prebuilt)
		teardown_begin(warden, warden->prebuilt, BOX_EVENT_REMOVE);
	else
		build_ahead(warden, warden->next);
}
