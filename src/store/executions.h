// Rows of executions: the record as clients see it, what only execution/ reads, and columns for
// lists. A row has a version, and a write names the version that it was based on. The
// request is kept beside it, for later attempts and for a repetition.
#pragma once

#include "store/store.h"

struct execution_end;	  // types/execution_end.h
struct store_result_rows; // store/results.h

struct store_execution {
	const char *id;
	const char *tenant;			 // "": the operator's
	const char *profile, *task, *repository; // repository "": none was named
	const char *state, *outcome;		 // words of execution/; outcome "": not ended
	const char *mark;	   // of the idempotency key it was made under; "": none
	int64_t made_ms, ended_ms; // wall clock; ended 0: not yet
	int64_t run_ms, cpu_ms, memory;
	int64_t live;		  // 1: not ended, or its sandbox is not verified gone
	int64_t version;	  // that was read; 0: the row must not exist
	struct str record, inner; // JSON
	bool unreadable;	  // of a load: a column has a wrong type
	bool ends;		  // of a put: an end, or what is stored before it
};

// Durable on return, in one transaction. A put of version v leaves version v + 1. CONFLICT
// state_stale: the row has another version by now.
struct store_execution_put {
	const struct store_execution *row;
	struct str request;			 // of a new row
	const struct execution_end *end;	 // counted once for each id; NULL: it has not ended
	const struct store_result_rows *results; // of the attempt that ends; NULL: none
	bool soon;				 // may wait for others: store_do_soon()
};
fallible store_executions_put(struct store *store, const struct store_execution_put *put);
// Removes the row and its request. Durable on return. *out_bytes: of the request.
fallible store_executions_drop(struct store *store, const char *id, uint64_t *out_bytes);
// Calls `each` with the bytes of the requests of each tenant.
fallible store_executions_requests(struct store *store,
				   void (*each)(void *arg, const char *tenant, uint64_t bytes),
				   void *arg);

// Texts are in the arena, here and below. *out NULL: none.
fallible store_executions_get(struct store *store, const char *id, struct arena *arena,
			      struct store_execution **out);
fallible store_executions_request(struct store *store, const char *id, struct arena *arena,
				  struct str *out); // at == NULL: none
// All that are live, oldest first.
fallible store_executions_live(struct store *store, struct arena *arena,
			       struct store_execution **out, size_t *out_count);
// Those made under an idempotency key since then: id and mark alone.
fallible store_executions_marks(struct store *store, int64_t since_ms, struct arena *arena,
				struct store_execution **out, size_t *out_count);

// Usage of completed executions of a profile, the newest first, at most `max`. `repository` "": of
// any.
struct store_execution_use {
	int64_t memory, cpu_ms, run_ms;
};
fallible store_executions_use(struct store *store, const char *tenant, const char *profile,
			      const char *repository, size_t max, struct arena *arena,
			      struct store_execution_use **out, size_t *out_count);

// Up to `max` rows, id and record alone, newest first, before the execution `before` (NULL: from
// the newest). NULL matches any value.
struct store_executions_ask {
	const char *tenant, *state, *profile, *task, *before;
	size_t max;
};
fallible store_executions_page(struct store *store, const struct store_executions_ask *ask,
			       struct arena *arena, struct store_execution **out,
			       size_t *out_count);
