// BOX:PATH, as in scp and docker cp.
#pragma once

#include "base/auto.h"
#include "base/err.h"

struct target {
	char *box; // NULL: a path of this host
	char *path;
};

// A name with a slash before its first colon is a path of this host, so ./a:b is one.
void target_read(const char *word, struct target *out);
void target_done(struct target *target);
#define auto_target on_exit_call(target_done) struct target
// For `verb`. INVALID no_box when it names none, no_path when it has no path.
fallible target_of_box(const char *verb, const char *word, struct target *out);
