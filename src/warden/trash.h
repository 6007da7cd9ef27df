// What is to be removed goes out of sight by a rename, and is reaped by a child in its own time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct trash;

// The directory `name` beneath `parent`. What an earlier life left in it is reaped.
fallible trash_open(int parent, const char *name, struct trash **out);
void trash_close(struct trash *trash); // a child at work goes on; free(NULL) rules

// Moves `name` of `dir` into the trash; both lie on one mount. What is absent is gone already.
fallible trash_put(struct trash *trash, int dir, const char *name);
// Moves everything in `dir` there whose name `which` says yes to.
fallible trash_put_all(struct trash *trash, int dir, bool (*which)(const char *name));
uint64_t trash_count(const struct trash *trash); // entries not yet reaped
// A child ended: true when it was the reaper.
bool trash_reaped(struct trash *trash, int pid);
