// All boxes of this host. Every door calls here; `who` is asked about once, inside each verb,
// before anything is looked up.
#pragma once

#include "fleet/change.h"
#include "fleet/create.h"
#include "fleet/life.h"
#include "fleet/pause.h"
#include "fleet/templates.h"
#include "fleet/use.h"

#define FLEET_QUEUE_WAIT_MS 2000
#define FLEET_LOOPS_MAX (1u << 20) // the kernel's minor numbers

struct fleet_options {
	struct loop *loop;
	struct ask *ask;
	struct admit *admit;
	struct store *store;   // NULL: nothing is kept
	struct egress *egress; // NULL: no box has a network
	const char *sockets;   // directory of the boxes' sockets
	int tapes_dir;	       // borrowed, as are those above
	uint32_t boxes_max;
	uint64_t output_max;   // bytes: the largest outputMB that may be asked for
	int64_t queue_wait_ms; // how long a create waits for room; 0: FLEET_QUEUE_WAIT_MS
	uint32_t loops_max;    // loop devices that boxes may use; 0: as many as the kernel has
	bool rebooted;	       // the host may have been booted since an earlier daemon settled
};

struct fleet *fleet_new(const struct fleet_options *options);
void fleet_free(struct fleet *fleet); // after life_drain()

// Borrowed until the caller's next wait. NOT_FOUND no_sandbox.
fallible fleet_get(struct fleet *fleet, const struct who *who, struct str key,
		   const struct record **out);

// A page of the list, in order of creation: up to `max` boxes behind `after` (0: from the first)
// that have all of `labels`. *out_last is what to go on from; 0: there are no more. Does not wait;
// borrowed likewise.
fallible fleet_page(struct fleet *fleet, const struct who *who, const struct pairs *labels,
		    uint64_t after, size_t max, const struct record **room, size_t *out_count,
		    uint64_t *out_last);

// Waits until all that has happened is durable.
fallible fleet_flush(struct fleet *fleet);

bool fleet_is_ready(const struct fleet *fleet);	   // could a box be made now?
uint64_t fleet_changes(const struct fleet *fleet); // counts all that befalls boxes, but not execs
const struct spec_bounds *fleet_bounds(const struct fleet *fleet);
// When the tenant was made, wall clock: another of its name is another. 0: the operator's own.
int64_t fleet_tenant_since(struct fleet *fleet, const char *tenant);

struct fleet_view {
	size_t boxes, creating, failed;
	uint64_t created, lost;	       // since the start
	uint64_t execs;		       // running now
	const struct order_host *host; // NULL: no warden
	struct admit_view room;
};
struct fleet_view fleet_look(struct fleet *fleet);
// The same of what is theirs, and nothing of the host.
struct fleet_view fleet_look_own(struct fleet *fleet, const struct who *who);
