// The end of a box, by request or by loss.
#pragma once

#include "manager/table.h"
#include "types/who.h"

#define LIFE_DELETE_MS 30000

// Deletes a box. With LIFE_WAITS it returns once processes, cgroups, mounts and namespaces are
// verified gone; without, as soon as the delete is recorded. Concurrent callers wait for the same
// end. NOT_FOUND no_sandbox; CONFLICT unsynced (manager/unsynced.h), not with LIFE_FORCED. TIMEOUT
// stuck after LIFE_DELETE_MS: the task goes on retrying.
enum life_flag { LIFE_WAITS = 1, LIFE_FORCED = 2 };
fallible life_delete(struct manager *manager, const struct who *who, struct str key,
		     unsigned flags);

// The same with both flags, for a box whose end is in a durable record of its owner: that of the
// box only goes when the end is verified. The owner calls again after a crash.
fallible life_delete_owned(struct manager *manager, const struct who *who, struct str key);

// The callback of box_on_loss(), with the entry as argument: the box becomes failed, its remains
// are destroyed (without its files, unless it is ephemeral), and it stays visible until it is
// deleted.
void life_lost(struct box *box, void *arg);

// Destroys whatever exists of a box whose delete the store already has; removes the record when the
// end is verified.
void life_destroy(struct entry *entry);

// Kills the box's processes; it becomes stopped, or failed where it keeps no files. Its reason
// stays.
void life_stop(struct entry *entry);

// Stops all boxes and refuses creates; files stay, except of ephemeral boxes. Waits until nothing
// runs, or TIMEOUT.
fallible life_drain(struct manager *manager, int64_t deadline);

// NOT_FOUND no_sandbox. The message repeats the request's key if it can name a sandbox, and is the
