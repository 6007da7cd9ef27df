// The route table of Cloudflare's own protocols: WebSocket and capnweb transports of one sandbox,
// and the bridge under /v1/sandbox with its health and pool routes and docs/openapi.json. The pool
// routes report no warm boxes: cove has no pool that a client could size.
#include "cloudflare/bridge.h"

#include "cloudflare/handlers.h"
#include "gateway/gateway.h"

static fallible bridge_health(struct http *x)
{
	bool ready = manager_is_ready(gateway_of(x)->manager);

	return http_reply(
		x, ready ? 200 : 503, NULL,
		ready ? STR("{\"ok\":true}")
		      : STR("{\"ok\":false,\"errors\":[\"no sandbox can be made now\"]}"));
}

// There is no warm pool: a sandbox is made in milliseconds when needed.
static fallible pool_stats(struct http *x)
{
	struct manager_view view = manager_look_own(gateway_of(x)->manager,
						    gateway_who(x)); // never another tenant's
	auto_buf body = BUF_INIT(1024);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_int(&out, "warm", 0);
	json_put_int(&out, "assigned", (int64_t)view.boxes);
	json_put_int(&out, "total", (int64_t)view.boxes);
	json_key(&out, "config");
	json_add_raw(&out, STR("{\"warmTarget\":0,\"refreshInterval\":0}"));
	json_key(&out, "maxInstances");
	json_add_null(&out);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

static fallible pool_nothing(struct http *x)
{
	return http_reply(x, 200, NULL, STR("{\"ok\":true}"));
}

// docs/openapi.json, embedded by the build.
extern const char openapi_start[], openapi_end[];

// ROUTE_OPEN, because a browser may send the key in the query: checked here. A wrong key counts as
// a failure of its address.
static fallible bridge_openapi(struct http *x)
{
	struct authenticate *auth = gateway_of(x)->auth;
	struct str token = http_query(x, "token");
	struct str text = {openapi_start, (size_t)(openapi_end - openapi_start)};

	if (!x->principal && !authenticate_token(auth, x, token))
		return token.at ? authenticate_fail_query(auth, x) : authenticate_fail(auth, x);
	return http_reply(x, 200, NULL, text);
}

#define BOX "/v1/sandboxes/{id}"
#define SANDBOX "/v1/sandbox/{id}"

// clang-format off
const struct route cloudflare_routes[] = {
	{"GET",    BOX "/ws",                       cloudflare_ws,               0,            "WebSocket: requests to the routes of one sandbox, multiplexed"},
	{"GET",    BOX "/api/ws",                   cloudflare_ws,               0,            "WebSocket: the same as /ws"},
	{"GET",    BOX "/rpc",                      cloudflare_rpc,              0,            "WebSocket: remote calls by capnweb"},
	{"GET",    "/health",                   bridge_health,              ROUTE_OPEN,   "bridge: health of the service"},
	{"POST",   "/v1/sandbox",               cloudflare_sandbox_new,     0,            "bridge: make an id for a sandbox; the first use makes the sandbox"},
	{"DELETE", SANDBOX,                        cloudflare_sandbox_end,     0,            "bridge: delete a sandbox, if there is one"},
	{"GET",    SANDBOX "/running",             cloudflare_sandbox_running, 0,            "bridge: whether the sandbox runs"},
	{"POST",   SANDBOX "/exec",                bridge_exec,         0,            "bridge: run a command and stream output as events in base64"},
	{"GET",    SANDBOX "/file/{path*}",        bridge_file_read,    0,            "bridge: read a file of the workspace"},
	{"PUT",    SANDBOX "/file/{path*}",        bridge_file_write,   ROUTE_STREAM, "bridge: write a file of the workspace"},
	{"POST",   SANDBOX "/session",             cloudflare_sandbox_session, 0,            "bridge: make a session"},
	{"DELETE", SANDBOX "/session/{session}",   cloudflare_sandbox_session_end, 0,        "bridge: delete a session"},
	{"GET",    SANDBOX "/pty",                 cloudflare_sandbox_pty,     0,            "bridge: WebSocket: a terminal"},
	{"POST",   SANDBOX "/persist",             bridge_file_persist, 0,            "bridge: pack the workspace as a tar"},
	{"POST",   SANDBOX "/hydrate",             bridge_file_hydrate, ROUTE_STREAM, "bridge: unpack a tar into the workspace"},
	{"POST",   SANDBOX "/mount",               cloudflare_sandbox_mount,   0,            "bridge: not offered: buckets as directories"},
	{"POST",   SANDBOX "/unmount",             cloudflare_sandbox_unmount, 0,            "bridge: not offered: buckets as directories"},
	{"POST",   SANDBOX "/tunnel/{port}",       cloudflare_sandbox_tunnel,  0,            "bridge: not offered: tunnels"},
	{"DELETE", SANDBOX "/tunnel/{port}",       cloudflare_sandbox_tunnel,  0,            "bridge: not offered: tunnels"},
	{"GET",    "/v1/pool/stats",            pool_stats,          0,            "bridge: the warm pool, which is empty"},
	{"POST",   "/v1/pool/prime",            pool_nothing,        0,            "bridge: nothing to prime"},
	{"POST",   "/v1/pool/shutdown-prewarmed", pool_nothing,      0,            "bridge: nothing to shut down"},
	{"GET",    "/v1/openapi.json",          bridge_openapi,        ROUTE_OPEN,   "this API as OpenAPI"},
	{0},
};
// clang-format on
