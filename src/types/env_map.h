// Names and values in their given order: an environment, or labels. Owns its texts.
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"

struct env_pair {
	char *name, *value;
};

struct env_map {
	struct env_pair *at;
	size_t count;
};

// Sets every pair of `from`.
void env_map_add(struct env_map *env_map, const struct env_map *from);
void env_map_set(struct env_map *env_map, struct str name,
		 struct str value);			     // replaces one of that name
void env_map_drop(struct env_map *env_map, struct str name); // if it is there
const char *env_map_get(const struct env_map *env_map, struct str name); // NULL: absent
void env_map_done(struct env_map *env_map);
#define auto_pairs on_exit_call(env_map_done) struct env_map

// An environment: names [A-Za-z_][A-Za-z0-9_]*, at most 256 of them and 64 KiB in all. Null values
// are skipped. INVALID bad_env for a name, bad_field for the rest. NULL object: empty.
#define ENV_MAP_ENV_MAX 256
#define ENV_MAP_ENV_BYTES (64 * 1024)
fallible env_map_read_env(const struct json *object, struct env_map *out);

// Labels: at most 64; names of 1..63 letters, digits and ._/-, values up to 255 bytes of text.
#define ENV_MAP_LABELS_MAX 64
#define ENV_MAP_LABEL_VALUE 255
bool env_map_is_label(struct str name);
fallible env_map_read_labels(const struct json *object, struct env_map *out);
// The same of a request, which may not name labels of cove's own: INVALID bad_label.
#define ENV_MAP_RESERVED "cove/"
// How many minutes after its stop a sandbox is deleted.
#define ENV_MAP_AUTO_DELETE ENV_MAP_RESERVED "auto-delete"
fallible env_map_ask_labels(const struct json *object, struct env_map *out);

// Changes the map: names of the object are set, those with null are removed. The rules apply to the
// result; nothing is changed on failure. NULL object: no change. Labels are those of a request.
fallible env_map_change_env(const struct json *object, struct env_map *env_map);
fallible env_map_change_labels(const struct json *object, struct env_map *env_map);

void env_map_write(struct json_out *out, const struct env_map *env_map); // as an object
