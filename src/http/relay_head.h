// Which fields of a head are relayed, and how: pure functions, apart from the arena.
#pragma once

#include "http/relay_options.h"

// The head of the request for the server, with or without upgrade. HEAD_TOO_LARGE.
fallible relay_head_request(const struct http *x, const struct relay_options *options, bool upgrade,
			    struct buf *out);
// Sets the fields of the server's reply on x. BAD_PEER bad_reply: too many.
fallible relay_head_reply(struct http *x, const struct relay_options *options,
			  const struct http1_head *head, bool upgrade);
// Whether the client asks for a WebSocket. Other upgrades are not relayed: the request is served
// without upgrade, which RFC 9110 (7.8) allows.
bool relay_head_is_upgrade(const struct http *x);
// Confines a cookie of the server: no Domain, and its Path beneath `prefix`.
void relay_head_cookie(struct str value, struct str prefix, struct buf *out);
// Rewrites a redirect of the server to itself for the client; other redirects are copied.
void relay_head_location(struct str value, const struct relay_options *options, struct buf *out);
