// A walk over a tree by directory fds. No symlink is followed, so a tree that is changed meanwhile
// can lose or gain entries, but never leads elsewhere.
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "protocol/fileop.h"

enum walk_step {
	WALK_ENTRY, // call walk_enter() to descend, if it is a directory
	WALK_LEFT,  // the end of a directory that was entered; it is closed
	WALK_END,
};

struct walk_at {
	int dir;	    // the directory that contains it
	const char *name;   // in that directory
	struct str path;    // beneath the root of the walk; NUL-ended
	unsigned char type; // DT_…, maybe DT_UNKNOWN
	uint32_t depth;	    // 1: in the root
};

// There is one walk at a time. Takes over `root`.
void walk_begin(int root);
enum walk_step walk_next(struct walk_at *at);
// The name and path of the entry are invalid afterwards. False with errno: ELOOP or ENOTDIR if it
// is no directory any more, EMLINK if too deep.
bool walk_enter(void);
void walk_end(void);
uint64_t walk_skipped(void); // entries whose paths are too long
