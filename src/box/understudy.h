// A bash that waits in a leaf of its own to take a session's place: what a process of a session
// costs most, the start of its bash, is then behind it. A box that starts such processes has one at
// rest, for as long as it is used.
#pragma once

#include "box/exec.h"

struct understudy;

// The one at rest becomes the caller's. NULL: there is none (yet).
struct understudy *understudy_take(struct box *box);
// What it told of its state (model/shell_state.h).
struct str understudy_state(const struct understudy *understudy);
bool understudy_waits(const struct understudy *understudy); // false: it has ended
// It does what `cue` says (shell_cue()), as the command of `spec`: tape and limits are taken from
// there, and the leaf, the count of CPU time and the end are that command's own. Takes the
// understudy over in any case. The caller holds *out.
fallible understudy_begin(struct understudy *understudy, const struct exec_spec *spec,
			  struct str cue, struct exec **out);
void understudy_drop(struct understudy *understudy); // it leaves
static inline void auto_understudy_(struct understudy **understudy)
{
	if (*understudy)
		understudy_drop(*understudy);
}
#define auto_understudy on_exit_call(auto_understudy_) struct understudy *

// The next one will be of use: it is made in a moment when nobody waits. The environment is copied.
void understudy_want(struct box *box, const char *const *env);
// What those to come do first, so that they have less to change when they are told to begin.
void understudy_rehearse(struct box *box, struct str script);
// The state of one that has done nothing yet; empty: not known.
struct str understudy_pristine(const struct box *box);
