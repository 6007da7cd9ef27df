// One table: method, path pattern, handler. Patterns are literal segments and {names}:
// "/v1/sandboxes/{id}/api/execute". A {name*} at the end matches the rest of the path, slashes
// included; the value of {name/} may have slashes that are sent as %2F.
#pragma once

#include "http/http.h"

enum route_flags {
	ROUTE_OPEN = 1,	    // needs no authentication
	ROUTE_AUDITED = 4,  // changes the host's state: always has an audit row with its outcome
	ROUTE_READONLY = 8, // changes nothing, whatever its method: counted in the audit log
	ROUTE_STREAM = 2,   // body of any length: the handler reads it in pieces
};

typedef fallible route_fn(struct http *x);

struct route {
	const char *method, *pattern; // method "*": any
	route_fn *handle;
	unsigned flags;
	const char *what; // one line, for the API's documentation
};

// Finds the row of a request; fills x->params. NOT_FOUND no_route; BAD_METHOD with the allowed
// methods in the hint. `table` ends with a row whose method is NULL.
fallible router_find(const struct route *table, struct http *x, const struct route **out);

// Concatenates several tables, in order; the list ends with NULL. The caller frees the result.
const struct route *router_join(const struct route *const *tables);
