// Paths that git would leave out of a tree that is being packed: by its .gitignore files, those of
// the directories above it in the same repository, and that repository's info/exclude. For a single
// tree at a time, walked as init/walk.h does.
#pragma once

#include "protocol/fileop.h"

// `root` is borrowed. The include patterns of the request are paths that are kept whatever a rule
// says, for git tracks them. False with errno: an ignore file is there and cannot be read, or is
// too large. gitignore_end() is due in any case.
bool gitignore_begin(const struct fileop_request *ask, int root);
// An entry of the directory that was entered last; its path beneath the root.
bool gitignore_is_out(struct str path, bool is_directory);
// The directory `name` in `dir` is about to be entered. False as above.
bool gitignore_enter(int dir, const char *name, struct str path);
void gitignore_leave(void);
void gitignore_end(void);
