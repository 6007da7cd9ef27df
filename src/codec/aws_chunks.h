// The body of an upload with Content-Encoding aws-chunked and trailing checksums, unsigned: chunks
// with their length in hex digits, then a trailer. No I/O, no allocation.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct aws_chunks {
	enum {
		AWS_CHUNKS_SIZE, // within the line of a length
		AWS_CHUNKS_DATA,
		AWS_CHUNKS_CR, // the line end behind the data
		AWS_CHUNKS_LF,
		AWS_CHUNKS_TRAILER,
		AWS_CHUNKS_BAD,
	} state;
	uint64_t left; // bytes of the chunk; of a line of the trailer: its length
	unsigned line; // bytes of the line so far
	bool has_digit, is_extension, is_over;
};

// Takes bytes from the front of *in and returns the next stretch of the content; empty: more input
// is needed, the body is over, or it is malformed. Zeroed before the first call.
struct str aws_chunks_read(struct aws_chunks *chunks, struct str *in);
bool aws_chunks_is_over(const struct aws_chunks *chunks); // the last chunk was seen
bool aws_chunks_is_bad(const struct aws_chunks *chunks);
