// Snapshots and forks of sandboxes. A snapshot is a template of kind "snapshot" with a note
// (manager/snapshot_note.h).
#pragma once

#include "manager/access.h"
#include "manager/templates.h"

struct snapshot {
	struct template template;
	uint64_t frozen_us; // 0: it did not run
};

// Makes a snapshot of the sandbox under a name of the caller's; "": one is made up. The state of
// the sandbox stays as it is. NOT_FOUND no_sandbox; CONFLICT template_exists, too_large_live,
// base_changed; EXHAUSTED quota; NO_SPACE.
fallible snapshots_make(struct manager *manager, const struct who *who, struct str key,
			struct str name, struct snapshot *out);
// The same, in place of the snapshot of that name, if there is one: that one stays if it fails.
fallible snapshots_replace(struct manager *manager, const struct who *who, struct str key,
			   struct str name, struct snapshot *out);

// The same for a step of a build: under a name of the warden's, without a note to read.
fallible snapshots_copy(struct manager *manager, const struct who *who, struct str key,
			const char *kept, bool again, uint64_t *out_bytes);

#define SNAPSHOTS_FORK_MAX 64
struct fork {
	char id[ID_BOX_LEN + 1]; // "": failed
	struct err *err;	 // owned by the caller
};
struct fork_request {
	uint64_t count;
	char name[ID_NAME_MAX + 1]; // of a single one; "": none
	struct env_map env, labels; // beside those of the source
	bool secrets;		    // with those of its network
};
// Makes `count` sandboxes from one copy. `out` has room for that many; each may fail by itself.
fallible snapshots_fork(struct manager *manager, const struct create_grant *grant, struct str key,
			const struct fork_request *request, struct fork *out);
