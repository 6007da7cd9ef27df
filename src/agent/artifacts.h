// Artifacts: files of a box that globs name, stored as blobs before the box is destroyed. The box
// is hostile: what it reports is bounded, and its files may change or go while they are read.
#pragma once

#include "agent/blobs.h"
#include "box/files.h"

#define ARTIFACTS_GLOBS_MAX 256
#define ARTIFACTS_FILES_MAX 10000
#define ARTIFACTS_NAMES_MAX (4u << 20) // bytes of all paths

struct artifacts_spec {
	const char *tenant;
	const char *const *globs; // NULL-ended; as artifacts_check_glob() permits
	uint64_t max_bytes;
	int64_t deadline; // loop time
};

struct artifacts {
	struct store_file *files; // in the arena, by path; their blobs are held
	size_t count;
	uint64_t bytes;
	bool partial;	      // some are missing or changed while they were read
	const char **missing; // globs that matched nothing; NULL-ended
};

// INVALID bad_field: empty, longer than 4,095 bytes, or with a component "..".
fallible artifacts_check_glob(struct str glob);
// Paths beneath the base directory of `files` are relative to it, others absolute. Errors of the
// box make the result partial. UNAVAILABLE, NO_SPACE: the store of blobs failed; nothing is held.
fallible artifacts_collect(struct blobs *blobs, const struct files *files,
			   const struct artifacts_spec *spec, struct arena *arena,
			   struct artifacts *out);
void artifacts_release(struct blobs *blobs, const char *tenant, const struct artifacts *artifacts);
