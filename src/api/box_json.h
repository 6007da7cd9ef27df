// A sandbox as the API shows it to who may use it.
#pragma once

#include "codec/json.h"
#include "http/http.h"
#include "protocol/order.h"
#include "types/record.h"

// With its path token and base URL, and with `usage` unless NULL.
void box_write(struct http *x, struct json_out *out, const struct record *record,
	       const struct order_usage *usage);
