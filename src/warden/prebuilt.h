// The prebuilt box: the base of the next box, made before its order.
#pragma once

#include "warden/box.h"

// A daemon has connected and names its next box; "": not known.
void prebuilt_expect(struct warden *warden, const char *next);
// When prebuilt_turn() is to be called, if nothing happens before.
int64_t prebuilt_due(const struct warden *warden);
// Builds the prebuilt box if missing, or destroys one that will not be ordered.
void prebuilt_turn(struct warden *warden);
