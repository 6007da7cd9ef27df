// TLS over a stream, as client or as server, for two tasks at once: one that reads and one that
// writes. Greetings, which a stranger's certificates can make long, are done by workers; what
// follows is done on the loop's own stack, since those of tasks are small.
#pragma once

#include <openssl/ssl.h>

#include "base/str.h"
#include "loop/stream.h"

struct tls_stream;

// Certificates that a client believes: the host's certificates and `more` (PEM). Waits: read by a
// worker when it is first asked for. INTERNAL.
struct trust;
struct trust *trust_new(struct str more);
void trust_free(struct trust *trust); // takes NULL

// The stream is borrowed. BAD_PEER bad_tls with what is wrong; TIMEOUT. HTTP/1.1 is all that is
// offered. The server behind it has to prove that it is `name` (an address: numeric).
fallible tls_stream_connect(struct stream *stream, struct trust *trust, const char *name,
			    int64_t silence_ms, struct tls_stream **out);
// `context` has certificate and key, and is borrowed for the greeting.
fallible tls_stream_accept(struct stream *stream, SSL_CTX *context, int64_t silence_ms,
			   struct tls_stream **out);
void tls_stream_free(struct tls_stream *tls); // takes NULL
static inline void auto_tls_stream_(struct tls_stream **tls)
{
	tls_stream_free(*tls);
}
#define auto_tls_stream on_exit_call(auto_tls_stream_) struct tls_stream *

// At least one byte, or *out = 0 at the end: signed by the peer's close_notify, or not
// (tls_stream_is_cut()).
fallible tls_stream_read(struct tls_stream *tls, void *room, size_t size, int64_t deadline,
			 size_t *out);
// The peer closed the connection without a close_notify: bytes may be missing.
bool tls_stream_is_cut(const struct tls_stream *tls);
fallible tls_stream_write(struct tls_stream *tls, const void *bytes, size_t len,
			  int64_t silence_ms);
// The end of what we have to say, without waiting for the peer's.
fallible tls_stream_end(struct tls_stream *tls, int64_t silence_ms);
