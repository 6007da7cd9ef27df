// What is stored of conversations: rows of store/conv.h with bodies that only this room reads.
#pragma once

#include "conv/inner.h"
#include "store/conv.h"

// Commits, all or nothing, durable on return: the session's row, a new state of its lease (NULL:
// that stays), and up to BOOK_RUNS_MAX runs as they stand. Only then conv->lease is the new one.
// Versions count on. UNAVAILABLE state_unwritable, state_corrupt; CONFLICT state_stale.
#define BOOK_RUNS_MAX 8
struct book_change {
	bool session;
	const struct lease *lease;
	struct run *runs[BOOK_RUNS_MAX];
	size_t run_count;
};
fallible book_commit(struct conv *conv, const struct book_change *change);
// The session and its lease are no more; their runs go with them.
fallible book_drop(struct conv *conv);

// From the store. A body that does not parse is told by the result, never by an absence.
bool book_read_session(const struct store_conv *row, struct conv *out);
bool book_read_lease(const struct store_conv *row, struct lease *out);
bool book_read_run(const struct store_conv *row, struct run *out);
