// Attaches each box to the network as its record says. egress/ judges the traffic; this file tells
// it which boxes exist, with which sockets, under which policy.
#pragma once

#include "egress/egress.h"
#include "manager/table.h"
#include "types/who.h"

// Starts the reconciler, once, after the manager's egress was set. A new warden has no network
// attached: the reconciler attaches all again when it connects.
void attach_open(struct manager *manager);

// Sets the network of a new box to the default if its create gave none, and checks that tenant and
// host allow it. FORBIDDEN network_not_allowed; NOT_OFFERED no_network. The host report must be
// known.
fallible attach_fit(const struct manager *manager, const struct account *account,
		    struct spec *spec);
// Seals the secrets of a policy before it is stored; unseals those of a loaded record. Neither
// waits.
fallible attach_seal(const struct entry *entry, struct policy *policy);
void attach_unseal(struct entry *entry);

// After a box was built or adopted over the warden's connection of that number, with a network if
// the record wants one: hands its sockets to egress. `fresh`: the box is new. Waits. The caller
// holds the entry.
bool attach_is_wanted(const struct record *record);
// Descriptors that adopted boxes will open when their networks are attached. Zero where the limit
// on descriptors is far away.
uint64_t attach_owed(const struct manager *manager);
fallible attach_take(struct entry *entry, uint32_t links, bool fresh);
// The same for a box that already runs: a failure is retried later, and the box keeps running.
void attach_take_or_mend(struct entry *entry, uint32_t links);
// Makes the actual state match the record, if the box runs. Waits; the caller holds the entry.
// Errors as box_net_set().
fallible attach_settle(struct entry *entry);
// The same without a caller to report to: a failure is retried.
void attach_mend(struct entry *entry);

// Reads a changed policy; `network` as in a PATCH. *out is for attach_change(). INVALID as
// policy_read(), and errors as attach_fit().
fallible attach_read(const struct entry *entry, const struct json *network, struct policy **out);
void attach_change(struct entry *entry, struct policy **policy); // in force on return

// Traffic counts so far. NOT_FOUND no_sandbox. Does not wait.
struct attach_view {
	char id[ID_BOX_LEN + 1];
	bool is_open;
	struct egress_counts counts; // zeroes if the network was never attached under this daemon
};
fallible attach_look(struct manager *manager, const struct who *who, struct str key,
		     struct attach_view *out);
