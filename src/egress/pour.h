// Bytes from one socket to another and back, until both directions have ended: by splice, so that
// they never are in this process. An end on one side is handed on and the other direction goes on.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"

enum pour_way { POUR_OUT, POUR_IN }; // from the first socket to the second; back
enum pour_end { POUR_DONE, POUR_RESET, POUR_IDLE, POUR_SPENT, POUR_STOPPED };

struct pour;
struct pour_table {
	// How many of `want` bytes may be moved that way now; 0: none, and it ends as SPENT. NULL:
	// all. What was granted and then not moved is in `unused` of moved().
	uint64_t (*grant)(void *arg, enum pour_way way, uint64_t want);
	// Told before they are on their way out of here.
	void (*moved)(void *arg, enum pour_way way, uint64_t bytes, uint64_t unused);
	// Once, from the loop; both sockets are closed, and the pour is gone.
	void (*ended)(void *arg, enum pour_end end);
};

// Takes both over, also on failure (then they are closed). Neither may be watched by anybody else.
fallible pour_start(struct loop *loop, int first, int second, int64_t idle_ms,
		    const struct pour_table *table, void *arg, struct pour **out);
void pour_stop(struct pour *pour); // ended() is called with STOPPED

void pour_trim(void); // gives back the pipes that this thread keeps
