// Paths that git would leave out of a tree that is being packed: by its .gitignore files, those of
// the directories above it in the same repository, and the repository's info/exclude. One tree at a
// time, walked by init/walk.h.
#pragma once

#include "protocol/fileop.h"

// `root` is borrowed. The include patterns of the request are paths that are kept regardless of
// rules, because git tracks them. False with errno: an ignore file cannot be read, or is too large.
// Call gitignore_end() in any case.
bool gitignore_begin(const struct fileop_request *ask, int root);
// An entry of the directory that was entered last; `path` is beneath the root.
bool gitignore_is_out(struct str path, bool is_directory);
// Call before the directory `name` in `dir` is entered. False as above.
bool gitignore_enter(int dir, const char *name, struct str path);
void gitignore_leave(void);
void gitignore_end(void);
