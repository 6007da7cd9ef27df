// The ground of the next box, laid before anybody asks for it.
#pragma once

#include "warden/cell.h"

// A daemon has come, and says what its next box will be called; "": it does not know.
void berth_expect(struct warden *warden, const char *next);
// When berth_turn() is to be called, if nothing else happens before.
int64_t berth_due(const struct warden *warden);
// Lays what is missing, or clears away what will not be asked for.
void berth_turn(struct warden *warden);
