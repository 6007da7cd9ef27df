// A shared sandbox that cannot be looked at any more: after two inspections of its route that took
// too long, new conversations of that owner get a second slot. One way, and durable.
#pragma once

#include "conv/inner.h"

// Around each look.
void slot_looking(struct conv *conv);
void slot_looked(struct conv *conv, bool timed_out);
// The id that a new conversation gets whose route leads to `first`.
void slot_choose(struct convs *convs, const char *first, char out[ID_BOX_LEN + 1]);
fallible slot_load(struct convs *convs);
void slot_free(struct convs *convs);
