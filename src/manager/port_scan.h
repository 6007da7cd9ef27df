// Who begins to listen in a box, and who ends: told as events. The kernel tells nobody of a
// listener, so somebody has to look; seldom, and only where something could have changed.
#pragma once

#include "manager/table.h"

#define PORT_SCAN_MAX 64 // ports of a box that are followed

void port_scan_open(struct manager *manager); // from now on

// What changed between two looks: calls `tell` for each port that is in only one of two lists, both
// in order of numbers.
typedef void port_scan_fn(void *arg, uint16_t port, bool opened);
void port_scan_compare(const uint16_t *was, size_t was_count, const uint16_t *now, size_t now_count,
		       port_scan_fn *tell, void *arg);
