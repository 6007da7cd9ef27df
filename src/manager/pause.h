// The states of a box: running, frozen, stopped with its files; and back. By request, or by
// idleness (manager/idle.h). One step at a time per box; others wait.
#pragma once

#include "manager/table.h"
#include "types/who.h"

// By request. OK when the box is already in that state; the record is borrowed until the caller's
// next wait. NOT_FOUND no_sandbox; GONE box_lost, box_deleted; CONFLICT not_running (pause of a
// stopped box), ephemeral (stop of a box that keeps no files); EXHAUSTED quota, host_…
fallible pause_box(struct manager *manager, const struct who *who, struct str key,
		   const struct record **out); // until it is resumed: requests are CONFLICT paused
fallible pause_resume(struct manager *manager, const struct who *who, struct str key,
		      const struct record **out);
fallible pause_stop(struct manager *manager, const struct who *who, struct str key,
		    const struct record **out);
fallible pause_start(struct manager *manager, const struct who *who, struct str key,
		     const struct record **out);

// Makes a frozen or stopped box run, for a request that holds the entry. CONFLICT paused;
// UNAVAILABLE box_starting; GONE box_lost, box_deleted.
fallible pause_wake(struct entry *entry);
// One step down, if the box is still idle: running becomes frozen, frozen becomes stopped.
fallible pause_step_down(struct entry *entry);
