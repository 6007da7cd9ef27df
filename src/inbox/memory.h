// What is remembered between two requests: uploads that were cut, and trees that are kept track of.
#pragma once

#include "inbox/place.h"

struct memory {
	struct loop *loop;
	struct link uploads; // inbox/park
	size_t upload_count;
	struct link trees; // inbox/watch_check
	size_t tree_count;
	char life[9]; // of this daemon, in names that it gives out
	uint64_t last;
};

struct memory *memory_of(const struct http *x);
// A name that this daemon has never given out.
void memory_name(struct memory *memory, char out[32]);
