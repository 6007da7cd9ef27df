// One PUT of a part of a file, over TLS: what a presigned URL takes.
#pragma once

#include "base/buf.h"
#include "loop/stream.h"

struct trust; // egress/tls_stream.h

struct upload_put {
	const char *name; // that the server has to prove; an address: numeric
	struct str host;  // for the Host field, with a port that is not the usual one
	struct str target;
	int file;
	uint64_t offset, size;
};

// *out_status is the server's; `etag` its ETag, if it sent one. BAD_PEER bad_tls, bad_reply,
// peer_gone; CONFLICT file_changed when the file ends before; TIMEOUT.
fallible upload_put_send(struct stream *stream, struct trust *trust, const struct upload_put *put,
			 int64_t silence_ms, int *out_status, struct buf *etag);
