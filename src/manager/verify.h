// Consistency check of the store's rows, the daemon's table, the warden's boxes, and kernel and
// disk. A state change under way is no difference: only differences seen twice in a row are
// reported.
#pragma once

#include "codec/json.h"
#include "manager/table.h"

struct verify_odd {
	char what[32]; // a stable word
	char name[ID_BOX_LEN + 1];
	char detail[80];
};

struct verify {
	struct verify_odd *at;
	size_t count;
	size_t boxes, rows, warden_boxes;
	struct order_inventory inventory;
};

// Waits. UNAVAILABLE no_warden, starting, state_…: nothing could be compared.
fallible verify_all(struct manager *manager, struct verify *out);
void verify_write(struct json_out *out, const struct verify *found);
void verify_done(struct verify *found);
