// HTTP/1.1 heads and chunks, by the strict grammar of RFC 9112: no bare CR or LF, no folding, no
// blank before a colon, no NUL, one Host, one framing. Ambiguous input is refused, because a proxy
// in front may parse it differently. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define HTTP1_HEAD_MAX (32 * 1024)
#define HTTP1_FIELDS_MAX 100

struct http1_field {
	struct str name, value; // as sent; value trimmed
};

enum http1_verdict { HTTP1_MORE, HTTP1_DONE, HTTP1_BAD, HTTP1_TOO_LARGE };

struct http1_head {
	struct str method, target; // request
	int status;		   // reply
	int minor;		   // HTTP/1.minor, 0 or 1
	struct http1_field fields[HTTP1_FIELDS_MAX];
	size_t field_count;
	bool chunked;
	bool has_length;
	uint64_t length;
	bool keep_alive; // from version and Connection together
	bool expect_continue;
	bool upgrade;	   // Connection contains the token upgrade
	size_t size;	   // bytes of the head, blank line included
	const char *fault; // for BAD: the error message for the client
};

// Parses a request head at the start of `bytes`. Slices point into `bytes`.
enum http1_verdict http1_request(struct str bytes, struct http1_head *out);
enum http1_verdict http1_reply(struct str bytes, struct http1_head *out);
// The field's value, or an empty slice with at == NULL. Names compare without case.
struct str http1_field(const struct http1_head *head, const char *name);
// Whether name and value could occur in a head: a check for fields from other sources.
bool http1_is_field(struct str name, struct str value);

// An incremental parser of a chunked body.
struct http1_chunks {
	int state;
	uint64_t left; // unread bytes of the current chunk
	uint32_t line; // bytes of framing seen in this line
};
// Consumes from `in`; *data is the next slice of content (may be empty), *used the number of bytes
// consumed. DONE after the last chunk and its trailers.
enum http1_verdict http1_unchunk(struct http1_chunks *chunks, struct str in, struct str *data,
				 size_t *used);
const char *http1_status_text(int status);
