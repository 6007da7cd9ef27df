// Memory, CPU time and disk in use, read by the warden from the cgroups and disks of boxes. Wakes
// no box.
#pragma once

#include "manager/manager.h"
#include "protocol/order.h"

// Waits, one second at most. A number that could not be read is ORDER_USAGE_UNKNOWN.
void usage_ask(struct manager *manager, const char *id, struct order_usage *out);
// "usage": {…}, null for what is unknown.
void usage_put(struct json_out *out, const struct order_usage *usage);
