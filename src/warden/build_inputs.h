// The inputs of a build: the base, which is the same for every box, and the rootfs mounts, which
// the order names.
#pragma once

#include "warden/box.h"

// Both, for a box without a prebuilt base. The message with the rootfs mounts waits in pid 1's
// socket. An error after the clone was requested is stored in box->build_err.
fallible build_inputs_all(struct warden *warden, const struct order *order, struct warden_box *box);
// The base of a prebuilt box, with the limits of the last box.
fallible build_inputs_base_rootfs(struct warden *warden, struct warden_box *box);
// The rootfs mounts of a prebuilt box. Does nothing if box->build_err is set, and sets it on
// failure.
void build_inputs_mounts(struct warden *warden, const struct order *order, struct warden_box *box);
// EXHAUSTED prebuilt_lost: the prebuilt box has ended and is being removed. The daemon tries again.
fallible build_inputs_lost(void);
