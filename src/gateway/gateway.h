// What every door has: the house behind it, the guard before it, and one way to serve a request.
#pragma once

#include "base/clock.h"
#include "codec/json.h"
#include "gateway/audit.h"
#include "gateway/authenticate.h"
#include "gateway/error_response.h"
#include "gateway/idempotency.h"
#include "gateway/outbound.h"
#include "gateway/path_token.h"
#include "gateway/urls.h"
#include "http/in_process.h"
#include "http/router.h"
#include "http/server.h"
#include "manager/keyring.h"
#include "manager/manager.h"
#include "manager/sweep.h"

struct watch_state;
struct agent_sessions;

struct gateway {
	struct loop *loop;
	struct manager *manager;
	struct authenticate *guard;
	struct keyring *ring;
	struct sweep *sweep;
	struct idempotency_keys *idempotency_keys;
	struct audit_log *audit;
	struct agent_sessions *agents; // of conv/; NULL: its state cannot be read
	struct outbound outward;       // where the daemon itself may go
	struct shares *shares;	       // of connections and memory, by tenant
	struct link present;	    // requests under way that came with a key which may be revoked
	struct http_server *server; // for its counters
	const struct route *routes;
	const char *version;
	struct watch_state *memory;    // of toolbox/watch_state, made there when first needed
	uint8_t pass_key[SECRET_HASH]; // of gateway/path_token
	uint8_t link_key[SECRET_HASH]; // of signed links to previews
	struct urls urls;	       // of previews
	int64_t started_ms;	       // loop time
	struct {
		struct buf text;
		int64_t until;	  // loop time up to which it may be told again
		uint64_t changes; // of the fleet when it was written
		bool ready;
	} health; // the last answer of api/health to a keyholder
};

// With the guard and the ring in place: from now on a revoked key ends what it had open.
void gateway_open(struct gateway *gateway);
// For http_server_open(), with a struct door as the house.
void gateway_serve(struct http *x);
void gateway_refuse(struct http *x, struct err *err);
// For inner_ask.serve: x->guest is set already, and may ask for what it may.
void gateway_inner(struct http *x);
// The beginning of a request that the client of `x` makes by way of another one.
struct in_process_ask gateway_ask(const struct http *x, struct str method, struct str target);

static inline struct gateway *gateway_of(const struct http *x)
{
	return x->app;
}
// What the request is about to make, right before that is written down: for the audit log.
void gateway_begin(struct http *x, const char *target);
// Who came; NULL only on routes that are open to all.
static inline const struct who *gateway_who(const struct http *x)
{
	return x->principal;
}

// What every answer inside of a sandbox ends with.
static inline void gateway_put_now(struct json_out *out)
{
	json_put_time(out, "timestamp", clock_wall_ms());
}
// {"success": true, … "timestamp": …}: opens it, and closes and sends it.
struct json_out gateway_success(struct buf *body);
fallible gateway_answer(struct http *x, struct json_out *out);

// The JSON body of the request, NULL when it is empty. INVALID bad_content_type, bad_json;
// TOO_LARGE. `out_text` may be NULL; it lives as long as the exchange. The caller owns *out.
fallible gateway_json(struct http *x, struct json **out, struct str *out_text);
// INVALID bad_content_type: for a body that is read otherwise.
fallible gateway_want_json(const struct http *x);
