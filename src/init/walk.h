// A tree, visited by directory fds. No component is ever followed as a link, so a tree that is
// changed meanwhile can lose or gain entries, but never lead elsewhere.
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "protocol/fileop.h"

enum walk_step {
	WALK_ENTRY, // walk_enter() it, if it is a directory that is to be entered
	WALK_LEFT,  // a directory that was entered is at its end; it is closed
	WALK_END,
};

struct walk_at {
	int dir;	    // of the directory that holds it
	const char *name;   // in it
	struct str path;    // beneath the root of the walk; NUL-ended
	unsigned char type; // DT_…, maybe DT_UNKNOWN
	uint32_t depth;	    // 1: in the root
};

// There is one walk at a time. Takes `root` over.
void walk_begin(int root);
enum walk_step walk_next(struct walk_at *at);
// After this, the name and path of the entry are used up. False with errno: ELOOP or ENOTDIR when
// it is no directory any more, EMLINK when it is too deep.
bool walk_enter(void);
void walk_end(void);
uint64_t walk_skipped(void); // entries with paths too long to tell
