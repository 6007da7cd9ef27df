// The warden's part of building a box: everything that a builder is handed. The rest happens in the
// clone (warden/builder.c), and whether that went well the daemon hears from pid 1 itself.
#pragma once

#include "warden/box.h"

// Takes the order as far as the zygote. On failure all is undone, or will be by the time that the
// refusal is sent: then OK is returned all the same. CONFLICT box_exists,
// NOT_FOUND no_disk, EXHAUSTED too_many_boxes or prebuilt_lost,
// and the errors of template, disk and groups.
fallible build_begin(struct warden *warden, const struct order *order);
// A child ended: true when it repaired a disk. The build that waited for it goes on.
bool build_reaped(struct warden *warden, int pid, int status);
// The daemon is gone: builds that wait for a repair are nobody's. The repair goes on.
void build_forget(struct warden *warden);
// The ground of a box that nobody has ordered yet, as the warden's berth.
void build_ahead(struct warden *warden, const char *box);
// Boxes that there are or are to be: what boxes_max bounds.
size_t build_count(const struct warden *warden);
// A cell that holds nothing yet and stands in no table.
struct warden_box *warden_box_new(const char *box);
// Takes what the zygote and its builders have said. False: the zygote is gone.
bool build_hear(struct warden *warden);
// The zygote answered: the oldest building cell is alive, or a berth, or fails.
void build_answered(struct warden *warden, const struct zygote_answer *answer);
