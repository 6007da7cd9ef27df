// A WebSocket on a connection, for tasks: one task receives, any number send. The receiver answers
// and sends pings, so one should always be receiving.
#pragma once

#include "base/map.h"
#include "codec/ws.h"
#include "http/body_reader.h"
#include "loop/stream.h"

#define WSOCK_MAX (32u << 20) // default limit of a message in bytes
#define WSOCK_PING_MS 15000
#define WSOCK_CLOSE_MS 2000 // for the peer's close frame

struct wsock;
struct fair_share;

struct wsock_options {
	size_t max;	     // limit of a received message; 0: WSOCK_MAX
	uint32_t silence_ms; // longest wait of a write for the reader; 0: 30 s
	uint32_t ping_ms;    // 0: WSOCK_PING_MS
	bool speaks_first;   // upgrade_run(): the 101 may be sent together with the first message
};

// Reference-counted: it may outlive the stream under it. `stream` and the buffered bytes of
// `body_reader` are borrowed until wsock_end().
struct wsock *wsock_new(struct stream *stream, struct body_reader *body_reader, bool is_server,
			const struct wsock_options *options);
void wsock_ref(struct wsock *ws);
void wsock_unref(struct wsock *ws);
// Gives up the stream. Senders are aborted and waited for, even in a cancelled task.
void wsock_end(struct wsock *ws);

enum wsock_kind { WSOCK_CLOSED, WSOCK_TEXT, WSOCK_BINARY };

struct wsock_message {
	enum wsock_kind kind;
	struct str body; // until the next call; CLOSED: the reason
	int code; // CLOSED: the peer's code, ours when we closed first, WS_ABNORMAL without any
};

// Receives the next message. A peer that violates the protocol, or is silent for two pings, is
// closed. TIMEOUT: nothing came until the deadline, and nothing is lost. CANCELLED.
fallible wsock_recv(struct wsock *ws, int64_t deadline, struct wsock_message *out);

// Sends a complete message, after those of other senders. SLOW_CLIENT slow_client, CANCELLED
// client_gone: the socket is unusable.
fallible wsock_send(struct wsock *ws, enum wsock_kind kind, struct str body);
// The same in pieces. Between begin and finish other senders wait, so pieces should come soon;
// without finish the socket is lost.
fallible wsock_begin(struct wsock *ws, enum wsock_kind kind);
fallible wsock_piece(struct wsock *ws, struct str body);
fallible wsock_finish(struct wsock *ws);
void wsock_abort(struct wsock *ws); // instead of finish

// Sends a close frame after the current message. Then wsock_recv() discards input until the peer's
// close frame, for at most WSOCK_CLOSE_MS. A second call has no effect.
void wsock_close(struct wsock *ws, int code, const char *reason);
// The same from the loop, without a wait: the receiver does it.
void wsock_shut(struct wsock *ws, int code, const char *reason);
bool wsock_is_open(const struct wsock *ws); // messages can still be sent

// Adds it to a list of sockets that are closed together (struct http_terms).
void wsock_list(struct wsock *ws, struct link *all);
// The account that its messages are charged to: see http/memory_quota.h.
void wsock_share(struct wsock *ws, struct fair_share *fair_share);
void wsock_shut_all(struct link *all, int code, const char *reason);
