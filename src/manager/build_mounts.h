// Mounts of a RUN of a build. A sandbox mounts nothing while it runs: a secret is a file in its
// tmpfs with a link at the target, the others are directories that exist during the command alone.
// What was at the target is put aside, and comes back. So none of it is in the layer.
#pragma once

#include "box/files.h"
#include "manager/table.h"
#include "types/build_mount.h"
#include "types/env_map.h"

#define BUILD_SECRETS_MAX 64
#define BUILD_SECRET_BYTES (64 * 1024) // of one

// Copies what a bind mount is of to the target, which does not exist.
typedef fallible build_bind_fn(void *arg, const struct build_mount *mount, const char *target);

struct build_mounts_ask {
	struct manager *manager;
	const struct who *who;
	const struct files *files; // of the sandbox, for as long as the mounts
	const char *workdir;	   // of relative targets
	const struct env_map *secrets;
	build_bind_fn *bind;
	void *arg;
	struct env_map *env; // gets the secrets that are variables
};

struct build_mounts;
// `texts`: options, NULL-ended; NULL: none, and *out too. INVALID bad_mount, no_secret. All is
// undone on failure. Waits; a cache waits for the build that uses it.
fallible build_mounts_begin(const struct build_mounts_ask *ask, char *const *texts,
			    struct build_mounts **out);
// Keeps the caches, removes everything. Takes NULL. For shielded tasks. Waits.
fallible build_mounts_end(struct build_mounts *mounts);
