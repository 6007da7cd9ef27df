// The ladder of a box: running, frozen, stopped with its files; and back. By request, or by
// idleness (manager/idle.h). One step at a time for each box; whoever comes meanwhile waits.
#pragma once

#include "manager/table.h"
#include "types/who.h"

// By request. All of them are OK when it is so already; the record is borrowed until the caller's
// next wait. NOT_FOUND no_sandbox; GONE box_lost, box_deleted; CONFLICT not_running (pause of a
// stopped one), ephemeral (stop of one that keeps no files); EXHAUSTED quota, host_…
fallible pause_box(struct manager *manager, const struct who *who, struct str key,
		   const struct record **out); // until it is resumed: requests are CONFLICT paused
fallible pause_resume(struct manager *manager, const struct who *who, struct str key,
		      const struct record **out);
fallible pause_stop(struct manager *manager, const struct who *who, struct str key,
		    const struct record **out);
fallible pause_start(struct manager *manager, const struct who *who, struct str key,
		     const struct record **out);

// For whoever wants to work in it, and holds it: frozen and stopped boxes run when this returns OK.
// CONFLICT paused; UNAVAILABLE box_starting; GONE box_lost, box_deleted.
fallible pause_wake(struct entry *entry);
// One step down, if nobody came meanwhile: running becomes frozen, frozen becomes stopped.
fallible pause_sink(struct entry *entry);
