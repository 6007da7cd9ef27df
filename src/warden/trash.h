// Deferred deletion: files are hidden by a rename, and deleted by a child in the background.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct trash;

// The directory `name` beneath `parent`. Entries that an earlier warden left are deleted.
fallible trash_open(int parent, const char *name, struct trash **out);
void trash_close(struct trash *trash); // a running child goes on; NULL is accepted

// Moves `name` of `dir` into the trash; both are on one mount. OK if absent.
fallible trash_put(struct trash *trash, int dir, const char *name);
// Moves every entry of `dir` for which `which` is true into the trash.
fallible trash_put_all(struct trash *trash, int dir, bool (*which)(const char *name));
uint64_t trash_count(const struct trash *trash); // entries not yet reaped
// Bytes on disk that the entries have, less what has other names. The child that deletes them
// measures them first: TRASH_UNKNOWN until it has, and if a tree is too deep.
#define TRASH_UNKNOWN UINT64_MAX
uint64_t trash_bytes(const struct trash *trash);
// A child ended: true if it was the reaper.
bool trash_reaped(struct trash *trash, int pid);
