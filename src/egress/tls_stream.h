// TLS over a stream, as client or server, for two tasks at once: a reader and a writer. Handshakes,
// which a peer's certificates can make long, run in workers; the rest on the loop's own stack,
// since task stacks are small.
#pragma once

#include <openssl/ssl.h>

#include "base/str.h"
#include "loop/stream.h"

struct tls_stream;

// CAs that a client trusts: the host's and `more` (PEM). Read by a worker at the first use.
// INTERNAL.
struct trust;
struct trust *trust_new(struct str more);
void trust_free(struct trust *trust); // takes NULL

// The stream is borrowed. BAD_PEER bad_tls with the cause; TIMEOUT. ALPN offers HTTP/1.1 alone. The
// server's certificate must be for `name` (an address: numeric).
fallible tls_stream_connect(struct stream *stream, struct trust *trust, const char *name,
			    int64_t silence_ms, struct tls_stream **out);
// `context` has certificate and key, and is borrowed for the handshake.
fallible tls_stream_accept(struct stream *stream, SSL_CTX *context, int64_t silence_ms,
			   struct tls_stream **out);
void tls_stream_free(struct tls_stream *tls); // takes NULL
static inline void auto_tls_stream_(struct tls_stream **tls)
{
	tls_stream_free(*tls);
}
#define auto_tls_stream on_exit_call(auto_tls_stream_) struct tls_stream *

// At least one byte, or *out = 0 at the end, with a close_notify of the peer or without
// (tls_stream_is_cut()).
fallible tls_stream_read(struct tls_stream *tls, void *room, size_t size, int64_t deadline,
			 size_t *out);
// True if the peer closed without a close_notify: bytes may be missing.
bool tls_stream_is_cut(const struct tls_stream *tls);
fallible tls_stream_write(struct tls_stream *tls, const void *bytes, size_t len,
			  int64_t silence_ms);
// Sends our close_notify, without waiting for the peer's.
fallible tls_stream_end(struct tls_stream *tls, int64_t silence_ms);
