// Creates a box from a spec: it is ready for commands on success, fully undone on failure.
#pragma once

#include "manager/access.h"

// The order to the warden that builds the box, or builds it again.
struct order create_order(const struct record *record);

// Waits until the daemon knows which boxes exist and the warden is there, up to a bound: check
// again afterwards. CANCELLED only.
fallible create_await_start(struct manager *manager);

// A box whose create an earlier daemon began, once its state is known: running, failed or deleting,
// never creating. NOT_FOUND; UNAVAILABLE starting when that takes too long. *out is borrowed until
// the caller's next wait. Waits.
fallible create_find_made(struct manager *manager, const struct who *who, struct str id,
			  const struct record **out);

enum create_way {
	CREATE_NEW,    // CONFLICT name_taken if the name exists
	CREATE_OR_GET, // returns the existing box of that name, unless it has failed: then a new
		       // one
};

// What create_box() refuses whatever room there is: a template, image, network mode or secret that
// the caller may not have. Fills the spec in: its template gets the name that the warden has. Pulls
// its image. Waits. Errors of templates_resolve() and pull_fill(), FORBIDDEN network_not_allowed,
// INVALID no_secret …
fallible create_check(struct manager *manager, const struct create_grant *grant, struct spec *spec);

// Waits. Takes over the maps of the spec. *out_made is false when an existing box was found. *out
// is borrowed until the caller's next wait. EXHAUSTED when there is no room, UNAVAILABLE no_warden
// or draining, NOT_FOUND no_template, NO_SPACE …
fallible create_box(struct manager *manager, const struct create_grant *grant, struct spec *spec,
		    enum create_way way, const struct record **out, bool *out_made);
