// Prewarmed interpreters: a box keeps a started process for its next context, since the start of
// the process costs most. At most one per language and box, and a maximum on the host. A spare is
// in no list, keeps no box awake, and belongs to its box alone.
#pragma once

#include "box/box.h"

struct context_spec; // box/context.h

// Of the whole host; owned by the caller, outlives all boxes.
struct context_warmth {
	uint32_t count, max;
};

// Requests a spare of that language: it is started shortly after, with the environment, directory
// and CPU share of `spec` (copied). `stays`: it waits until the box is frozen; otherwise it ends
// after a while.
void context_warm_want(struct box *box, const struct context_spec *spec, bool stays,
		       struct context_warmth *warmth);
