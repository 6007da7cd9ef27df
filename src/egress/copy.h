// State of a followed connection, and how its bytes move. Bytes are counted before they are sent.
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
	struct buf got_in, got_up; // read, not yet passed on
	struct http1_head request, reply;
	struct secrets_set secrets;	// of this exchange: to substitute, and to mask in the reply
	enum hostname_kind target_kind; // what the connection was made to: name or address
	char target[HOSTNAME_MAX + 1];
	char up_name[HOSTNAME_MAX + 1]; // the host that `up` is connected to; "": none
	bool reused;			// `up` has served a request before
	bool replied;			// bytes of the reply were sent
	bool is_head, last, upgraded;
	bool websocket;	   // the request asks for one
	bool no_offer;	   // it offers another protocol, which is removed
	const char *spent; // the budget that was used up; NULL: none
	// The task that sends a body.
	struct task *carrier;
	struct body body;
	bool substituted; // placeholders in the body become values
	bool body_done;
	struct condition carried;
};

int64_t egress_copy_soon(const struct follow *follow, int64_t ms);
// EXHAUSTED: the budget was used up; only the granted part was sent.
fallible egress_copy_pass(struct follow *follow, enum budget_way way, const char *bytes,
			  size_t len);
// *out = 0: the end. TOO_LARGE: `got` holds EGRESS_COPY_ROOM, or `room` if that is more.
fallible egress_copy_more(struct half *half, struct buf *got, size_t room, int64_t deadline,
			  size_t *out);
// The stream ended within `body`. OK if the close ends the body; BAD_PEER cut_body: bytes are
// missing, or TLS ended without a close_notify.
fallible egress_copy_end(const struct half *from, const struct body *body);
// Passes the body on unchanged. BAD_PEER cut_body.
fallible egress_copy_body(struct follow *follow, struct body *body, enum budget_way way);
