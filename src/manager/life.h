// The end of a box: asked for, or suffered.
#pragma once

#include "manager/table.h"
#include "types/who.h"

#define LIFE_DELETE_MS 30000

// Ends a box. With `wait` it returns once processes, cgroups, mounts and namespaces are verified
// gone; without, as soon as the end is under way. Any number may ask at once: all wait for the same
// end. NOT_FOUND no_sandbox. TIMEOUT stuck after LIFE_DELETE_MS: it is tried again all the same.
fallible life_delete(struct manager *manager, const struct who *who, struct str key, bool wait);

// What box_on_loss() calls, with the entry: the box is failed, what is left of it is ended (but for
// its files, unless it is ephemeral), and it stays visible until it is deleted.
void life_lost(struct box *box, void *arg);

// Ends it without a word to the store, which knows: whatever there is of it, until that is verified
// gone; then its record goes.
void life_destroy(struct entry *entry);

// Ends its processes; it is stopped then, or failed where it keeps no files. Its reason stands.
void life_freeze(struct entry *entry);

// Ends what runs in all of them and lets no new one in; files stay, but of those that are
// ephemeral. Waits until nothing runs, or TIMEOUT.
fallible life_drain(struct manager *manager, int64_t deadline);

// NOT_FOUND no_sandbox. The message repeats what was asked for, if it can name a sandbox, and is
// the same for a sandbox of another tenant as for none.
fallible life_absent(struct str key);
