// One exchange: a request and its one reply. Bodies are streams both ways, at the peer's pace:
// nothing is held whole unless the handler asks for it, within a limit.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "codec/http1.h"
#include "codec/url.h"
#include "http/memory_quota.h"

struct http_conn;      // the connection, of http/server
struct http_transport; // how bytes are moved, of http/transport
struct route;

#define HTTP_PARAMS_MAX 4

struct http {
	const struct http_transport *way;
	struct http_conn *conn; // NULL: none, see http/in_process.h
	struct arena *arena;	// freed after the reply
	struct http1_head head; // slices live as long as the exchange
	struct url url;
	struct str params[HTTP_PARAMS_MAX]; // of the route's pattern, percent-decoded, in order
	const struct route *route;
	char id[17];	       // request id; also the trace id unless the client gave one
	struct str trace;      // X-Trace-Id or traceparent of the client, else `id`
	struct str peer;       // the client's address, for the log
	int64_t uid;	       // of a client on a Unix socket, by SO_PEERCRED; -1: other sockets
	void *app;	       // the context of handlers, given to http_server_open()
	const void *principal; // the authenticated client, set by gateway/; NULL: none. http/ only
			       // zeroes it
	// Set by gateway/ for this exchange: called once, before the head of the reply is sent. May
	// wait.
	void (*answering)(struct http *x, void *arg);
	void *answering_arg;
	int status; // of the reply once it has begun, else 0
	uint64_t bytes_out;
	bool reply_begun, reply_ended;
	bool feed;	    // the reply is a stream that the client resumes after a disconnect
	struct buf *extra;  // header lines of http_set()
	size_t body_max;    // http_body(x, 0, …)
	uint64_t body_left; // unread bytes of a request body of known length
	struct str held;    // the whole body, when it is in memory; at == NULL: it is not
	struct memory_quota memory_quota; // memory charged for it
};

struct str http_field(const struct http *x, const char *name); // at == NULL: absent
// Whether a comma-separated list, as in Connection, has the token in any case.
bool http_has_token(struct str list, struct str token);
// A decoded query value in the exchange's arena; at == NULL: absent.
struct str http_query(struct http *x, const char *key);

// The body: all of it in the arena, NUL-terminated (TOO_LARGE body_too_large past `max`; 0: the
// server's body_max), or piece by piece (*out = 0 at its end). SLOW_CLIENT when 30 s pass between
// bytes; EXHAUSTED too_much_at_once (http/memory_quota.h).
fallible http_body(struct http *x, size_t max, struct str *out);
fallible http_read(struct http *x, void *room, size_t size, size_t *out);

// Sends a complete reply. `type` NULL: application/json. Content-Length is set; HEAD gets no body.
fallible http_reply(struct http *x, int status, const char *type, struct str body);
fallible http_reply_empty(struct http *x, int status); // 204, 202
// Sends JSON that was built in `body`. If it did not fit: UNAVAILABLE no_memory, and nothing is
// sent.
fallible http_reply_json(struct http *x, int status, const struct buf *body);
// Adds a header line to the reply ("Name", value without CR or LF).
void http_set(struct http *x, const char *name, struct str value);
bool http_is_set(const struct http *x, const char *name);

// A reply in pieces: chunked, or for HTTP/1.0 ended by close. http_write() waits for a slow reader.
// A reply of text/event-stream or application/x-ndjson is sent a comment or an empty line after
// each http_keepalive() of silence, between two events: proxies close silent connections.
fallible http_begin(struct http *x, int status, const char *type);
fallible http_write(struct http *x, const void *bytes, size_t len);
fallible http_end(struct http *x);
// The same in fewer packets: the head with the first bytes, the last bytes with the end.
fallible http_begin_with(struct http *x, int status, const char *type, struct str bytes);
fallible http_end_with(struct http *x, struct str bytes);
// The same with a known length: exactly `len` bytes must be written before http_end().
fallible http_begin_sized(struct http *x, int status, const char *type, uint64_t len);

// File bodies are moved by a worker thread, without passing through this process's memory where the
// kernel can. http_send_file() sends `len` bytes of `fd` from `offset` on, in a reply that has
// begun; CONFLICT file_changed when the file is shorter.
fallible http_send_file(struct http *x, int fd, uint64_t offset, uint64_t len);
// Copies the rest of the request's body to `fd`, at its position. TOO_LARGE body_too_large past
// `max` (before the first byte if the length is known), NO_SPACE no_space, SLOW_CLIENT, BAD_PEER
// cut_body: the bytes received so far are in the file.
fallible http_recv_file(struct http *x, int fd, uint64_t max, uint64_t *out_len);
// The length of the request's body if it was announced; else false.
bool http_length(const struct http *x, uint64_t *out);
// Allows long pauses of the reader (a pager, a pipe): writes wait for 15 minutes, not for the
// server's silence_ms.
void http_be_patient(struct http *x);
// Aborts a reply that has begun: its connection is reset, and data that the peer has not read is
// dropped. The caller cancels the handler.
void http_reset(struct http *x);

// A client that sent FIN may be gone, or may only have closed its sending half and still want its
// answer; TCP shows the difference only when something is sent. So it is sent `probe`, once, which
// must be meaningless to a client that reads on: a closed socket answers with RST.
#define HTTP_PROBE_HEAD STR("HTTP/1.1 100 Continue\r\n\r\n") // before a reply; not to HTTP/1.0
#define HTTP_PROBE_EVENT STR(":\n\n")			     // between two events of a stream
// Until http_back(), the handler waits for something else than its client: if the client is found
// gone, the task is cancelled. Without a probe, or with a client that vanished silently, TCP
// keep-alive finds out. CANCELLED client_gone when it is already known.
fallible http_away(struct http *x, struct str probe);
void http_back(struct http *x);
// The value of `call`, which waits, between http_away() and http_back(); or the error of
// http_away(), and `call` is not evaluated.
#define http_while_away(x, probe, call)                                                            \
	({                                                                                         \
		struct err *away_ = http_away(x, probe);                                           \
		if (!away_) {                                                                      \
			away_ = (call);                                                            \
			http_back(x);                                                              \
		}                                                                                  \
		away_;                                                                             \
	})
void http_keepalive(uint32_t ms); // for the whole process, before anything is served; default 15 s
// Bytes of the reply that the peer's kernel has acknowledged: progresses while a slow client reads.
uint64_t http_taken(struct http *x);
// Whether the peer is known to be gone, without waiting: for work that can be abandoned.
bool http_peer_gone(struct http *x, struct str probe);
// Called by the transport just before it sends the head of a reply.
void http_answering(struct http *x);
