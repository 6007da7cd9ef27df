// One side of a followed connection: a stream, or TLS over it.
#pragma once

#include "egress/tls_stream.h"
#include "loop/stream.h"

struct half {
	struct stream *stream;
	struct tls_stream *tls; // NULL: plain
};

static inline fallible half_read(struct half *half, void *room, size_t size, int64_t deadline,
				 size_t *out)
{
	return half->tls ? tls_stream_read(half->tls, room, size, deadline, out)
			 : stream_read(half->stream, room, size, deadline, out);
}

static inline fallible half_write(struct half *half, const void *bytes, size_t len,
				  int64_t silence_ms)
{
	return half->tls ? tls_stream_write(half->tls, bytes, len, silence_ms)
			 : stream_write(half->stream, bytes, len, silence_ms);
}
