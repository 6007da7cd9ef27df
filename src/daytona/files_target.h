// The sandbox and the paths of a file request of the toolbox.
#pragma once

#include "gateway/gateway.h"

#define FILES_TARGET_SHORT_MS 30000 // time limit of one operation
#define FILES_TARGET_LONG_MS 600000 // time limit of a tree walk

struct files_target {
	struct http *x;
	struct box_ref ref;
	struct files files; // as the sandbox's user, from its work directory
};

// Gets a reference to the sandbox, runs `work`, and translates the error of a sandbox that ended.
typedef fallible files_target_fn(struct files_target *target);
fallible files_target_serve(struct http *x, files_target_fn *work);
// Sets the time limit of the operations that follow.
void files_target_within(struct files_target *target, int64_t ms);

// A path, in the exchange's arena. INVALID bad_path: empty, too long, with a NUL.
fallible files_target_path(struct files_target *target, struct str text, const char *field,
			   const char **out);
// The path in a parameter of the query.
fallible files_target_query(struct files_target *target, const char *key, const char **out);
// Makes a path absolute, without double slashes and "." components. In the exchange's arena.
const char *files_target_absolute(const struct files_target *target, const char *path);
