// Operations: long work with an id that outlives the request that began it. Durable: a pull goes on
// after a restart, unless its credential came with the request, which is never stored.
#pragma once

#include "manager/table.h"
#include "registry/registry.h"
#include "types/who.h"

#define OPERATION_ID 24 // with its NUL

enum operation_kind { OPERATION_PULL, OPERATION_BUILD, OPERATION_ARCHIVE };

enum operation_state {
	OPERATION_QUEUED,
	OPERATION_RUNNING,
	OPERATION_SUCCEEDED,
	OPERATION_FAILED,
	OPERATION_CANCELLED,
};

struct operation_layer {
	char digest[REFERENCE_DIGEST + 1];
	uint64_t bytes, total;
	const char *state; // "waiting", "present", "fetching", "fetched", "unpacking", "done"
};

struct operation {
	char id[OPERATION_ID];
	enum operation_kind kind;
	char tenant[WHO_TENANT_MAX + 1];
	struct manager *manager;
	bool interrupted; // its credential was lost with an earlier daemon
	bool earlier;	  // an earlier daemon has begun it
	bool by_operator; // loopback may be reached
	enum operation_state state;
	char *reference, *platform,
		*name; // canonical, of a build "", of an archive the sandbox's id; as asked, ""; of
		       // the template
	char digest[REFERENCE_DIGEST + 1]; // of a pull, once the registry has described it
	bool is_cache;
	bool has_credential;
	struct registry_credential credential; // memory alone
	int64_t created_ms, ended_ms;
	const char *phase;
	struct operation_layer *layers;
	size_t layer_count;
	uint32_t step, steps;		 // of a build: under way, or done at its end; 0: none yet
	uint32_t cached;		 // of a build: steps that the cache had
	const struct operation *pulling; // of a build: the pull of a base; NULL: none
	uint64_t log_bytes;		 // of a build: written so far
	bool log_cut;			 // the rest is not kept
	bool made;			 // the template is new, or has moved
	uint64_t version;		 // counts changes
	uint64_t changed_at;		 // number of the last one among all operations
	struct err *err;		 // of one that failed
	struct condition changed;
	struct task *task; // at work
	bool cancelled;
	uint32_t holds; // requests that read it: it is not freed meanwhile
};

// Reads the store: those under way are in state queued, and pull_resume() starts them. Waits.
fallible operations_open(struct manager *manager);
void operations_done(struct manager *manager);
// A new one, durable on return; it belongs to the manager.
fallible operations_add(struct manager *manager, struct operation *operation);
// Writes its end. `err` is taken over; NULL: it has succeeded.
void operations_end(struct manager *manager, struct operation *operation, struct err *err);
void operation_changed(struct operation *operation); // wakes its readers
// NOT_FOUND no_operation, also for those of other tenants.
fallible operations_find(struct manager *manager, const struct who *who, struct str id,
			 struct operation **out);
bool operations_next(const struct manager *manager, size_t *at, struct operation **out);
bool operations_sees(const struct who *who, const struct operation *operation);
bool operation_has_ended(const struct operation *operation);
void operation_drop(struct operation *operation); // one hold less
// Waits for its end, and returns its error. TIMEOUT: it goes on.
fallible operation_await(struct operation *operation, int64_t deadline);
void operation_cancel(struct operation *operation);
// Its error again, for another reader.
fallible operation_failure(const struct operation *operation);
void operation_write(struct json_out *out, const struct operation *operation);
// {phase, bytes, total, layers}; of a build {phase, step, steps, cached, logBytes}, and of the
// image that it pulls {bytes, total, layers}
void operation_write_progress(struct json_out *out, const struct operation *operation);
// Forgets those that ended a day ago.
fallible operations_prune(struct manager *manager);
void operation_free(struct operation *operation); // one that was never added
