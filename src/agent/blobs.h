// Files that are named by the SHA-256 of their bytes, in a folder of their tenant: equal contents
// of a tenant are one file, and tenants learn nothing of each other. Rows of the store refer to
// them (store/results.h); a file that no row names, and that nobody holds, is removed.
//
// A file is written under a temporary name, synced, and then gets its name: under its name it is
// whole. Its bytes count in the output quota of its tenant.
#pragma once

#include "base/sha256.h"
#include "box/tape.h"
#include "loop/task.h"
#include "store/results.h"

struct blobs;
struct blob_upload;

struct blobs_options {
	struct loop *loop;
	struct store *store;
	int dir; // borrowed
	// The account for a tenant's output on disk, borrowed; NULL: not counted.
	struct tape_quota *(*output_of)(void *arg, const char *tenant);
	void *output_arg;
};
struct blobs *blobs_new(const struct blobs_options *options);
void blobs_free(struct blobs *blobs); // no upload and no task is left
// Counts the files, and removes those without a row, which a killed daemon left. Once, before the
// first upload; those that come meanwhile wait.
void blobs_sweep(struct blobs *blobs);
uint64_t blobs_bytes(const struct blobs *blobs); // on disk
// Bytes that the tenant's quota has left; UINT64_MAX: no bound.
uint64_t blobs_left(struct blobs *blobs, const char *tenant);

// A new file. The caller writes it through its fd, or makes it itself under its name. Waits.
fallible blob_begin(struct blobs *blobs, bool make, struct blob_upload **out);
int blob_fd(const struct blob_upload *upload);
const char *blob_name(const struct blob_upload *upload); // "FOLDER/FILE" in the directory
// Syncs the file and gives it its name; frees the upload, also on failure. The blob is held until
// blob_release(): commit the row that names it meanwhile. NO_SPACE no_space. Waits.
fallible blob_finish(struct blob_upload *upload, const char *tenant, char out[SHA256_HEX + 1],
		     uint64_t *out_bytes);
void blob_abort(struct blob_upload *upload); // takes NULL; the next sweep removes the file

// A held blob is not removed.
void blob_hold(struct blobs *blobs, const char *tenant, const char *name);
void blob_release(struct blobs *blobs, const char *tenant, const char *name);
// Removes those of them that no row names and nobody holds. An error leaves them to the next sweep.
// Waits.
void blobs_collect(struct blobs *blobs, struct store_blob *candidates, size_t count);

// "FOLDER/FILE" in the directory, the caller's.
char *blob_path(const char *tenant, const char *name);
int blobs_dir(const struct blobs *blobs);
// NOT_FOUND no_blob. Waits.
fallible blob_open(struct blobs *blobs, const char *tenant, const char *name, int *out_fd);
