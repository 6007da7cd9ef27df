#include "cloudflare/openapi.h"

#include "gateway/gateway.h"

// docs/openapi.json, put here by the build.
extern const char openapi_start[], openapi_end[];

// ROUTE_OPEN, because the key may come in the query as well.
fallible cloudflare_openapi(struct http *x)
{
	struct authenticate *auth = gateway_of(x)->auth;
	struct str token = http_query(x, "token");
	struct str text = {openapi_start, (size_t)(openapi_end - openapi_start)};

	if (!x->principal && !authenticate_token(auth, x, token))
		return token.at ? authenticate_fail_query(auth, x) : authenticate_fail(auth, x);
	return http_reply(x, 200, NULL, text);
}
