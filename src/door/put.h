// One PUT of a part of a file, over TLS: what a presigned URL takes.
#pragma once

#include "base/buf.h"
#include "door/tls.h"

struct put {
	struct str host; // for the Host field, with a port that is not the usual one
	struct str target;
	int file;
	uint64_t offset, size;
};

// *out_status is the server's; `etag` its ETag, if it sent one. BAD_PEER bad_reply, peer_gone; what
// tls_send() says.
fallible put_send(struct tls *tls, const struct put *put, int64_t silence_ms, int *out_status,
		  struct buf *etag);
