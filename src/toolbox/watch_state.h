// State between requests: interrupted uploads and tracked trees.
#pragma once

#include "toolbox/path_arg.h"

struct watch_state {
	struct loop *loop;
	struct link uploads; // parked_upload.c
	size_t upload_count;
	struct link trees; // watch_check.c
	size_t tree_count;
	char life[9]; // random id of this daemon process, in the names that it gives out
	uint64_t last;
};

struct watch_state *watch_state_of(const struct http *x);
// Makes a name that this daemon has never given out.
void watch_state_name(struct watch_state *watches, char out[32]);
