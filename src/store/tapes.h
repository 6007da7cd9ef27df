// Where outputs lie: an index of the tapes on disk. The tape's own header and directory are the
// record; this is for looking without opening them, written in batches and never waited for.
#pragma once

#include "store/store.h"

struct store_tape {
	const char *sandbox, *id;
	const char *kind;	      // "exec", "process", "session", "terminal"
	const char *command;	      // as shown
	int64_t started_ms, ended_ms; // 0: it runs
	uint64_t bytes;
	const char *body; // JSON of the owner's making: exit code and the like; NULL: none
};

void store_tapes_put(struct store *store, const struct store_tape *tape);	 // does not wait
void store_tapes_drop(struct store *store, const char *sandbox, const char *id); // NULL id: all
fallible store_tapes_drop_in(struct db *db, const char *sandbox, const char *id);
// Of one sandbox, oldest first; the words live in the arena.
fallible store_tapes_load(struct store *store, const char *sandbox, struct arena *arena,
			  struct store_tape **out, size_t *out_count);
