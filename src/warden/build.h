// The warden's part of building a box: everything that the builder is given. The rest happens in
// the clone (warden/builder.c). pid 1 itself tells the daemon whether that succeeded.
#pragma once

#include "warden/box.h"

// Takes the order as far as the zygote. On failure everything is undone, or will be before the
// refusal is sent: then OK is returned all the same. CONFLICT box_exists, NOT_FOUND no_disk,
// EXHAUSTED too_many_boxes or prebuilt_lost, and the errors of template, disk and groups.
fallible build_begin(struct warden *warden, const struct order *order);
// A child ended: true if it repaired a disk. The build that waited for it goes on.
bool build_reaped(struct warden *warden, int pid, int status);
// The daemon is gone: builds that wait for a repair are cancelled. The repair goes on.
void build_forget(struct warden *warden);
// The box is not wanted any more: a build that waits for its disk to be loaded is refused.
void build_cancel(struct warden *warden, const char *box_id);
// Boxes that exist or are being built: the number that boxes_max bounds.
size_t build_count(const struct warden *warden);
// Reads the messages of the zygote and its builders. False: the zygote is gone.
bool build_read_zygote(struct warden *warden);
// The zygote answered: the oldest box in building becomes alive or prebuilt, or fails.
void build_answered(struct warden *warden, const struct zygote_answer *answer);

// The prebuilt box: the base of the next box, made before its order.
// A daemon has connected and names its next box; "": not known.
void prebuilt_expect(struct warden *warden, const char *next);
// When prebuilt_turn() is to be called, if nothing happens before.
int64_t prebuilt_due(const struct warden *warden);
// Builds the prebuilt box if missing, or destroys one that will not be ordered.
void prebuilt_turn(struct warden *warden);
