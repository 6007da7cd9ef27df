// Builds: templates made by steps in a sandbox. A build is an operation with a log; its sandboxes
// are the tenant's, with the label cove/build, and go with it. A daemon that finds a build of an
// earlier one ends it as interrupted and removes its sandboxes.
#pragma once

#include "manager/access.h"
#include "manager/operations.h"
#include "types/build_plan.h"

struct build_ask {
	struct str name;	// of the template; one that was built before is replaced
	struct build_plan plan; // taken over
	struct str context;	// its digest; at NULL: none
	struct env_map secrets; // of RUN --mount=type=secret: taken over, and wiped
	struct json *limits,
		*network; // of its sandboxes, as for a create: taken over; NULL: default
	char *launch;  // of sandboxes of the template, see types/launch.h: taken over; may be NULL
	bool pull;     // ask the registry for images that are there
	bool no_cache; // run all steps, and keep what they leave
	bool keep_failed; // leave the sandbox of a step that failed
};
void build_ask_done(struct build_ask *ask);

// Begins the build. The caller drops its hold of *out. FORBIDDEN not_allowed; INVALID bad_template,
// bad_plan; NOT_FOUND no_blob; CONFLICT template_exists; EXHAUSTED too_many_imports.
fallible builds_begin(struct manager *manager, const struct create_grant *grant,
		      struct build_ask *ask, struct operation **out);
// Ends those that an earlier daemon left, once all sandboxes are known.
void builds_resume(struct manager *manager);
