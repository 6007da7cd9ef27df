// Names and values in the order they were given: an environment, or labels. Owns its texts.
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "wire/json.h"

struct pair {
	char *name, *value;
};

struct pairs {
	struct pair *at;
	size_t count;
};

void pairs_set(struct pairs *pairs, struct str name, struct str value); // replaces one of that name
const char *pairs_get(const struct pairs *pairs, struct str name);	// NULL: absent
void pairs_done(struct pairs *pairs);
#define auto_pairs on_exit_call(pairs_done) struct pairs

// An environment: names [A-Za-z_][A-Za-z0-9_]*, at most 256 of them and 64 KiB in all. Null values
// are skipped. INVALID bad_env for a name, bad_field for the rest. NULL object: empty.
#define PAIRS_ENV_MAX 256
#define PAIRS_ENV_BYTES (64 * 1024)
fallible pairs_read_env(const struct json *object, struct pairs *out);

// Labels: at most 64; names of 1..63 letters, digits and ._/-, values up to 255 bytes of text.
#define PAIRS_LABELS_MAX 64
bool pairs_is_label(struct str name);
fallible pairs_read_labels(const struct json *object, struct pairs *out);

// A change of what is there: names of the object are set, those with null are taken away. Same
// rules, for the whole that comes out of it; nothing is changed on failure. NULL object: no change.
fallible pairs_change_env(const struct json *object, struct pairs *pairs);
fallible pairs_change_labels(const struct json *object, struct pairs *pairs);

void pairs_write(struct json_out *out, const struct pairs *pairs); // as an object
