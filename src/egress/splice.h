// Copies bytes between two sockets in both directions until both have ended, by splice(): the bytes
// never enter this process. The end of one direction is passed on; the other goes on.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"

enum egress_splice_way {
	EGRESS_SPLICE_OUT,
	EGRESS_SPLICE_IN
}; // from the first socket to the second; back
enum egress_splice_end {
	EGRESS_SPLICE_DONE,
	EGRESS_SPLICE_RESET,
	EGRESS_SPLICE_IDLE,
	EGRESS_SPLICE_SPENT,
	EGRESS_SPLICE_STOPPED
};

struct egress_splice;
struct egress_splice_table {
	// How many of `want` bytes may be moved now; 0: none, and it ends as SPENT. NULL: all.
	// Granted bytes that were not moved are reported as `unused` to moved().
	uint64_t (*grant)(void *arg, enum egress_splice_way way, uint64_t want);
	// Called before the bytes are sent.
	void (*moved)(void *arg, enum egress_splice_way way, uint64_t bytes, uint64_t unused);
	// Called once, from the loop; both sockets are closed and the object is freed.
	void (*ended)(void *arg, enum egress_splice_end end);
};

// Takes both sockets over, also on failure (then they are closed). They must not be watched
// elsewhere.
fallible egress_splice_start(struct loop *loop, int first, int second, int64_t idle_ms,
			     const struct egress_splice_table *table, void *arg,
			     struct egress_splice **out);
void egress_splice_stop(struct egress_splice *transfer); // ended() is called with STOPPED

void egress_splice_trim(void); // closes the pipes that this thread has pooled
