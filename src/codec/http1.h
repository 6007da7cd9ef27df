// HTTP/1.1 heads and chunks, by the strict grammar of RFC 9112: no bare CR or LF, no folding, no
// blank before a colon, no NUL, one Host, one framing. What is doubtful is refused, because a proxy
// in front of us may read it otherwise. No I/O: the caller brings the bytes.
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
	bool keep_alive; // what version and Connection say together
	bool expect_continue;
	bool upgrade;	   // Connection: upgrade is among the tokens
	size_t size;	   // bytes of the head, blank line included
	const char *fault; // for BAD: what was wrong, in words for the client
};

// Reads a request head at the start of `bytes`. Slices point into `bytes`.
enum http1_verdict http1_request(struct str bytes, struct http1_head *out);
enum http1_verdict http1_reply(struct str bytes, struct http1_head *out);
// The field's value, or an empty slice with at == NULL. Names compare without case.
struct str http1_field(const struct http1_head *head, const char *name);
// Could these two be read from a head? What came by another way may be written into one.
bool http1_is_field(struct str name, struct str value);

// A chunked body, as a machine that is fed.
struct http1_chunks {
	int state;
	uint64_t left; // of the current chunk
	uint32_t line; // bytes of framing seen in this line
};
// Consumes from `in`; *data is the next slice of content (may be empty), *used how much was eaten.
// DONE after the last chunk and its trailers.
enum http1_verdict http1_unchunk(struct http1_chunks *chunks, struct str in, struct str *data,
				 size_t *used);
const char *http1_status_text(int status);
