// Memory, CPU time and disk in use by boxes at this moment, read by the warden from their cgroups
// and disks. No box is woken for that.
#pragma once

#include "manager/manager.h"
#include "protocol/order.h"

// Waits, one second at most. A number that could not be learned is ORDER_USAGE_UNKNOWN.
void usage_ask(struct manager *manager, const char *id, struct order_usage *out);
// "usage": {…}, null for what is unknown.
void usage_put(struct json_out *out, const struct order_usage *usage);
