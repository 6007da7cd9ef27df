// Server-sent events on their way through: with an `event:` line put before each `data:` line, or
// without those of one type. Bytes in pieces, cut anywhere.
#pragma once

#include "base/buf.h"

#define SIEVE_START 64 // bytes of a line that tell its type

struct sieve {
	bool names;	  // put the type before it
	const char *drop; // a type; NULL: none
	char start[SIEVE_START];
	size_t len;
	char id[SIEVE_START]; // an `id:` line that waits for what it belongs to
	size_t id_len;
	bool decided, dropped, gap;
};

void sieve_add(struct sieve *sieve, struct str bytes, struct buf *out);
void sieve_end(struct sieve *sieve, struct buf *out); // what is left of a last line
