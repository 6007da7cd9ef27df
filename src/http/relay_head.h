// What of a head goes on when a request is relayed, and what stays: pure, apart from the arena.
#pragma once

#include "http/relay_options.h"

// The head of the request for the server, upgrade or not. HEAD_TOO_LARGE.
fallible relay_head_request(const struct http *x, const struct relay_options *way, bool upgrade,
			    struct buf *out);
// The fields of the server's reply, set on x. BAD_PEER bad_reply: too many.
fallible relay_head_reply(struct http *x, const struct relay_options *way,
			  const struct http1_head *head, bool upgrade);
// Does the client ask for a WebSocket? Other upgrades are not passed on: the request is then served
// as if it had not asked, which RFC 9110 (7.8) allows.
bool relay_head_is_upgrade(const struct http *x);
// A cookie that the server sets, kept to itself: no Domain, and the Path beneath `prefix`.
void relay_head_cookie(struct str value, struct str prefix, struct buf *out);
// A redirect of the server to itself, as the client must be told it; what leads elsewhere is
// copied.
void relay_head_location(struct str value, const struct relay_options *way, struct buf *out);
