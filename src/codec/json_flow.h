// A JSON object with one long string in it, read as it comes. The long member's content is given
// out decoded, piece by piece; everything else is gathered as the text of the same object with ""
// in its place, which json_read() then judges as strictly as any other. So this machine needs to
// know only where strings begin and end. No I/O; memory is what the caller's bufs hold.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct json_flow {
	const char *key;  // of the long member: a top-level one, written without escapes
	struct buf *rest; // the object without it; its ceiling bounds what else may be sent
	const char *fault;
	bool seen; // the long member has begun
	// how far it is
	uint8_t state;
	uint8_t escape; // inside an escape of the long string: how many characters of it came
	uint16_t unit;	// of a \u escape
	uint16_t high;	// the first half of a surrogate pair; 0: none
	uint8_t cut[4]; // a UTF-8 sequence that the last piece cut
	uint8_t cut_len;
	uint32_t depth;
	bool is_key;	// a string here is a member's name
	bool is_long;	// and the last name was `key`
	size_t name_at; // where the name begins in `rest`
};

enum json_flow_verdict {
	JSON_FLOW_MORE, // all of `in` was read
	JSON_FLOW_FULL, // `out` has no room for the next bytes: empty it and call again
	JSON_FLOW_BAD,	// `fault` says why
};

void json_flow_init(struct json_flow *flow, const char *key, struct buf *rest);
// Reads from the front of *in, and steps over what it read. Content goes to `out`; that buf's
// ceiling is the size of a piece, at least 8.
enum json_flow_verdict json_flow(struct json_flow *flow, struct str *in, struct buf *out);
