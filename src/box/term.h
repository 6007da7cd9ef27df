// Terminals of one box: programs on a pty, by id. All attached clients read the same output, each
// at its own pace; a slow or absent client does not slow the program.
#pragma once

#include "box/exec.h"

#define TERM_MAX 64		  // of one box, including ended ones whose end was not told yet
#define TERM_ID_MAX 256		  // bytes
#define TERM_RING (256 * 1024)	  // bytes of the last output, for clients that attach later
#define TERM_SIDE_MAX 4096	  // columns, rows
#define TERM_KEPT_MS (5 * 60000)  // an end that no client was told yet
#define TERM_INPUT_MAX (1u << 20) // bytes typed and not read yet

struct term;

struct term_spec {
	struct str id;	  // len 0: generated
	bool is_command;  // its end is kept until a client was told; a shell's id is free at once
	struct str shown; // for display
	const struct exec_spec *exec; // with cols and rows
};

// Finds or starts a terminal; *out_new says which. Waits until it runs; the caller holds it.
// EXHAUSTED too_many_terminals; INVALID bad_field; errors of exec_start().
fallible term_open(struct box *box, const struct term_spec *spec, struct term **out, bool *out_new);
struct term *term_find(struct box *box, struct str id); // held; NULL: none
// EXHAUSTED too_many_terminals: term_open() would start no new one.
fallible term_ask_room(struct box *box);
void term_ref(struct term *term);
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
	uint64_t bytes;	    // of output so far
};
struct term_view term_view(const struct term *term);
void term_each(struct box *box, void (*each)(struct term *term, void *arg), void *arg);

// Copies output from *at on and advances *at. Bytes that are no longer in the ring are skipped:
// *out_skipped. 0: nothing more yet. Start at term_kept().
uint64_t term_kept(const struct term *term);
size_t term_read(const struct term *term, uint64_t *at, char *room, size_t size,
		 uint64_t *out_skipped);
// Waits for output after `at`, or the end.
fallible term_await(struct term *term, uint64_t at, int64_t deadline);
struct tape *term_tape(struct term *term); // all output up to the cap; borrowed while held

// Types. Waits while the program reads nothing; TIMEOUT. CONFLICT terminal_ended.
fallible term_type(struct term *term, const void *bytes, size_t len, int64_t deadline);
// 1 to TERM_SIDE_MAX each, else INVALID bad_size.
fallible term_resize(struct term *term, uint64_t cols, uint64_t rows);
void term_kill(struct term *term); // the whole tree

// True once it has ended and all output can be read. *out_box_gone: with its box.
bool term_ended(const struct term *term, struct exec_result *out, bool *out_box_gone);
void term_forget(struct term *term);	       // a client was told of the end: frees its id
void term_attach(struct term *term, int step); // 1 or -1: counts attached clients
