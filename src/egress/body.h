// The end of an HTTP/1 body, as its head says. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "codec/http1.h"

enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_CLOSE };
struct body {
	enum body_kind kind;
	uint64_t left;
	struct http1_chunks chunks;
};

struct body body_of_request(const struct http1_head *head);
struct body body_of_reply(const struct http1_head *head,
			  bool to_head); // to_head: the reply to HEAD
// How many bytes of `in` belong to the body, framing included. *out_done: the body ends there.
// BAD_PEER bad_body.
fallible body_measure(struct body *body, struct str in, size_t *out_used, bool *out_done);
// The same, and adds the content without framing to `out`. Trailers are dropped.
fallible body_take(struct body *body, struct str in, struct buf *out, size_t *out_used,
		   bool *out_done);
