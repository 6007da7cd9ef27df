// One exchange: a request that came, and the one reply that goes. Bodies are streams both ways,
// with the peer's own pace: nothing is held whole unless the handler asks for it, within a limit.
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

struct http_conn;      // the connection beneath, of http/server
struct http_transport; // how the bytes move, of http/transport
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
	char id[17];	  // request id; also the trace id unless the client gave one
	struct str trace; // X-Trace-Id or traceparent of the client, else `id`
	struct str peer;  // address of the client, for the log
	int64_t uid;	  // of a client on a Unix socket, as the kernel says; -1: of another
	void *app;	  // what the handlers serve: given to http_serve
	const void
		*principal; // who came, as the door found out; NULL: nobody. http/ only zeroes it
	// Of the door, for this exchange: called once, before the head of its reply goes. May wait.
	void (*answering)(struct http *x, void *arg);
	void *answering_arg;
	int status; // of the reply once it is begun, else 0
	uint64_t bytes_out;
	bool reply_begun, reply_ended;
	bool feed; // the reply follows something: cut off, the client comes back and goes on
	struct buf *extra;  // header lines of http_set
	size_t body_max;    // http_body(x, 0, …)
	uint64_t body_left; // of a request's body whose length is known
	struct str held;    // all of that body, when it is in memory; at == NULL: it is not
	struct memory_quota memory_quota; // what of it is in memory
};

struct str http_field(const struct http *x, const char *name); // at == NULL: absent
// A decoded query value in the exchange's arena; at == NULL: absent.
struct str http_query(struct http *x, const char *key);

// The body: all of it in the arena (TOO_LARGE body_too_large past `max`; 0: the server's body_max),
// with a NUL behind it, or piece by piece (*out = 0 at its end). SLOW_CLIENT when 30 s pass between
// bytes; EXHAUSTED too_much_at_once (http/memory_quota.h).
fallible http_body(struct http *x, size_t max, struct str *out);
fallible http_read(struct http *x, void *room, size_t size, size_t *out);

// A whole reply. `type` NULL: application/json. Content-Length is set; HEAD gets no body.
fallible http_reply(struct http *x, int status, const char *type, struct str body);
fallible http_reply_empty(struct http *x, int status); // 204, 202
// JSON that was built in `body`. One that did not fit is UNAVAILABLE no_memory, and nothing is
// sent.
fallible http_reply_json(struct http *x, int status, const struct buf *body);
// More header lines for the reply to come ("Name", value without CR or LF).
void http_set(struct http *x, const char *name, struct str value);

// A reply in pieces: chunked, or for HTTP/1.0 ended by close. http_write waits for a slow reader.
fallible http_begin(struct http *x, int status, const char *type);
fallible http_write(struct http *x, const void *bytes, size_t len);
fallible http_end(struct http *x);
// The same in fewer packets: the head with the first bytes, the last bytes with the end.
fallible http_begin_with(struct http *x, int status, const char *type, struct str bytes);
fallible http_end_with(struct http *x, struct str bytes);
// The same with the length known from the start: exactly `len` bytes are then due before
// http_end().
fallible http_begin_sized(struct http *x, int status, const char *type, uint64_t len);

// Bodies that are files, moved by a worker without passing through this process's memory where the
// kernel can. Part of a reply that was begun: `len` bytes of `fd` from `offset` on; CONFLICT
// file_changed when there are not so many.
fallible http_send_file(struct http *x, int fd, uint64_t offset, uint64_t len);
// The rest of the request's body to `fd`, at its position. TOO_LARGE body_too_large past `max`
// (known before the first byte when the length is), NO_SPACE no_space, SLOW_CLIENT, BAD_PEER
// cut_body: what came until then is in the file.
fallible http_recv_file(struct http *x, int fd, uint64_t max, uint64_t *out_len);
// The length of the request's body if it was announced; else false.
bool http_length(const struct http *x, uint64_t *out);
// This reply may be read slowly, with long pauses (a pager, a pipe): writes wait for 15 minutes,
// not for the server's silence_ms.
void http_be_patient(struct http *x);
// A reply that has begun is given up: its connection is reset, and what the peer has not read yet
// is dropped. The handler is cancelled by the caller.
void http_reset(struct http *x);

// A client that hangs up may be gone, or have closed its sending half only and still want its
// answer; TCP tells the two apart only when something is sent. So it is sent `probe`, once, which
// must mean nothing to a client that reads on: a socket that is gone answers with a reset.
#define HTTP_PROBE_HEAD STR("HTTP/1.1 100 Continue\r\n\r\n") // before a reply; not to HTTP/1.0
#define HTTP_PROBE_EVENT STR(":\n\n")			     // between two events of a stream
// Until http_back(), the handler waits for something else than its client: one that is found gone
// cancels the task. Without a probe, or with a client that vanished silently, keep-alive finds out.
// CANCELLED client_gone when it is already known. With HTTP_PROBE_EVENT the client is sent a
// comment line now and then (http_keepalive()), for those on the way that close silent connections.
fallible http_away(struct http *x, struct str probe);
void http_back(struct http *x);
void http_keepalive(uint32_t ms); // of the process, before anything is served; 15 s unless set
// Bytes of the reply that the peer has taken: it changes while a slow one reads.
uint64_t http_taken(struct http *x);
// True once the peer is known to be gone, asked without waiting: for work that nobody awaits.
bool http_peer_gone(struct http *x, struct str probe);
// For whoever sends the head of a reply, just before.
void http_answering(struct http *x);
