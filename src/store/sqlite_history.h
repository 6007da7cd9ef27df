// The history of the host and of sandboxes: a database file of its own, with a row for each object
// and hour (types/history_row.h). It may lose the last minutes at a crash; a file that cannot be
// read is set aside.
#pragma once

#include "store/store.h"
#include "types/history_row.h"

#define HISTORY_FILE "history.db"
#define HISTORY_KEY_MAX 79 // "host", "tenant:NAME", "type:NAME", "sandbox:ID"

// Blocks: before the loop runs. `dir` -1: in memory.
fallible store_history_open(struct loop *loop, int dir, struct store **out);

struct history_write {
	char key[HISTORY_KEY_MAX + 1];
	int64_t hour;
	unsigned points; // bits of those that are written; the others stay
	struct history_point at[HISTORY_POINTS];
};
struct history_batch {
	struct history_write *writes;
	size_t count;
	int64_t oldest_hour; // earlier ones are removed
	uint64_t bytes_max;  // of the file: beyond, the oldest rows of sandboxes are removed
};
// Waits.
fallible store_history_write(struct store *store, struct history_batch *batch);

struct history_row {
	int64_t hour;
	struct str body;
};
// The rows of an object from `from` to `to`, both included; in the arena.
fallible store_history_load(struct store *store, const char *key, int64_t from, int64_t to,
			    struct arena *arena, struct history_row **out, size_t *out_count);
