// Whether all that is known agrees: the store's rows, this table, the warden's cells, and what the
// kernel and the disk show. What is on its way is no difference: only what two looks in a row have
// seen is told.
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
	size_t boxes, rows, cells;
	struct order_inventory inventory;
};

// Waits. UNAVAILABLE no_warden, starting, state_…: then nothing is known.
fallible verify_all(struct manager *manager, struct verify *out);
void verify_write(struct json_out *out, const struct verify *found);
void verify_done(struct verify *found);
