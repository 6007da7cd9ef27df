// Interpreters of a box, on somebody's behalf (box/context.h): what they start with comes from the
// box.
#pragma once

#include "box/context.h"
#include "manager/box_ref.h"

struct contexts_spec {
	enum context_language language;
	const struct env_map *env; // on top of the box's own; may be NULL
	const char *cwd;	   // NULL: /workspace
	uint64_t timeout_ms;	   // of each cell that names none; 0: none
	bool is_default;
};
// As context_create(); the caller holds *out, and keeps the visit as long.
fallible contexts_create(const struct box_ref *ref, const struct contexts_spec *spec,
			 struct context **out);
// The one for cells that name no context, made when there is none.
fallible contexts_default(const struct box_ref *ref, enum context_language language,
			  struct context **out);
fallible contexts_restart(const struct box_ref *ref, struct context *context);
// A cell, with the limits of its box.
fallible contexts_run(const struct box_ref *ref, struct context *context, struct str code,
		      uint64_t timeout_ms, struct context_run **out);
// Tells the log when a limit ended it.
void contexts_report(const struct box_ref *ref, const struct context_result *result);
