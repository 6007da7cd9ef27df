// What a create waits for is mostly the same for every box: groups, a clone in new namespaces, its
// /dev and /proc, the exec of pid 1. So the warden builds that much ahead for the next box, which
// the daemon has only named, and pid 1 stands there and waits to be told what it shall be
// (init/setup_rootfs). There is one such berth, from the coming of a daemon on; the next is laid as
// soon as the box that took it has had time for its first command. A rush is built from scratch as
// ever, and when it is over there is a berth again.
//
// A berth holds no code of anybody, and at first no image and no disk. To the daemon it is not
// there: it is in no list of cells, and nothing can be ordered of it but to build it or to bury it.
// Its note names no process, so the next life of the warden buries it like any build that was
// promised to nobody.
//
// Its goods may come ahead of its order, while the daemon writes down that it wants the box: then
// it stays a berth, though it has an image and a disk and its pid 1 has greeted, until the order
// comes. When none does, or another daemon, which knows nothing of it, it is buried.
//
// One that ends unasked, or that cannot be laid, is not tried again until the next box was ordered:
// whatever ends it shall not keep the host busy.
#include "warden/prebuilt.h"

#include <string.h>

#include "base/clock.h"
#include "base/weak.h"
#include "warden/build.h"
#include "warden/teardown.h"

#define PATIENCE_US 60000000 // with who has foretold a box, and may wait for its turn
#define PAUSE_US 5000 // after an order for a box: it is used first, and there may be others behind

// A weak build lives for one attack.
static bool is_wanted(const struct warden *warden)
{
	return !WEAK_BUILD && warden->next[0] && !map_get(warden->boxes, str_of(warden->next)) &&
	       build_count(warden) < warden->boxes_max;
}

void prebuilt_expect(struct warden *warden, const char *next)
{
	memcpy(warden->next, next, sizeof(warden->next));
	warden->asked_us = 0;
	if (warden->prebuilt && warden->prebuilt->is_set_up)
		teardown_begin(warden, warden->prebuilt);
	if (!warden->prebuilt && is_wanted(warden))
		build_ahead(warden, warden->next);
}

int64_t prebuilt_due(const struct warden *warden)
{
	const struct warden_box *prebuilt = warden->prebuilt;

	if (warden->building_count || (prebuilt && prebuilt->state != WARDEN_BOX_PREBUILT))
		return CLOCK_NEVER; // it is on its way, or others are
	if (prebuilt && prebuilt->is_set_up)
		return prebuilt->note.born_us + PATIENCE_US;
	if (prebuilt ? !strcmp(prebuilt->id, warden->next) : !is_wanted(warden))
		return CLOCK_NEVER;
	return warden->asked_us + PAUSE_US;
}

void prebuilt_turn(struct warden *warden)
{
	if (warden->prebuilt)
		teardown_begin(warden, warden->prebuilt);
	else
		build_ahead(warden, warden->next);
}
