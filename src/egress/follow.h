// Follows HTTP/1 request by request: each is judged by its Host field and counted; a denied one is
// answered here. Bytes are counted before they are sent.
#pragma once

#include "codec/http1.h"
#include "egress/private.h"
#include "egress/secrets.h"
#include "egress/tls_stream.h"

// A side of a followed connection: a stream, or TLS over it.
struct half {
	struct stream *stream;
	struct tls_stream *tls; // NULL: plain
};

static inline fallible half_read(struct half *half, void *room, size_t size, int64_t deadline,
				 size_t *out)
{
	return half->tls ? tls_stream_read(half->tls, room, size, deadline, out)
			 : stream_read(half->stream, room, size, deadline, out);
}

static inline fallible half_write(struct half *half, const void *bytes, size_t len,
				  int64_t silence_ms)
{
	return half->tls ? tls_stream_write(half->tls, bytes, len, silence_ms)
			 : stream_write(half->stream, bytes, len, silence_ms);
}

// The end of an HTTP/1 body, as its head says. No I/O.
enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_CLOSE };
struct body {
	enum body_kind kind;
	uint64_t left;
	struct http1_chunks chunks;
};

struct body body_of_request(const struct http1_head *head);
struct body body_of_reply(const struct http1_head *head,
			  bool to_head); // to_head: the reply to HEAD

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
	enum { FOLLOW_ON, FOLLOW_LAST, FOLLOW_UPGRADED } next; // after this exchange
	// The request: its method is HEAD; it asks for a WebSocket; it offers another protocol,
	// which is removed.
	bool is_head, websocket, no_offer;
	const char *spent; // the budget that was used up; NULL: none
	// The task that sends a body.
	struct task *carrier;
	struct body body;
	bool substituted; // placeholders in the body become values
	bool body_done;
	struct condition carried;
};

// In copy.c, until follow_serve().
int64_t egress_copy_soon(const struct follow *follow, int64_t ms);
// EXHAUSTED: the budget was used up; only the granted part was sent.
fallible egress_copy_pass(struct follow *follow, enum budget_way way, const char *bytes,
			  size_t len);
// *out = 0: the end. TOO_LARGE: `got` holds EGRESS_COPY_ROOM, or `room` if that is more.
fallible egress_copy_more(struct half *half, struct buf *got, size_t room, int64_t deadline,
			  size_t *out);
// Passes the body on unchanged. BAD_PEER cut_body.
fallible egress_copy_body(struct follow *follow, struct body *body, enum budget_way way);

// Exchanges with a host that gets secrets: requests carry the values, replies the placeholders, in
// heads and bodies. Heads are rewritten, and so is the framing of bodies, whose lengths change.
// Only short bodies are buffered as a whole.
//
// Sends the head, with a short body. The rest of the body is in follow->body, for substitute_body()
// if follow->substituted.
fallible substitute_send(struct follow *follow);
fallible substitute_body(struct follow *follow);
// Sends the head in follow->reply, and its body.
fallible substitute_reply(struct follow *follow, struct body *body);

// `half` is the box's side. *out_upgraded: both sides agreed to an upgrade, and what was read of it
// has been passed on: the caller may splice conn->in and conn->out (under *out_up_tls_stream, if
// set, which is then the caller's). Otherwise the connection is finished.
void follow_serve(struct conn *conn, struct half *half, bool *out_upgraded,
		  struct tls_stream **out_up_tls_stream);
