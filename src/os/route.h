// A query of the kernel's routing table about one address, in the caller's network namespace. Needs
// no privilege and does not wait.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum route_kind {
	ROUTE_NONE,    // there is no route
	ROUTE_GATEWAY, // behind a router, and in no prefix of this host
	ROUTE_OWN, // an address of this host, a neighbour on one of its links, or in its prefixes
};

// `address` has 4 bytes, or 16 for IPv6, in network order. -1 with errno if the query failed; *out
// is untouched then.
int route_find(bool is_v6, const uint8_t *address, enum route_kind *out);
