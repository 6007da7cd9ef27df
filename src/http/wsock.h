// A WebSocket on a connection, for tasks: one of them receives, any number send. Pings are answered
// and sent by whoever receives, so somebody always should.
#pragma once

#include "base/map.h"
#include "codec/ws.h"
#include "http/body_reader.h"
#include "loop/stream.h"

#define WSOCK_MAX (32u << 20) // bytes of a message, unless told otherwise
#define WSOCK_PING_MS 30000
#define WSOCK_CLOSE_MS 2000 // for the peer's half of a close

struct wsock;
struct fair_share;

struct wsock_options {
	size_t max;	     // bytes of a message that comes; 0: WSOCK_MAX
	uint32_t silence_ms; // how long a write may wait for a reader; 0: 30 s
	uint32_t ping_ms;    // 0: WSOCK_PING_MS
	bool speaks_first;   // upgrade_run(): the agreement may go with what is said first
};

// Shared: it stays until its last holder drops it, though the stream under it may be gone by then.
// `stream` and what `inlet` has read too far are borrowed until wsock_end().
struct wsock *wsock_new(struct stream *stream, struct body_reader *body_reader, bool is_server,
			const struct wsock_options *options);
void wsock_ref(struct wsock *ws);
void wsock_unref(struct wsock *ws);
// Lets go of the stream. Whoever sends is cut off, and waited for: in a task, cancelled or not.
void wsock_end(struct wsock *ws);

enum wsock_kind { WSOCK_CLOSED, WSOCK_TEXT, WSOCK_BINARY };

struct wsock_message {
	enum wsock_kind kind;
	struct str body; // until the next call; of CLOSED the reason
	int code;	 // CLOSED: the peer's, ours when we closed first, WS_ABNORMAL without any
};

// The next message. A peer that breaks the rules, or is silent for two pings, is closed. TIMEOUT:
// nothing came until the deadline, and nothing is lost. CANCELLED.
fallible wsock_recv(struct wsock *ws, int64_t deadline, struct wsock_message *out);

// A whole message, behind those of others. SLOW_CLIENT slow_client, CANCELLED client_gone: the
// socket is of no use any more.
fallible wsock_send(struct wsock *ws, enum wsock_kind kind, struct str body);
// The same in pieces. Between begin and finish others wait, so a piece should not be far; without
// finish the socket is lost.
fallible wsock_begin(struct wsock *ws, enum wsock_kind kind);
fallible wsock_piece(struct wsock *ws, struct str body);
fallible wsock_finish(struct wsock *ws);
void wsock_abort(struct wsock *ws); // instead of finish

// Says goodbye behind what is being sent. Then wsock_recv() passes over what still comes until the
// peer has said it too, for WSOCK_CLOSE_MS. Harmless twice.
void wsock_close(struct wsock *ws, int code, const char *reason);
// The same from the loop, without a wait: whoever receives does it.
void wsock_shut(struct wsock *ws, int code, const char *reason);
bool wsock_is_open(const struct wsock *ws); // messages may still be sent

// A row of sockets that are to end together (struct http_terms).
void wsock_list(struct wsock *ws, struct link *all);
// Whose messages they are: see http/memory_quota.h.
void wsock_share(struct wsock *ws, struct fair_share *fair_share);
void wsock_shut_all(struct link *all, int code, const char *reason);
