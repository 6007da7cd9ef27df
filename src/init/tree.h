// Functions that requests about trees share: removal, patterns, kinds of entries.
#pragma once

#include "init/walk.h"
#include "protocol/fileop.h"

// Removes `name` in `dir` with everything beneath it. Returns how many entries could not be
// removed; errno is that of the first.
uint64_t tree_erase(int dir, const char *name, uint64_t *count);
// Whether a pattern of the request matches.
bool tree_is_included(const struct fileop_request *ask, const char *path); // also when it has none
bool tree_is_excluded(const struct fileop_request *ask, const char *path);
bool tree_is_directory(const struct walk_at *at);
