// The filter of lists of sandboxes: terms that must all hold. word, "two words", field:value,
// field:a,b (one of them), label:KEY=VALUE, * for any characters, field>NUMBER (< >= <=; 50%, 200M,
// 1h), -TERM (not). web/src/filter.ts reads the same; test/filter_vectors.json holds both to it.
#pragma once

#include "codec/json.h"

#define FILTER_MAX 2048 // bytes; of a longer filter the rest is ignored

// Whether a row of GET /v1/sandboxes?view=summary, `age_s` seconds old, matches.
bool filter_matches(struct str filter, const struct json *row, double age_s);
