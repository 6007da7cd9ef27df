// The state under an exchange: the connection, its buffers while it is served, and the state that
// all connections of a server share.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "http/body_reader.h"
#include "loop/stream.h"

struct request_context; // conn.h

struct http_terms {
	struct loop *loop;
	uint32_t head_ms, idle_ms, silence_ms;
	size_t body_max;
	void *app;
	bool draining;
	uint64_t id_key, id_next; // request ids: a scrambled counter
	char date[32];
	int64_t date_until;  // loop time until which `date` is valid
	struct link sockets; // upgraded connections: WebSockets
	struct link spare;   // unused request contexts
	unsigned spare_count;
};

struct http_buffers {
	struct body_reader body_reader;
	struct buf head;  // of the reply
	struct buf extra; // header lines of http_set()
	char chunk[24];	  // the size line of a chunk
};

struct http_conn {
	struct http_terms *terms;
	struct stream stream;
	struct request_context *context; // NULL: idle
	struct http_buffers *buffers;	 // of the context
	char peer[48];
	int64_t uid;	   // of a peer on a Unix socket, by SO_PEERCRED; -1: other sockets
	uint32_t streak;   // requests served without a wait between them
	bool no_body;	   // the reply has no body: HEAD, 204, 304
	bool chunked;	   // the reply's body is chunked
	bool sized;	   // the reply has a Content-Length
	uint64_t due;	   // unsent bytes of it
	bool close_after;  // close after this reply
	bool linger;	   // the peer may still be sending: let it read our answer before the close
	bool continue_due; // the client waits for "100 Continue" before it sends the body
	bool served_one;
	uint32_t silence_ms; // longest wait of a write for the reader
	struct task
		*absent;  // cancelled when the peer is gone: the handler waits for something else
	struct str probe; // bytes sent to a half-closed client to find out whether it still reads
	bool probed;
	const struct http_keepalive *keepalive; // of a reply that is a stream of events; NULL: not
	struct timer quiet;			// until it counts as silent
	int64_t sent_at;			// loop time of its last bytes
	char sent[2];				// its last bytes; zeros while some are being sent
};
