// What an exchange stands on: the connection, its buffers while it is served, and what all
// connections of one server share.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "http/body_reader.h"
#include "loop/stream.h"

struct request_context; // of http/request_context

struct http_terms {
	struct loop *loop;
	uint32_t head_ms, idle_ms, silence_ms;
	size_t body_max;
	void *app;
	bool draining;
	uint64_t id_key, id_next; // request ids: a counter, scrambled
	char date[32];
	int64_t date_until;  // loop time up to which `date` is right
	struct link sockets; // upgraded connections: WebSockets
	struct link spare;   // desks
	unsigned spare_count;
};

struct http_buffers {
	struct body_reader body_reader;
	struct buf head;  // of the reply
	struct buf extra; // header lines of http_set
	char chunk[24];	  // the size line of a chunk
};

struct http_conn {
	struct http_terms *terms;
	struct stream stream;
	struct request_context *context; // NULL: idle
	struct http_buffers *buffers;	 // the desk's
	char peer[48];
	int64_t uid;	   // of a peer on a Unix socket, by SO_PEERCRED; -1: of another
	uint32_t streak;   // requests served without a wait between them
	bool no_body;	   // the reply has none: HEAD, 204, 304
	bool chunked;	   // the reply's body is
	bool sized;	   // its length was announced, and
	uint64_t due;	   // so much of it is still to come
	bool close_after;  // the reply is the last one
	bool linger;	   // the peer may still be sending: let it read our answer first
	bool continue_due; // the client waits for "100 Continue" before it sends the body
	bool served_one;
	uint32_t silence_ms; // how long a write of this reply may wait for the reader
	struct task *absent; // cancelled when the peer is gone: the handler waits for others
	struct str probe;    // what a client that hung up may be sent to learn whether it reads
	bool probed;
	struct timer quiet; // until a silent event stream is sent a comment
};
