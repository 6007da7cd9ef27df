// Volumes of tenants: directories that outlive sandboxes. The warden has their files; the store has
// the row of each, which is written before the warden is asked for anything.
#pragma once

#include "manager/table.h"
#include "types/who.h"

#define VOLUMES_OF_TENANT_MAX 256

struct volume {
	char id[ID_BOX_LEN + 1];
	char tenant[WHO_TENANT_MAX + 1];
	char name[ID_NAME_MAX + 1];
	uint64_t size;	    // bytes; 0: no limit
	uint64_t used;	    // bytes, when they were asked for; ORDER_USAGE_UNKNOWN
	int64_t created_ms; // wall clock
	enum volume_state { VOLUME_CREATING, VOLUME_READY, VOLUME_DELETING } state;
	bool busy; // a task makes or removes it, and holds it
};

// {id, name, state, sizeMB, bytes, usedBy, createdAt}
void volumes_put(struct json_out *out, const struct manager *manager, const struct volume *volume);

// Durable on return; *out is borrowed until the next wait, here and below. INVALID bad_name,
// bad_field, no_disk_limit; CONFLICT volume_exists; EXHAUSTED quota; NO_SPACE.
fallible volumes_create(struct manager *manager, const struct who *who, const struct json *body,
			const struct volume **out);
// By name or id. NOT_FOUND no_volume. Waits for the warden's count of its bytes.
fallible volumes_get(struct manager *manager, const struct who *who, struct str key,
		     const struct volume **out);
// All of the caller's tenant, by name; the caller frees the array.
fallible volumes_all(struct manager *manager, const struct who *who, const struct volume ***out,
		     size_t *out_count);
// Returns when the warden has verified that it is gone. CONFLICT in_use.
fallible volumes_delete(struct manager *manager, const struct who *who, struct str key);
bool volumes_are_of(const struct manager *manager, const char *tenant); // it has any

// Fills in the ids and names of what a create names by either. NOT_FOUND no_volume. Does not wait.
fallible volumes_fill(const struct manager *manager, const char *tenant,
		      struct volume_mounts *mounts);
// Whether a row has this id.
bool volumes_known(const struct manager *manager, const char *id);
// Steps through all: start with *at = 0. NULL: no more.
const struct volume *volumes_next(const struct manager *manager, size_t *at);

// Reads all rows. Blocks: call it before the loop runs.
void volumes_load(struct manager *manager);
// Removes what a create or a delete has left, and volumes of the warden without a row. Called at
// the start and by every round of the janitor.
fallible volumes_settle(struct manager *manager);
void volumes_free(struct manager *manager);
