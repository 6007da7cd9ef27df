// Groups first: while something lives there its files are in use. What cannot be removed is told,
// never passed over in silence, for the daemon counts on our word.
//
// syscalls: faccessat faccessat2
#include "warden/reclaim.h"

#include <fcntl.h>
#include <unistd.h>

#include "warden/census.h"
#include "warden/ear.h"

static fallible busy(const char *what)
{
	return err_new(UNAVAILABLE, "stray_busy", "%s of nobody's cannot be removed yet", what);
}

fallible reclaim_box(struct warden *warden, const char *box)
{
	if (!census_bury_one(warden->groups, box))
		return busy("a control group");
	ear_drop(warden->ears, box);
	note_drop(warden->cells, box);
	if (faccessat(warden->ears, box, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    faccessat(warden->cells, box, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return busy("a run file");
	return disk_reclaim(warden->disk, box);
}
