// Files of builds, in a directory of the daemon: contexts, which are archives named by their
// SHA-256 and kept for a day after their last use, each its tenant's own; and logs by operation.
#pragma once

#include "manager/operations.h"

#define BUILD_CONTEXT_MAX (10ull << 30)
#define BUILD_LOG_MAX (16u << 20) // bytes of a log; the rest is dropped, and the log says so

struct build_upload;
// INVALID bad_digest; EXHAUSTED quota; FORBIDDEN not_allowed. The caller writes to the fd.
fallible build_context_begin(struct manager *manager, const struct who *who, struct str digest,
			     struct build_upload **out);
int build_upload_fd(const struct build_upload *upload);
uint64_t build_upload_max(const struct build_upload *upload); // bytes
// Checks the digest, and makes it durable. INVALID digest_mismatch. Frees the upload, also on
// failure.
fallible build_context_end(struct build_upload *upload);
// The same for a file that is named by the hash of a name of its own, not of its content.
fallible build_context_keep(struct build_upload *upload);
void build_context_abort(struct build_upload *upload); // takes NULL

// Opens a context, and keeps it for another day. NOT_FOUND no_blob.
fallible build_context_open(struct manager *manager, const char *tenant, struct str digest,
			    int *out_fd, uint64_t *out_bytes);

// The tar of a cache mount of the tenant: for one user at a time, kept for a day after its last
// use. Take waits for the user before; TIMEOUT.
struct build_cache;
fallible build_cache_take(struct manager *manager, const char *tenant, struct str id,
			  int64_t deadline, struct build_cache **out);
fallible build_cache_open(struct build_cache *cache, int *out_fd,
			  uint64_t *out_bytes); // fd -1: none
// A new one, which the caller writes (the fd is the caller's); commit replaces the old one by it.
fallible build_cache_create(struct build_cache *cache, int *out_fd);
fallible build_cache_commit(struct build_cache *cache);
void build_cache_free(struct build_cache *cache); // the next user may have it
// Removes those of the tenant that no RUN has used for that time, nor uses now. Waits.
void build_caches_prune(struct manager *manager, const char *tenant, int64_t unused_ms);

// A log is written by the operation's task alone.
fallible build_log_create(struct manager *manager, const struct operation *operation, int *out_fd);
void build_log_write(int fd, struct operation *operation, struct str text);
// *out = 0: there is no more so far.
fallible build_log_read(struct manager *manager, const struct operation *operation, uint64_t offset,
			void *room, size_t size, size_t *out);

// Removes what is older than a day, and what an earlier daemon has left half-written (`first`).
void build_files_prune(struct manager *manager, bool first);
