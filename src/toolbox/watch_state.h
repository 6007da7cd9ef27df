// What is remembered between two requests: uploads that were cut, and trees that are kept track of.
#pragma once

#include "toolbox/path_arg.h"

struct watch_state {
	struct loop *loop;
	struct link uploads; // toolbox/parked_upload
	size_t upload_count;
	struct link trees; // toolbox/watch_check
	size_t tree_count;
	char life[9]; // of this daemon, in names that it gives out
	uint64_t last;
};

struct watch_state *watch_state_of(const struct http *x);
// A name that this daemon has never given out.
void watch_state_name(struct watch_state *watches, char out[32]);
