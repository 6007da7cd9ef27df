// A bash that waits in a leaf of its own to take a session's place: what a process of a session
// costs most, the start of its bash, is then behind it. A box that starts such processes has one at
// rest, for as long as it is used.
#pragma once

#include "box/exec.h"

struct prewarmed;

// The one at rest becomes the caller's. NULL: there is none (yet).
struct prewarmed *prewarmed_take(struct box *box);
// What it told of its state (protocol/shell_state.h).
struct str prewarmed_state(const struct prewarmed *prewarmed);
bool prewarmed_waits(const struct prewarmed *prewarmed); // false: it has ended
// It does what `cue` says (shell_cue()), as the command of `spec`: tape and limits are taken from
// there, and the leaf, the count of CPU time and the end are that command's own. Takes the
// prewarmed shell over in any case. The caller holds *out.
fallible prewarmed_begin(struct prewarmed *prewarmed, const struct exec_spec *spec, struct str cue,
			 struct exec **out);
void prewarmed_drop(struct prewarmed *prewarmed); // it leaves
static inline void auto_prewarmed_(struct prewarmed **prewarmed)
{
	if (*prewarmed)
		prewarmed_drop(*prewarmed);
}
#define auto_prewarmed on_exit_call(auto_prewarmed_) struct prewarmed *

// The next one will be of use: it is made in a moment when nobody waits. The environment is copied.
void prewarmed_want(struct box *box, const char *const *env);
// What those to come do first, so that they have less to change when they are told to begin.
void prewarmed_rehearse(struct box *box, struct str script);
// The state of one that has done nothing yet; empty: not known.
struct str prewarmed_pristine(const struct box *box);
