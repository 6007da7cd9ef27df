// A hand's verbs on directories and what is in them.
#pragma once

#include "init/walk.h"
#include "protocol/fileop.h"

bool tree_list(const struct fileop_request *ask, struct fileop_reply *reply);
bool tree_find(const struct fileop_request *ask, struct fileop_reply *reply);
bool tree_mkdir(const struct fileop_request *ask, struct fileop_reply *reply);
bool tree_remove(const struct fileop_request *ask, struct fileop_reply *reply);
bool tree_chmod(const struct fileop_request *ask, struct fileop_reply *reply);

// Removes what `dir` has under `name`, with all that is in it. Counts what could not be removed;
// errno is that of the first.
uint64_t tree_erase(int dir, const char *name, uint64_t *count);
// Whether a pattern of the request says so.
bool tree_is_included(const struct fileop_request *ask, const char *path); // also when it has none
bool tree_is_excluded(const struct fileop_request *ask, const char *path);
bool tree_is_directory(const struct walk_at *at);
