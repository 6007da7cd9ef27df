#include "bridge/about.h"

#include "door/door.h"

// docs/openapi.json, put here by the build.
extern const char openapi_start[], openapi_end[];

// ROUTE_OPEN, because the key may come in the query as well.
fallible bridge_about(struct http *x)
{
	struct guard *guard = door_of(x)->guard;
	struct str token = http_query(x, "token");
	struct str text = {openapi_start, (size_t)(openapi_end - openapi_start)};

	if (!x->guest && !guard_token(guard, x, token))
		return token.at ? guard_strike_query(guard, x) : guard_strike(guard, x);
	return http_reply(x, 200, NULL, text);
}
