// The cache of builds: what steps have left, by the key of the step. Each is a snapshot in the
// warden's store that has no name of its own, and belongs to one tenant. Rows are durable: before a
// snapshot is made, so that none of the warden's is unknown.
#pragma once

#include "base/sha256.h"
#include "manager/table.h"
#include "types/who.h"

struct build_steps;

// Reads the rows. Waits. On failure nothing is known: nothing is cached, and nothing is removed.
fallible build_steps_open(struct manager *manager);
void build_steps_done(struct manager *manager);

// The snapshot of the key, held until build_steps_release(); false: there is none.
bool build_steps_find(struct manager *manager, const char *tenant, const char key[SHA256_HEX + 1],
		      char out[TEMPLATE_NAME_MAX]);
void build_steps_hold(struct manager *manager, const char *name);
void build_steps_release(struct manager *manager, const char *name); // "": none
// Keeps the files of the sandbox as those of the key, and holds them; *out "" if that was not
// possible, which is no failure of the build. On entry it is the step that the sandbox began with.
// `again`: in place of what is there. Waits.
fallible build_steps_keep(struct manager *manager, const struct who *who, const char *box,
			  const char key[SHA256_HEX + 1], bool again, char out[TEMPLATE_NAME_MAX]);
// A key that stands for another one: of a copy, before its sources are read.
void build_steps_alias(struct manager *manager, const char *tenant, const char key[SHA256_HEX + 1],
		       const char to[SHA256_HEX + 1]);
bool build_steps_follow(struct manager *manager, const char *tenant, const char key[SHA256_HEX + 1],
			char out[SHA256_HEX + 1]);
// Configurations of bases that are files of their own: in memory alone. NULL: not known.
const char *build_steps_config(const struct manager *manager, const char key[SHA256_HEX + 1]);
void build_steps_put_config(struct manager *manager, const char key[SHA256_HEX + 1],
			    struct str config);

// Removes those of the tenant (NULL: of all) that no build has used for that time. Waits.
fallible build_steps_prune(struct manager *manager, const char *tenant, int64_t unused_ms,
			   uint64_t *out_bytes);
// What time and space take: those unused for a week, and the oldest of a tenant with too many.
fallible build_steps_sweep(struct manager *manager);
// Removes snapshots of the warden without a row, and rows without a snapshot. Waits.
fallible build_steps_settle(struct manager *manager);

uint64_t build_steps_bytes(const struct manager *manager, const char *tenant);
bool build_steps_known(const struct manager *manager, const char *name);
// For cove verify: the next one whose snapshot must be there.
bool build_steps_next(const struct manager *manager, size_t *at, const char **out_name);
