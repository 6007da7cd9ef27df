// TLS as a client, over a stream. The work of it is done by workers, never on the small stack of a
// task: ciphers, and what a stranger's certificate makes the library do.
#pragma once

#include "base/str.h"
#include "loop/stream.h"

struct tls;

// Greets the server behind `stream`, which is borrowed, and believes it when a certificate that the
// host trusts, or one in `more` (PEM; empty: none), says that it is `name` (an address: numeric).
// BAD_PEER bad_tls, with what is wrong; TIMEOUT.
fallible tls_open(struct stream *stream, const char *name, struct str more, int64_t silence_ms,
		  struct tls **out);
void tls_free(struct tls *tls); // takes NULL
static inline void auto_tls_(struct tls **tls)
{
	tls_free(*tls);
}
#define auto_tls on_exit_call(auto_tls_) struct tls *

fallible tls_write(struct tls *tls, struct str bytes, int64_t silence_ms);
// `len` bytes of a file from `offset` on. CONFLICT file_changed when it ends before.
fallible tls_send(struct tls *tls, int file, uint64_t offset, uint64_t len, int64_t silence_ms);
// At least one byte; *out = 0 at the end.
fallible tls_read(struct tls *tls, void *room, size_t size, int64_t silence_ms, size_t *out);
