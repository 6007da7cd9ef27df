// What a followed connection is made of, and how its bytes move. Whoever counts, counts before
// bytes are on their way.
#pragma once

#include "egress/body.h"
#include "egress/inner.h"
#include "egress/leg.h"
#include "egress/secrets.h"
#include "wire/http1.h"

#define MOVING_ROOM (64 * 1024)

struct follow {
	struct conn *conn;
	struct leg in, up;
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
	struct bell carried;
};

int64_t moving_soon(const struct follow *follow, int64_t ms);
// EXHAUSTED: what the budget does not let pass is the end.
fallible moving_pass(struct follow *follow, enum budget_way way, const char *bytes, size_t len);
// *out = 0: the end. TOO_LARGE: `got` has MOVING_ROOM, or `room` where that is more.
fallible moving_more(struct leg *leg, struct buf *got, size_t room, int64_t deadline, size_t *out);
// The stream has ended within `body`. OK where its close is the end of the body; BAD_PEER cut_body:
// bytes are missing, or TLS ended without a close_notify.
fallible moving_end(const struct leg *from, const struct body *body);
// The body as it came. BAD_PEER cut_body.
fallible moving_body(struct follow *follow, struct body *body, enum budget_way way);
