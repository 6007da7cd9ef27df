// A connection of the daemon to a sink, with or without TLS. Sinks are the operator's word: any
// address is allowed.
#pragma once

#include "egress/tls_stream.h"
#include "loop/stream.h"

#define REACH_MS 10000 // for all of one delivery

struct reach {
	struct stream stream;
	struct tls_stream *tls; // NULL: plain
	struct trust *trust;
	char name[254]; // of the host
	bool is_loopback;
	int64_t deadline; // of the delivery
};

// BAD_PEER unknown_name; UNAVAILABLE no_server; TIMEOUT. reach_close() in every case. `hosts` are
// names that the operator lists (gateway/outbound.h).
fallible reach_open(struct reach *reach, struct loop *loop, struct str hosts, struct str name,
		    uint16_t port);
// From now on by TLS. BAD_PEER bad_tls.
fallible reach_secure(struct reach *reach);
fallible reach_write(struct reach *reach, const void *bytes, size_t len);
fallible reach_read(struct reach *reach, void *room, size_t size, size_t *out);
void reach_close(struct reach *reach);
