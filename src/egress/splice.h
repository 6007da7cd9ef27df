// Bytes from one socket to another and back, until both directions have ended: by splice, so that
// they never are in this process. An end on one side is handed on and the other direction goes on.
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
	// How many of `want` bytes may be moved that way now; 0: none, and it ends as SPENT. NULL:
	// all. What was granted and then not moved is in `unused` of moved().
	uint64_t (*grant)(void *arg, enum egress_splice_way way, uint64_t want);
	// Told before they are on their way out of here.
	void (*moved)(void *arg, enum egress_splice_way way, uint64_t bytes, uint64_t unused);
	// Once, from the loop; both sockets are closed, and the pour is gone.
	void (*ended)(void *arg, enum egress_splice_end end);
};

// Takes both over, also on failure (then they are closed). Neither may be watched by anybody else.
fallible egress_splice_start(struct loop *loop, int first, int second, int64_t idle_ms,
			     const struct egress_splice_table *table, void *arg,
			     struct egress_splice **out);
void egress_splice_stop(struct egress_splice *transfer); // ended() is called with STOPPED

void egress_splice_trim(void); // gives back the pipes that this thread keeps
