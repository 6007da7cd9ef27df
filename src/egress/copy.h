// What a followed connection is made of, and how its bytes move. Whoever counts, counts before
// bytes are on their way.
#pragma once

#include "codec/http1.h"
#include "egress/body.h"
#include "egress/half.h"
#include "egress/private.h"
#include "egress/secrets.h"

#define EGRESS_COPY_ROOM (64 * 1024)

struct follow {
	struct conn *conn;
	struct half in, up;
	struct buf got_in, got_up; // read, not passed on yet
	struct http1_head request, reply;
	struct secrets_set secrets;	// of this exchange: what may travel, and not come back
	enum hostname_kind target_kind; // what the connection was made to
	char target[HOSTNAME_MAX + 1];
	char up_name[HOSTNAME_MAX + 1]; // whom `up` leads to; "": nobody
	bool reused;			// it has served a request before
	bool replied;			// bytes of the reply are on their way
	bool is_head, last, upgraded;
	bool websocket;	   // the request asks for one
	bool no_offer;	   // it asks for something else, which is left away
	const char *spent; // a budget that was used up on the way
	// The task that carries a body.
	struct task *carrier;
	struct body body;
	bool swapped; // placeholders in it become values
	bool body_done;
	struct condition carried;
};

int64_t egress_copy_soon(const struct follow *follow, int64_t ms);
// EXHAUSTED: what the budget does not let pass is the end.
fallible egress_copy_pass(struct follow *follow, enum budget_way way, const char *bytes,
			  size_t len);
// *out = 0: the end. TOO_LARGE: `got` has EGRESS_COPY_ROOM, or `room` where that is more.
fallible egress_copy_more(struct half *half, struct buf *got, size_t room, int64_t deadline,
			  size_t *out);
// The stream has ended within `body`. OK where its close is the end of the body; BAD_PEER cut_body:
// bytes are missing, or TLS ended without a close_notify.
fallible egress_copy_end(const struct half *from, const struct body *body);
// The body as it came. BAD_PEER cut_body.
fallible egress_copy_body(struct follow *follow, struct body *body, enum budget_way way);
