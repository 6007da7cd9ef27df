// Which boxes have prewarmed interpreters (box/context_warm.h): those that had a context of the
// language, those with the label cove.warm=python,javascript, and all boxes if the operator says
// so. None where memory is short, in the box or on the host.
#pragma once

#include "box/context.h"
#include "box/context_warm.h"
#include "manager/box_ref.h"

#define WARM_LABEL "cove.warm"

// Names of languages with commas, as bits; INVALID bad_config.
fallible warm_read(const char *languages, uint32_t *out);
// Sets the languages prewarmed in every box created from now on, besides those of its label (a
// label that cannot be read counts as none), and the maximum on the whole host.
void warm_set(struct manager *manager, uint32_t languages, uint32_t max);
// A context of that language was created.
void warm_next(const struct box_ref *ref, enum context_language language);
