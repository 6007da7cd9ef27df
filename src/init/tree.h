// Requests to a file worker about directories and trees.
#pragma once

#include "init/walk.h"
#include "protocol/fileop.h"

bool tree_list(const struct fileop_request *ask, struct fileop_reply *reply);
bool tree_find(const struct fileop_request *ask, struct fileop_reply *reply);
bool tree_mkdir(const struct fileop_request *ask, struct fileop_reply *reply);
bool tree_remove(const struct fileop_request *ask, struct fileop_reply *reply);
bool tree_chmod(const struct fileop_request *ask, struct fileop_reply *reply);

// Removes `name` in `dir` with everything beneath it. Returns how many entries could not be
// removed; errno is that of the first.
uint64_t tree_erase(int dir, const char *name, uint64_t *count);
// Whether a pattern of the request matches.
bool tree_is_included(const struct fileop_request *ask, const char *path); // also when it has none
bool tree_is_excluded(const struct fileop_request *ask, const char *path);
bool tree_is_directory(const struct walk_at *at);
