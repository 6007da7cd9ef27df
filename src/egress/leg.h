// One side of a followed connection: a stream, or TLS over it.
#pragma once

#include "egress/sealed.h"
#include "loop/stream.h"

struct leg {
	struct stream *stream;
	struct sealed *sealed; // NULL: plain
};

static inline fallible leg_read(struct leg *leg, void *room, size_t size, int64_t deadline,
				size_t *out)
{
	return leg->sealed ? sealed_read(leg->sealed, room, size, deadline, out)
			   : stream_read(leg->stream, room, size, deadline, out);
}

static inline fallible leg_write(struct leg *leg, const void *bytes, size_t len, int64_t silence_ms)
{
	return leg->sealed ? sealed_write(leg->sealed, bytes, len, silence_ms)
			   : stream_write(leg->stream, bytes, len, silence_ms);
}
