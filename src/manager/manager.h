// All boxes of this host, for every API. Each function authorises `who` once, before anything is
// looked up.
#pragma once

#include "manager/change.h"
#include "manager/create.h"
#include "manager/exec.h"
#include "manager/life.h"
#include "manager/pause.h"
#include "manager/templates.h"
#include "manager/usage.h"
#include "protocol/order.h"

#define MANAGER_QUEUE_WAIT_MS 2000
#define MANAGER_LOOPS_MAX (1u << 20) // the kernel's minor numbers

struct manager_options {
	struct loop *loop;
	struct ask *ask;
	struct admit *admit;
	struct store *store;   // NULL: nothing is kept
	struct egress *egress; // NULL: no box has a network
	const char *sockets;   // directory of the boxes' sockets
	int tapes_dir;	       // borrowed, as are those above
	uint32_t boxes_max;
	uint64_t output_max;   // bytes: the largest outputMB that may be asked for
	int64_t queue_wait_ms; // how long a create waits for room; 0: MANAGER_QUEUE_WAIT_MS
	uint32_t loops_max;    // loop devices that boxes may use; 0: as many as the kernel has
	bool rebooted; // the host may have been booted since an earlier daemon settled all boxes
};

struct manager *manager_new(const struct manager_options *options);
void manager_free(struct manager *manager); // after life_drain()

// Borrowed until the caller's next wait. NOT_FOUND no_sandbox.
fallible manager_get(struct manager *manager, const struct who *who, struct str key,
		     const struct record **out);

// A page of the list in order of creation: up to `max` boxes after `after` (0: from the first) that
// have all of `labels`. *out_last is where the next page starts; 0: there are no more. Does not
// wait; records are borrowed likewise.
fallible manager_page(struct manager *manager, const struct who *who, const struct env_map *labels,
		      uint64_t after, size_t max, const struct record **room, size_t *out_count,
		      uint64_t *out_last);

// Waits until all changes so far are durable.
fallible manager_flush(struct manager *manager);

bool manager_is_ready(const struct manager *manager); // could a box be made now?
uint64_t manager_changes(
	const struct manager *manager); // counts all changes of boxes, but not execs
const struct spec_bounds *manager_bounds(const struct manager *manager);
// When the tenant was created, wall clock: distinguishes two tenants of one name. 0: the
// operator's.
int64_t manager_tenant_since(struct manager *manager, const char *tenant);

struct manager_view {
	size_t boxes, creating, failed;
	uint64_t created, lost;	       // since the start
	uint64_t execs;		       // running now
	const struct order_host *host; // NULL: no warden
	struct admit_view room;
};
struct manager_view manager_look(struct manager *manager);
// The same for the boxes of `who`, without the host.
struct manager_view manager_look_own(struct manager *manager, const struct who *who);
