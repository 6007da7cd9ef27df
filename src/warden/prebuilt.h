// The ground of the next box, laid before anybody asks for it.
#pragma once

#include "warden/box.h"

// A daemon has come, and says what its next box will be called; "": it does not know.
void prebuilt_expect(struct warden *warden, const char *next);
// When prebuilt_turn() is to be called, if nothing else happens before.
int64_t prebuilt_due(const struct warden *warden);
// Lays what is missing, or clears away what will not be asked for.
void prebuilt_turn(struct warden *warden);
