// Box records on their way to the store: an intent is durable before it is acted on, a result is
// written soon after. Without a store (NULL) nothing is kept.
#pragma once

#include "manager/exposed_ports.h"
#include "store/store.h"
#include "types/record.h"

// Durable on return. UNAVAILABLE state_unwritable, state_corrupt.
fallible persist_intent(struct store *store, const struct record *record);
// The same for the end of a box, with state deleting. Uses the store's reserve on a full disk.
fallible persist_end(struct store *store, const struct record *record);
// Does not wait.
void persist_tell(struct store *store, const struct record *record);
void persist_drop(struct store *store, const char *id);
// The exposed ports of a box, durable on return; and back, for each box that has any.
fallible persist_ports(struct store *store, const char *id, const struct exposed_ports *ports);
fallible persist_load_ports(struct store *store,
			    void (*each)(void *arg, struct str id, struct exposed_ports *ports),
			    void *arg);
