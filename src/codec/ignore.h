// Ignore files as git reads them (gitignore(5)). No I/O, no allocation: pid 1's program links this.
#pragma once

#include <stdbool.h>

#include "base/str.h"

enum ignore_verdict {
	IGNORE_SILENT, // no rule of the file matches
	IGNORE_OUT,
	IGNORE_KEEP, // by a rule with '!'
};

// The verdict of the ignore file `rules` on `path`, which is relative to the directory of that
// file. The last rule that matches decides. A path beneath an ignored directory is ignored too:
// the caller asks for each directory on the way first.
enum ignore_verdict ignore_judge(struct str rules, struct str path, bool is_directory);

// The pattern of one rule against a whole path: `*`, `?` and `[…]` stop at a slash, `**` between
// slashes means any number of directories, a backslash takes the next character as it is.
bool ignore_match(struct str pattern, struct str path);
