// The states of a box: running, frozen, stopped with its files; and back. By request, or by
// idleness (manager/idle.h). One step at a time per box; others wait.
#pragma once

#include "manager/table.h"
#include "types/who.h"

// By request: `verb` is pause, resume, stop or start; a verb that is not in the table of pause.c is
// a mistake of ours. OK when the box is already in that state; the record is borrowed until the
// caller's next wait. A paused box stays so until it is resumed: requests are CONFLICT paused.
// NOT_FOUND no_sandbox; GONE box_lost, box_deleted; CONFLICT not_running (pause of a stopped box),
// ephemeral (stop of a box that keeps no files); EXHAUSTED quota, host_…
fallible pause_request(struct manager *manager, const struct who *who, struct str key,
		       const char *verb, const struct record **out);

// Waits for the step under way, then begins the caller's: no other runs until pause_release().
// GONE box_lost, box_deleted; TIMEOUT.
fallible pause_hold(struct entry *entry);
void pause_release(struct entry *entry);

// Makes a frozen or stopped box run, for a request that holds the entry. CONFLICT paused;
// UNAVAILABLE box_starting; GONE box_lost, box_deleted.
fallible pause_wake(struct entry *entry);
// A stopped sandbox, held by the caller, becomes archived; an archived one stays so. CONFLICT
// not_stopped; CANCELLED: the task was, and the sandbox is stopped.
fallible pause_archive(struct entry *entry);
// A budget that covers the box is used up: pauses it if it is idle, with the reason RECORD_BUDGET.
fallible pause_for_budget(struct entry *entry);
// The budget is not used up any more: what was paused for it goes on.
fallible pause_end_for_budget(struct entry *entry);
// Stops a box whatever it does; `why` becomes its reason.
fallible pause_stop(struct entry *entry, const char *why);
// One step down, if the box is still idle: running becomes frozen, frozen becomes stopped.
fallible pause_step_down(struct entry *entry);
