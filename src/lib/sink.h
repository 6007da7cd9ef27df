// The destination of output: the caller's functions, or two buffers.
#pragma once

#include "lib/private.h"

#define SINK_MAX ((size_t)512 << 20)

// CANCELLED when the caller wants no more.
fallible sink_put(const struct cove_sink *sink, bool is_stderr, struct str bytes);

struct sink_both {
	struct buf out, err;
};
#define SINK_BOTH                                                                                  \
	{                                                                                          \
		BUF_INIT(SINK_MAX), BUF_INIT(SINK_MAX)                                             \
	}
struct cove_sink sink_to_both(struct sink_both *both);
void sink_output(struct sink_both *both, const struct cove_result *result, struct cove_output *out);
// The whole output in an answer of the server, whose encoding applies to both streams.
fallible sink_answer(const struct json *answer, struct cove_output *out);
void sink_both_done(struct sink_both *both);
