// Results of executions: a row for each attempt, and one for each of its artifacts. Contents are
// files outside of the database, named by the SHA-256 of their bytes in a folder of their tenant
// (agent/blobs.h). A blob that no row names is garbage.
#pragma once

#include "store/store.h"

struct store_result {
	const char *tenant, *execution; // tenant "": the operator's
	int64_t attempt;
	int64_t ended_ms; // wall clock: when it was collected
	// Artifacts.
	int64_t files, bytes; // how many, and bytes of their contents
	int64_t partial;      // 1: some are missing: over a cap, unreadable, or changed while read
	const char *missing;  // globs that matched nothing: an array of JSON
	// The log: a tape, with bytes masked. Its times: pairs of u64 offset and wall clock in ms.
	const char *log; // its blob; "": none
	struct str times;
	int64_t log_bytes;			// on disk
	int64_t stdout_bytes, stderr_bytes;	// kept
	int64_t stdout_written, stderr_written; // by the command
	int64_t stdout_truncated, stderr_truncated;
	const char *stdout_sha256, *stderr_sha256; // of the kept bytes
	int64_t removed;			   // 1: contents were removed for the cap of all
};

// A symlink has a target and no blob.
struct store_file {
	struct str path, target; // bytes; target.len 0: a regular file
	int64_t mode, size;
	const char *sha256; // of a regular file, also its blob
};

// Rows of an attempt and its files.
struct store_result_rows {
	const struct store_result *result;
	const struct store_file *files;
	size_t count;
};
// Replaces nothing: CONFLICT state_conflict.
struct err *store_results_put_in(struct db *db, const struct store_result_rows *rows);
// *out_found false: there is none. Texts are in the arena.
fallible store_results_get(struct store *store, struct arena *arena, struct store_result *out,
			   bool *out_found);
// Files of an attempt by path, after `after`, at most `max`.
fallible store_results_files(struct store *store, const struct store_result *of, struct str after,
			     size_t max, struct arena *arena, struct store_file **out,
			     size_t *out_count);
fallible store_results_file(struct store *store, const struct store_result *of, struct str path,
			    struct arena *arena, struct store_file *out, bool *out_found);

struct store_blob {
	const char *tenant, *name;
	bool used; // a row names it
};
struct store_blobs {
	struct store_blob *at; // in the arena
	size_t count;
};
// Removes the rows of an execution, durable on return. *out: blobs that they named.
fallible store_results_drop(struct store *store, const char *tenant, const char *execution,
			    struct arena *arena, struct store_blobs *out);
// Forgets the contents of the oldest attempt that has some; its row stays. *out_found false: no
// attempt has any.
fallible store_results_evict(struct store *store, struct arena *arena, struct store_result *out,
			     struct store_blobs *out_blobs, bool *out_found);
// Sets `used` of each.
fallible store_results_look(struct store *store, struct store_blob *blobs, size_t count);
