// The state of a terminal, for term.c and term_adopt.c.
#pragma once

#include "base/buf.h"
#include "box/exec_private.h"
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
	uint32_t file; // number of its tape; 0: unnamed
	uint64_t cap;
	bool spilling;
	int spool[2]; // pty spool; -1: none
	size_t in_spool;
	int dips; // splices into it, at most
	struct timer drain;
	struct condition more; // also: it runs, it has ended
	// in
	struct buf input;
	struct condition room;
};

struct term *term_make(struct box *box, const struct term_spec *spec, uint64_t cap);
void term_make_tape(struct term *term);
void term_list(struct term *term);
void term_run(struct term *term); // its exec, master and spool are set
void term_show(struct term *term, const char *bytes, size_t len); // appends to the ring
void term_open_ring(struct term *term, uint64_t from, uint64_t to);
void spool_drain(struct term *term);
