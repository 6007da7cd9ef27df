// The seam over this host's fleet: a conversation's sandbox is a box whose id was derived, a runner
// is a process of it with a dialogue.
#pragma once

#include "conv/seam.h"
#include "fleet/fleet.h"
#include "model/limits.h"

// The id of a session's terminal in its sandbox is the name of its directories there.
struct site_options {
	struct fleet *fleet;
	int data;			      // a directory of the host's file system; borrowed
	struct limits classes[OWNER_CLASSES]; // of each size class
	char template[ORDER_TEMPLATE_MAX];    // "": the default
	char boot[LEASE_BOOT_LEN + 1];	      // "": not known
};

struct site;
struct site *site_new(const struct site_options *options);
void site_free(struct site *site);
// For sandboxes that are made from now on.
void site_set_classes(struct site *site, const struct limits classes[OWNER_CLASSES]);
const struct seam *site_seam(const struct site *site); // borrowed

// "cpus=4 memory=12G disk=20G max=100": what a class gives; what is absent stays. INVALID
// bad_config.
fallible site_read_class(struct str text, struct limits *limits, uint64_t *max);
