// Patterns for names and paths. `?` and `*` stop at a slash, `**` does not, `**/` also means
// nothing at all; `[a-z]`, `[!a-z]`. No allocation: pid 1's program links this.
#pragma once

#include <stdbool.h>

// Length times length at most. A text of more than 8,191 bytes matches nothing.
bool glob_match(const char *glob, const char *text);
// As find(1): a pattern without a slash matches the last name of the path, else the whole path.
bool glob_names(const char *glob, const char *path);
// As ignore lists: without a slash it matches any name of the path, else the path or a parent of
// it. A leading slash anchors it at the beginning of the path.
bool glob_hits(const char *glob, const char *path);
