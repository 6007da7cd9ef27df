// Ignore files as git reads them (gitignore(5)). No I/O, no allocation: pid 1's program links this.
#pragma once

#include <stdbool.h>

#include "base/str.h"

enum ignore_verdict {
	IGNORE_SILENT, // no rule of the file matches
	IGNORE_OUT,
	IGNORE_KEEP, // by a rule with '!'
};

// Applies the ignore file `rules` to `path`, which is relative to the directory of that file. The
// last matching rule decides. A path below an ignored directory is ignored too: the caller checks
// each parent directory first.
enum ignore_verdict ignore_judge(struct str rules, struct str path, bool is_directory);

// Matches one pattern against a whole path: `*`, `?` and `[…]` stop at a slash, `**` between
// slashes matches any number of directories, a backslash quotes the next character.
bool ignore_match(struct str pattern, struct str path);
