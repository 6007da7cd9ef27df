// All boxes of this host. Every door calls here; `who` is asked about once, inside each verb,
// before anything is looked up.
#pragma once

#include "fleet/change.h"
#include "fleet/create.h"
#include "fleet/life.h"
#include "fleet/templates.h"
#include "fleet/use.h"

struct fleet_options {
	struct loop *loop;
	struct ask *ask;
	struct admit *admit;
	int tapes_dir; // borrowed, as are the three above
	uint32_t boxes_max;
	uint64_t output_max; // bytes: the largest outputMB that may be asked for
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

bool fleet_is_ready(const struct fleet *fleet);	   // could a box be made now?
uint64_t fleet_changes(const struct fleet *fleet); // counts all that befalls boxes, but not execs
const struct spec_bounds *fleet_bounds(const struct fleet *fleet);

struct fleet_view {
	size_t boxes, creating, failed;
	uint64_t created, lost;	       // since the start
	uint64_t execs;		       // running now
	const struct order_host *host; // NULL: no warden
	struct admit_view room;
};
struct fleet_view fleet_look(struct fleet *fleet);
