// Uploads a part of a file by one PUT request over TLS, to a presigned URL.
#pragma once

#include "base/buf.h"
#include "egress/outbound.h"
#include "loop/stream.h"

struct trust; // egress/tls_stream.h

struct upload_put {
	const char *name; // name in the server's certificate; an address: numeric
	struct str host;  // the Host field, with a non-default port
	struct str target;
	int file;
	uint64_t offset, size;
};

// Connects, see outbound_open().
fallible upload_put_connect(const struct outbound *outbound, struct loop *loop, struct str host,
			    uint16_t port, int64_t deadline, struct stream *out);
// *out_status is the server's; `etag` its ETag, if any. BAD_PEER bad_tls, bad_reply, peer_gone;
// CONFLICT file_changed when the file is too short; TIMEOUT.
fallible upload_put_send(struct stream *stream, struct trust *trust, const struct upload_put *put,
			 int64_t silence_ms, int *out_status, struct buf *etag);
