// Interpreter contexts of a box (box/context.h), started with the box's environment and limits.
#pragma once

#include "box/context.h"
#include "box/context_warm.h"
#include "manager/exec.h"

struct contexts_spec {
	enum context_language language;
	const struct env_map *env; // on top of the box's environment; may be NULL
	const char *cwd;	   // NULL: /workspace
	uint64_t timeout_ms;	   // of each cell that sets none; 0: none
	bool is_default;
};
// As context_create(). The caller holds *out, and keeps the box reference as long.
fallible contexts_create(const struct box_ref *ref, const struct contexts_spec *spec,
			 struct context **out);
// The default context of the language, created when there is none.
fallible contexts_default(const struct box_ref *ref, enum context_language language,
			  struct context **out);
fallible contexts_restart(const struct box_ref *ref, struct context *context);
// Runs a cell with the limits of its box.
fallible contexts_run(const struct box_ref *ref, struct context *context, struct str code,
		      uint64_t timeout_ms, struct context_run **out);
// Logs a limit that ended the cell.
void contexts_report(const struct box_ref *ref, const struct context_result *result);

// Which boxes have prewarmed interpreters (box/context_warm.h): those that had a context of the
// language, those with the label cove.warm=python,javascript, and all boxes if the operator says
// so. None where memory is short, in the box or on the host.
#define WARM_LABEL "cove.warm"

// Names of languages with commas, as bits; INVALID bad_config.
fallible warm_read(const char *languages, uint32_t *out);
// Sets the languages prewarmed in every box created from now on, besides those of its label (a
// label that cannot be read counts as none), and the maximum on the whole host.
void warm_set(struct manager *manager, uint32_t languages, uint32_t max);
