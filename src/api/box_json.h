// A sandbox as the API shows it to who may use it.
#pragma once

#include "codec/json.h"
#include "http/http.h"
#include "manager/table.h"
#include "protocol/order.h"
#include "types/record.h"

// With its path token and base URL, and with `usage` unless NULL.
void box_write(struct http *x, struct json_out *out, const struct record *record,
	       const struct order_usage *usage);

// The members of a row in a table of sandboxes: its id, and those of `fields` (types/live.h).
void box_put_row(struct json_out *out, struct entry *entry, unsigned fields);
