// What a box uses now, asked of the warden.
#pragma once

#include "codec/json.h"
#include "manager/table.h"
#include "protocol/order.h"

// Memory, CPU time and disk in use, read by the warden from the cgroups and disks of boxes. Wakes
// no box. Waits, one second at most. A number that could not be read is ORDER_USAGE_UNKNOWN.
void usage_ask(struct manager *manager, const char *id, struct order_usage *out);
// Bytes of deleted files that are not removed yet; ORDER_USAGE_UNKNOWN. Waits, a quarter of a
// second at most.
uint64_t usage_ask_trash(struct manager *manager);
// "usage": {…}, null for what is unknown.
void usage_put(struct json_out *out, const struct order_usage *usage);
