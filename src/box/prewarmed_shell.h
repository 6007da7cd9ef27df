// Prewarmed shells: a bash that waits in a cgroup of its own to run the next process of a session,
// since the start of bash costs most. A box that starts such processes keeps one idle while it is
// used.
#pragma once

#include "box/exec.h"

struct prewarmed;

// Takes the idle shell. NULL: none (yet).
struct prewarmed *prewarmed_take(struct box *box);
// The state that it printed (protocol/shell_state.h).
struct str prewarmed_state(const struct prewarmed *prewarmed);
bool prewarmed_waits(const struct prewarmed *prewarmed); // false: ended
// Runs `cue` (shell_cue()) as the command of `spec`: tape and limits are those of `spec`; cgroup,
// CPU time and end are those of the shell. Takes ownership of `prewarmed` in any case. The caller
// holds *out.
fallible prewarmed_begin(struct prewarmed *prewarmed, const struct exec_spec *spec, struct str cue,
			 struct exec **out);
void prewarmed_drop(struct prewarmed *prewarmed); // ends it
static inline void auto_prewarmed_(struct prewarmed **prewarmed)
{
	if (*prewarmed)
		prewarmed_drop(*prewarmed);
}
#define auto_prewarmed on_exit_call(auto_prewarmed_) struct prewarmed *

// Requests a shell: it is started shortly after. The environment is copied.
void prewarmed_want(struct box *box, const char *const *env);
// Sets a script that new shells run first, so that less is left to change when they are used.
void prewarmed_prepare(struct box *box, struct str script);
// The state of an unchanged shell; empty: not known.
struct str prewarmed_pristine(const struct box *box);
