// Options of a relay (http/relay.h): its target, and what the two sides learn about each other; and
// which fields of a head are relayed, and how: pure functions, apart from the arena.
#pragma once

#include "http/body_reader.h"
#include "http/http.h"

#define RELAY_REPLY_MS (5 * 60 * 1000) // until the reply begins
#define RELAY_IDLE_MS (60 * 60 * 1000) // without a byte in either direction

// A connection to the server, with the room for its replies. Zero it, then open the stream.
struct relay_conn {
	struct stream stream;
	struct body_reader body_reader;
	struct http1_head head;
};

struct relay_options {
	struct loop *loop;
	int fd; // connected; ownership is taken in any case; unused with `conn`
	// NULL, or the caller's connection, which stays the caller's. *is_kept, false before: it
	// may serve another request.
	struct relay_conn *conn;
	bool *is_kept;
	struct str host;   // the server's own name: "localhost:8080"
	struct str path;   // as sent, with its slash
	const char *proto; // the client's scheme: "https"; NULL: "http"
	// More fields for the server. Fields of these names from the client are dropped, like all
	// X-Forwarded-… unless keep_origin.
	const struct http1_field *more;
	size_t more_count;
	// The client's path of the server's "/": "", "/8080-box-token". Redirects and cookies of
	// the server are rewritten to it. at == NULL: both are passed on unchanged.
	struct str prefix;
	int64_t reply_ms;   // 0: RELAY_REPLY_MS
	int64_t idle_ms;    // 0: RELAY_IDLE_MS
	bool keep_origin;   // pass on the client's own X-Forwarded-… fields unchanged
	bool keep_bearer;   // the Authorization field is meant for that server
	bool shares_origin; // the server shares our origin: browsers must be told to separate its
			    // pages
	bool is_reused;	    // it has served a request before, and the server may have closed it
};

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
