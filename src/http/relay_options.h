// How a request is relayed (http/relay.h): whereto, and what the two sides learn of each other.
#pragma once

#include "http/http.h"

#define RELAY_REPLY_MS (5 * 60 * 1000) // until the server begins its answer
#define RELAY_IDLE_MS (60 * 60 * 1000) // without a byte of it, either way

struct relay_options {
	struct loop *loop;
	int fd; // connected; taken over, whatever happens; unused with `stream`
	// NULL, or: the connection, which stays the caller's. *is_kept, false before: it may serve
	// one more request.
	struct stream *stream;
	bool *is_kept;
	struct str host;   // as that server knows itself: "localhost:8080"
	struct str path;   // as it is sent, with its slash
	const char *proto; // by which the client came: "https"; NULL: "http"
	// More fields for the server; the client's own of these names stay behind, like all that
	// says where a request came from (X-Forwarded-…) unless keep_origin.
	const struct http1_field *more;
	size_t more_count;
	// Where the server's "/" lies for the client: "", "/8080-box-token". Its redirects to
	// itself lead there and its cookies stay there. at == NULL: both are passed on as they are.
	struct str prefix;
	int64_t reply_ms;   // 0: RELAY_REPLY_MS
	int64_t idle_ms;    // 0: RELAY_IDLE_MS
	bool keep_origin;   // the client's own X-Forwarded-… and the like are passed on unchanged
	bool keep_bearer;   // the Authorization is meant for that server
	bool shares_origin; // with us: a browser must not take its pages for ours
	bool is_reused;	    // it has served a request before, and its server may have closed it
};
