// Terminals of one box: a program on a pty each, by id. Whoever is attached reads the same screen
// at his own pace; nobody who is slow, or gone, is noticed by the program.
#pragma once

#include "box/exec.h"

#define TERM_MAX 64		  // of one box, those that have ended and wait to be told included
#define TERM_ID_MAX 256		  // bytes
#define TERM_RING (256 * 1024)	  // of the last output, for those who come later
#define TERM_SIDE_MAX 4096	  // columns, rows
#define TERM_KEPT_MS (5 * 60000)  // an end that nobody has been told yet
#define TERM_INPUT_MAX (1u << 20) // typed, and not taken yet

struct term;

struct term_spec {
	struct str id;	 // len 0: one is made
	bool is_command; // its end is kept until somebody was told; a shell's place is free at once
	struct str shown;	      // what runs, for lists
	const struct exec_spec *exec; // with cols and rows
};

// The one of that id, or a new one; *out_new says which. Waits until it runs; the caller holds it.
// EXHAUSTED too_many_terminals; INVALID bad_field; what exec_start() says.
fallible term_open(struct box *box, const struct term_spec *spec, struct term **out, bool *out_new);
struct term *term_find(struct box *box, struct str id); // held; NULL: there is none
// EXHAUSTED too_many_terminals: term_open() would make no new one.
fallible term_ask_room(struct box *box);
void term_unref(struct term *term);
static inline void auto_term_(struct term **term)
{
	if (*term)
		term_unref(*term);
}
#define auto_term on_exit_call(auto_term_) struct term *

struct term_view {
	const char *id, *shown;
	bool is_command, has_ended;
	int pid, cols, rows;
	uint32_t attached;
	int64_t started_ms; // wall clock
	uint64_t bytes;	    // of output, up to now
};
struct term_view term_view(const struct term *term);
void term_each(struct box *box, void (*each)(struct term *term, void *arg), void *arg);

// Output from *at on, as much as fits, and moves *at. What is no longer kept is stepped over:
// *out_skipped bytes. 0: nothing more yet. The place to begin at is term_kept().
uint64_t term_kept(const struct term *term);
size_t term_read(const struct term *term, uint64_t *at, char *room, size_t size,
		 uint64_t *out_skipped);
// Until there is something behind `at`, or it has ended.
fallible term_await(struct term *term, uint64_t at, int64_t deadline);
struct tape *term_tape(struct term *term); // all of it up to the cap; borrowed while it is held

// Types. Waits while the program takes nothing; TIMEOUT. CONFLICT terminal_ended.
fallible term_type(struct term *term, const void *bytes, size_t len, int64_t deadline);
// 1 to TERM_SIDE_MAX each, else INVALID bad_size.
fallible term_resize(struct term *term, uint64_t cols, uint64_t rows);
void term_kill(struct term *term); // the whole tree

// True once it has ended and all of its output can be read. *out_box_gone: with its box.
bool term_ended(const struct term *term, struct exec_result *out, bool *out_box_gone);
void term_told(struct term *term);	       // somebody knows of the end: its place is free
void term_attach(struct term *term, int step); // 1 or -1: for lists
