// Daytona's settings of a sandbox's network, as a policy of cove.
#pragma once

#include "codec/json.h"
#include "types/policy.h"

#define NETWORK_LIST_MAX 10 // entries of each list

struct network_lists {
	struct str domains, addresses; // "a,*.b" and "192.0.2.0/24,…"; at == NULL: not given
	bool blocks;		       // networkBlockAll
	bool blocks_said;
};
// INVALID bad_field: a value that is no list, or too long a one.
fallible network_read(const struct json *body, struct network_lists *out);
// Writes the members "mode" and "allow" of a policy that allows the lists.
void network_put_lists(struct json_out *out, const struct network_lists *lists);
// Writes "network" of a create, if the lists ask for anything. An address without /BITS is a range
// of one address: Daytona's ranges hold for every port.
void network_put(struct json_out *out, const struct network_lists *lists);
// Adds a list of a policy: its domains and plain addresses, or its ranges.
void network_list(const struct policy *policy, bool addresses, struct buf *out);
