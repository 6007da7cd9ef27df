// What of a head goes on when a request is relayed, and what stays: pure, apart from the arena.
#pragma once

#include "http/relay_way.h"

// The head of the request for the server, upgrade or not. HEAD_TOO_LARGE.
fallible relayed_request(const struct http *x, const struct relay_way *way, bool upgrade,
			 struct buf *out);
// The fields of the server's reply, set on x. BAD_PEER bad_reply: too many.
fallible relayed_reply(struct http *x, const struct relay_way *way, const struct http1_head *head,
		       bool upgrade);
// Does the client ask for a WebSocket? Other upgrades are not passed on: the request is then served
// as if it had not asked, which RFC 9110 (7.8) allows.
bool relayed_is_upgrade(const struct http *x);
// A cookie that the server sets, kept to itself: no Domain, and the Path beneath `prefix`.
void relayed_cookie(struct str value, struct str prefix, struct buf *out);
// A redirect of the server to itself, as the client must be told it; what leads elsewhere is
// copied.
void relayed_location(struct str value, const struct relay_way *way, struct buf *out);
