// Patterns for names and paths. `?` and `*` stop at a slash, `**` does not, `**/` also means
// nothing at all; `[a-z]`, `[!a-z]`. No allocation: pid 1's program links this.
#pragma once

#include <stdbool.h>

bool glob_match(const char *glob, const char *text);
// As `find`: a pattern without a slash means the last name of the path, else the whole path.
bool glob_names(const char *glob, const char *path);
// As ignore lists: without a slash any name on the path, else the path or one that leads to it. A
// slash at the beginning means where the path begins.
bool glob_hits(const char *glob, const char *path);
