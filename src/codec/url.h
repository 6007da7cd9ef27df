// Request targets and absolute URLs, split and checked. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct url {
	struct str scheme, host; // empty for an origin-form target; host without brackets
	uint16_t port;		 // 0: not given
	struct str path;	 // as sent, starts with '/'
	struct str query;	 // as sent, without '?'
};

// An origin-form request target: starts with '/', no fragment, no control characters.
bool url_target(struct str text, struct url *out);
// http://host[:port][/path], the format of COVE_URL.
bool url_absolute(struct str text, struct url *out);

// The value of `key` in a query, percent- and plus-decoded into `out`; false: absent or malformed.
bool url_query(struct str query, const char *key, struct buf *out);
// Iterates over a query's pairs, undecoded: start with the query in *rest.
bool url_pair(struct str *rest, struct str *key, struct str *value);
