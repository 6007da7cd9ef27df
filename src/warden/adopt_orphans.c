// Groups first: while something lives there its files are in use. What cannot be removed is told,
// never passed over in silence, for the daemon counts on our word.
//
// syscalls: faccessat faccessat2
#include "warden/adopt_orphans.h"

#include <fcntl.h>
#include <unistd.h>

#include "warden/inventory.h"
#include "warden/listener.h"

static fallible busy(const char *what)
{
	return err_new(UNAVAILABLE, "leaked_busy", "%s of nobody's cannot be removed yet", what);
}

fallible adopt_orphans_box(struct warden *warden, const char *box)
{
	if (!inventory_destroy_one(warden->groups, box))
		return busy("a control group");
	box_listener_drop(warden->ears, box);
	box_state_drop(warden->cells, box);
	if (faccessat(warden->ears, box, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    faccessat(warden->cells, box, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return busy("a run file");
	return disk_adopt_orphans(warden->disk, box);
}
