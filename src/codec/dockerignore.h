// .dockerignore files: which files of a directory are no part of a build's context. No I/O, no
// allocation.
#pragma once

#include <stdbool.h>

#include "base/str.h"

// Whether the rules leave `path` out: beneath the directory, without a slash at its begin. The last
// rule decides that matches the path or a directory above it. Patterns begin at the directory: `*`,
// `?` and `[…]` stop at a slash, `**` does not; '!' takes back in.
bool dockerignore_drops(struct str rules, struct str path);
// Whether a rule takes back in: then a directory that is left out must be searched all the same.
bool dockerignore_has_exceptions(struct str rules);
