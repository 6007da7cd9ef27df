// Serves docs/openapi.json, which the build embeds. The caller must be authenticated, by a header
// or, for browsers, by a key in the query; a wrong key counts as a failure of its address.
#include "cloudflare/handlers.h"
#include "gateway/gateway.h"

// docs/openapi.json, embedded by the build.
extern const char openapi_start[], openapi_end[];

// ROUTE_OPEN, because the key may be in the query too: checked here.
fallible cloudflare_openapi(struct http *x)
{
	struct authenticate *auth = gateway_of(x)->auth;
	struct str token = http_query(x, "token");
	struct str text = {openapi_start, (size_t)(openapi_end - openapi_start)};

	if (!x->principal && !authenticate_token(auth, x, token))
		return token.at ? authenticate_fail_query(auth, x) : authenticate_fail(auth, x);
	return http_reply(x, 200, NULL, text);
}
