// Connections of the daemon itself, for tenants' requests to fetch or send. The name is resolved
// here, every address is checked, and exactly the checked address is connected to: no address of
// this host or its networks, unless the operator lists it.
#pragma once

#include "base/str.h"
#include "loop/stream.h"

struct trust;

struct outbound {
	struct str exceptions; // "ADDRESS[/BITS][:PORT], …"
	struct str hosts;      // "NAME=ADDRESS, …"
	struct str ca;	       // additional trusted certificates, PEM
	struct trust *trust;   // those and the host's own: egress/tls_stream.h
};

// FORBIDDEN not_global; BAD_PEER unknown_name, no_server; TIMEOUT. The caller closes *out.
fallible outbound_open(const struct outbound *outbound, struct loop *loop, struct str host,
		       uint16_t port, int64_t deadline, struct stream *out);
