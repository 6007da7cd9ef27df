// Keys of the steps of a build: SHA-256 of what a step's result depends on. No I/O.
#pragma once

#include "base/sha256.h"
#include "types/build_state.h"

// A text and its length, so that no two lists of texts are alike; NULL is none.
void build_key_add(struct sha256 *key, const char *text);
// Begins the key of a step: the key before it, the step as it was parsed, and the arguments that it
// sees. Its line and how it is written are not part of it, nor are values of secrets.
void build_key_begin(struct sha256 *key, const char *before, const struct build_plan *plan,
		     const struct build_step *step, const struct build_state *state);
