// The last lines of a process's output, with the stream that each piece came from.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

struct tail_piece {
	bool is_stderr;
	char *bytes;
	size_t len, newlines;
};

struct tail {
	size_t wanted; // lines
	struct tail_piece *pieces;
	size_t first, count; // pieces before the first are freed
	size_t newlines;     // in the pieces that are kept
	uint64_t total;	     // bytes that have come
};
void tail_done(struct tail *tail);
#define auto_tail on_exit_call(tail_done) struct tail

// Copies the piece, and frees those before the wanted lines.
void tail_add(struct tail *tail, bool is_stderr, const void *bytes, size_t len);
// Prints the wanted lines to stdout and stderr. An unterminated line counts.
fallible tail_print(const struct tail *tail);
