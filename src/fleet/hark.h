// Who begins to listen in a box, and who ends: told as events. The kernel tells nobody of a
// listener, so somebody has to look; seldom, and only where something could have changed.
#pragma once

#include "fleet/table.h"

#define HARK_MAX 64 // ports of a box that are followed

void hark_open(struct fleet *fleet); // from now on

// What changed between two looks: calls `tell` for each port that is in only one of two lists, both
// in order of numbers.
typedef void hark_fn(void *arg, uint16_t port, bool opened);
void hark_compare(const uint16_t *was, size_t was_count, const uint16_t *now, size_t now_count,
		  hark_fn *tell, void *arg);
