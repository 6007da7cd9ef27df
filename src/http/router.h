// One table: method, path, handler. Patterns are literal segments and {names}:
// "/v1/sandboxes/{id}/api/execute". A {name*} at the end is the rest of the path, slashes and all.
#pragma once

#include "http/http.h"

enum route_flags {
	ROUTE_OPEN = 1,	    // needs no bearer
	ROUTE_AUDITED = 4,  // it changes the house: its row of the audit log says how it ended
	ROUTE_READONLY = 8, // it changes nothing, whatever its method: the audit log sums it up
	ROUTE_STREAM = 2,   // its request body may be of any length: the handler reads it in pieces
};

typedef fallible route_fn(struct http *x);

struct route {
	const char *method, *pattern; // method "*": any
	route_fn *handle;
	unsigned flags;
	const char *what; // one line, for the API's own documentation
};

// The row for a request; fills x->params. NOT_FOUND no_route; BAD_METHOD with the allowed ones in
// the hint. `table` ends with a row whose method is NULL.
fallible router_find(const struct route *table, struct http *x, const struct route **out);

// The tables of several rooms as one, in their order; the list ends with NULL. The caller frees it.
const struct route *router_join(const struct route *const *tables);
