// Which boxes have interpreters that wait (box/context_warm.h): those that had a context of the
// language, those that were made with the label cove.warm=python,javascript, and all of them where
// the operator says so. None where memory is short, in the box or on the host.
#pragma once

#include "box/context.h"
#include "box/context_warm.h"
#include "manager/box_ref.h"

#define WARM_LABEL "cove.warm"

// Names of languages with commas, as bits; INVALID bad_config.
fallible warm_read(const char *languages, uint32_t *out);
// Those are for every box that is made from now on, beside those that its label names (one that
// cannot be read is as none); and how many may wait on the whole host.
void warm_set(struct manager *manager, uint32_t languages, uint32_t max);
// A context of that language was made.
void warm_next(const struct box_ref *ref, enum context_language language);
