// Removes, in this order, the cgroups, mounts, disk, socket and state file of a box id that is in
// no table. Cgroups come first: processes in them keep the files busy. A resource that cannot be
// removed is reported as an error, because the daemon relies on the answer.
//
// syscalls: faccessat faccessat2
#include "warden/adopt_orphans.h"

#include <fcntl.h>
#include <unistd.h>

#include "warden/inventory.h"
#include "warden/listener.h"

static fallible orphan_busy(const char *what)
{
	return err_new(UNAVAILABLE, "leaked_busy", "%s without a box cannot be removed yet", what);
}

fallible adopt_orphans_box(struct warden *warden, const char *box)
{
	if (!inventory_destroy_one(warden->groups, box))
		return orphan_busy("a control group");
	box_listener_drop(warden->listeners, box);
	box_state_drop(warden->state_dir, box);
	if (faccessat(warden->listeners, box, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    faccessat(warden->state_dir, box, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return orphan_busy("a run file");
	return disk_adopt_orphans(warden->disk, box);
}
