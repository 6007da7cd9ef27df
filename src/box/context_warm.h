// Interpreters that wait in a box for its next context: the start of a process, which a new context
// costs most, is then behind it. One of a language and box at most, and so many on the whole host.
// One that waits is nobody's process yet: it is in no list, keeps no box awake, and belongs to its
// box alone.
#pragma once

#include "box/box.h"

struct context_spec; // box/context.h

// Of the whole host; the caller's, who keeps it longer than any box.
struct context_warmth {
	uint32_t count, max;
};

// One of that language will be of use: it is made in a moment when nobody waits, with the
// environment, directory and share of `spec`, which are copied. `stays`: it waits for as long as
// the box does not rest; otherwise it leaves after a while.
void context_warm_want(struct box *box, const struct context_spec *spec, bool stays,
		       struct context_warmth *warmth);
