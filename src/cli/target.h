// BOX:PATH, as in scp and docker cp.
#pragma once

#include "base/auto.h"
#include "base/err.h"

struct target {
	char *box; // NULL: a path of this host
	char *path;
};

// A word with a slash before its first colon is a path of this host, such as ./a:b.
void target_read(const char *word, struct target *out);
void target_done(struct target *target);
#define auto_target on_exit_call(target_done) struct target
// For messages of `verb`. INVALID no_box, no_path.
fallible target_of_box(const char *verb, const char *word, struct target *out);
