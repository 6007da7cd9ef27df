// Parses a JSON object with one long string incrementally. The content of the long member is
// delivered decoded, piece by piece; everything else is collected as the text of the same object
// with "" in its place, which json_read() then checks strictly. So this parser needs to know only
// where strings begin and end. No I/O; memory is bounded by the caller's bufs.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct json_flow {
	const char *key;  // name of the long member: at top level, written without escapes
	struct buf *rest; // the object without it; its ceiling limits the other members
	const char *fault;
	bool seen; // the long member has begun
	// parser state
	uint8_t state;
	uint8_t escape; // inside an escape of the long string: characters read so far
	uint16_t unit;	// value of a \u escape
	uint16_t high;	// first half of a surrogate pair; 0: none
	uint8_t cut[4]; // an incomplete UTF-8 sequence of the last piece
	uint8_t cut_len;
	uint32_t depth;
	bool is_key;	// a string here is a member's name
	bool is_long;	// the last name was `key`
	size_t name_at; // start of the name in `rest`
};

enum json_flow_verdict {
	JSON_FLOW_MORE, // all of `in` was consumed
	JSON_FLOW_FULL, // `out` is full: empty it and call again
	JSON_FLOW_BAD,	// `fault` says why
};

void json_flow_init(struct json_flow *flow, const char *key, struct buf *rest);
// Consumes from the front of *in. Content goes to `out`; that buf's ceiling is the size of a piece,
// at least 8.
enum json_flow_verdict json_flow(struct json_flow *flow, struct str *in, struct buf *out);
