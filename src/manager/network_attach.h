// The way out of each box: what its record says of the network, made so. The room egress/ judges
// what passes; here it learns which boxes there are, by which sockets, under which policy.
#pragma once

#include "egress/egress.h"
#include "manager/table.h"
#include "types/who.h"

// A warden that begins anew has forgotten every way: they are opened again when it comes. Once,
// after the fleet's egress was set; never ends.
void attach_open(struct manager *manager);

// What a new box gets when its maker did not say, and whether its owner and this host allow what he
// said. FORBIDDEN network_not_allowed; NOT_OFFERED no_network. The host's word is known.
fallible attach_fit(const struct manager *manager, const struct account *account,
		    struct spec *spec);
// Secrets of a record, ready to be written down; and those of one that was. Neither waits.
fallible attach_seal(const struct entry *entry, struct policy *policy);
void attach_unseal(struct entry *entry);

// Its box has just come up, built or taken up over the warden's link of that number: it was asked
// for with a way, if the record wants one. `fresh`: it was just made. Waits. The caller holds it.
bool attach_is_wanted(const struct record *record);
fallible attach_take(struct entry *entry, uint32_t links, bool fresh);
// The same for a box that lives already: a way that fails is mended later, and its box lives on.
void attach_take_or_mend(struct entry *entry, uint32_t links);
// Makes it as the record says, if the box runs. Waits; the caller holds it. As box_net_set().
fallible attach_settle(struct entry *entry);
// The same, where nobody could be told: it is tried again.
void attach_mend(struct entry *entry);

// Another policy for a box that there is; `network` as in a PATCH. *out is what attach_change()
// takes over. INVALID as policy_read(), and as attach_fit().
fallible attach_read(const struct entry *entry, const struct json *network, struct policy **out);
void attach_change(struct entry *entry, struct policy **policy); // in force on return

// What passed so far. NOT_FOUND no_sandbox. Does not wait.
struct attach_view {
	char id[ID_BOX_LEN + 1];
	bool is_open;
	struct egress_counts counts; // zeroes where there was no way since this daemon began
};
fallible attach_look(struct manager *manager, const struct who *who, struct str key,
		     struct attach_view *out);
