// The state of a terminal, for the two files that make it up.
#pragma once

#include "base/buf.h"
#include "box/inner.h"
#include "box/term.h"

enum term_phase { TERM_STARTING, TERM_RUNNING, TERM_LAST_BYTES, TERM_ENDED, TERM_FAILED };

struct terms {
	struct link all;
	uint32_t count;
};

struct term {
	struct box *box;
	struct loop *loop;
	struct link link;
	bool listed;
	int refs;
	char *id, *shown;
	bool is_command, box_gone;
	enum term_phase phase;
	struct exec *exec;
	struct exec_result result;
	struct watch master;
	uint16_t cols, rows;
	uint32_t attached;
	int64_t started_ms;
	struct timer forget;
	// out
	char *ring;
	size_t ring_size;
	uint64_t written;
	struct tape *tape;
	bool spilling;
	struct bell more; // also: it runs, it has ended
	// in
	struct buf input;
	struct bell room;
};

// In term.c.
void term_hold(struct term *term);
// All that it had written is read: it has ended.
void term_finish(struct term *term);
// In term_flow.c.
void term_watch(struct term *term); // as it is due now
bool term_move(struct term *term);  // some output; false: there is none now, or never will be
void term_close_master(struct term *term);
void term_on_master(struct watch *watch, uint32_t events);
