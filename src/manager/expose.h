// Exposes a port of a box: it gets a token that opens its preview, until it is withdrawn, the token
// expires or the box is destroyed. Durable before the caller is told.
#pragma once

#include "manager/table.h"

struct expose_ask {
	uint16_t port;
	struct str name;  // at == NULL: unchanged, or none
	struct str token; // at == NULL: unchanged, or a random one
	int64_t ends_ms;  // steady clock; 0: never; EXPOSE_AS_BEFORE
};
#define EXPOSE_AS_BEFORE (-1)

// The caller holds the entry. A port that is already exposed stays exposed and takes the changes;
// *out_new says which. The copy does not own a name: see exposed_ports_find(). INVALID bad_field;
// CONFLICT token_taken; EXHAUSTED too_many_ports; UNAVAILABLE state_unwritable.
fallible expose_port(struct entry *entry, const struct expose_ask *ask, bool *out_new,
		     struct exposed_ports_entry *out);
// *out_was: the port was exposed until now.
fallible expose_end(struct entry *entry, uint16_t port, bool *out_was);
