// The daemon's own way out, for what a tenant asks it to fetch or send. The name is looked up here,
// every address it has is judged, and the one that was judged is the one that is connected to: no
// address of this host or of its own networks, unless the operator lists it.
#pragma once

#include "base/str.h"
#include "loop/stream.h"

struct trust;

struct outbound {
	struct str exceptions; // "ADDRESS[/BITS][:PORT], …"
	struct str hosts;      // "NAME=ADDRESS, …"
	struct str ca;	       // more certificates to believe, PEM
	struct trust *trust;   // … with those of the host: egress/tls_stream.h
};

// FORBIDDEN not_global; BAD_PEER unknown_name, no_server; TIMEOUT. The caller closes *out.
fallible outbound_open(const struct outbound *outward, struct loop *loop, struct str host,
		       uint16_t port, int64_t deadline, struct stream *out);
