// Publishes an event when a process in a box starts or stops listening. The kernel has no
// notification for listeners, so boxes are scanned, seldom, and only when something could have
// changed.
#pragma once

#include "manager/table.h"

#define PORT_SCAN_MAX 64 // ports of a box that are tracked

void port_scan_open(struct manager *manager); // from now on

// Compares two scans: calls `tell` for each port that is in only one of the two sorted lists.
typedef void port_scan_fn(void *arg, uint16_t port, bool opened);
void port_scan_compare(const uint16_t *was, size_t was_count, const uint16_t *now, size_t now_count,
		       port_scan_fn *tell, void *arg);
