// From a spec to a box that can execute, or all undone.
#pragma once

#include "manager/table.h"
#include "types/who.h"

// What the warden is told to build it, or to build it again.
struct order create_order(const struct record *record);

// Whether they may make one at all: FORBIDDEN not_allowed.
fallible create_ask(const struct who *who);

// Until it is known after a start what there is, and the warden is there; not for ever, so ask
// again. CANCELLED only. Waits.
fallible create_await_start(struct manager *manager);

// A box that an earlier daemon began to make, once it is known whether there is one: running,
// failed or on its way out, never creating. NOT_FOUND; UNAVAILABLE starting when that takes too
// long, for until then nothing is promised. *out is borrowed until the caller's next wait. Waits.
fallible create_find_made(struct manager *manager, const struct who *who, struct str id,
			  const struct record **out);

enum create_way {
	CREATE_NEW,    // a name that is taken is CONFLICT name_taken
	CREATE_OR_GET, // a name that is taken is the answer, unless that box has failed: then anew
};

// Waits. Takes the spec's pairs over. *out_made is false when an existing box was found. *out is
// borrowed until the caller's next wait. EXHAUSTED when there is no room, UNAVAILABLE no_warden or
// draining, NOT_FOUND no_template, NO_SPACE …
fallible create_box(struct manager *manager, const struct who *who, struct spec *spec,
		    enum create_way way, const struct record **out, bool *out_made);
