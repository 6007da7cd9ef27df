// The sandbox object of Daytona's API.
#pragma once

#include "codec/json.h"
#include "http/http.h"
#include "types/foreign_name.h"
#include "types/record.h"

// `state` instead of the record's own, unless NULL. Without `whole`: an item of a list, which lacks
// env, volumes and buildInfo.
void sandbox_json_put(struct http *x, struct json_out *out, const struct record *record,
		      const char *state, bool whole);
void sandbox_json_name(const struct record *record, char out[FOREIGN_NAME_MAX + 2]);
const char *sandbox_json_state(const struct record *record); // "started", "stopped", …
// The base of all toolbox requests, without the id.
const char *sandbox_json_toolbox(struct http *x, const struct record *record);
