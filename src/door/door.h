// What every door has: the house behind it, the guard before it, and one way to serve a request.
#pragma once

#include "base/clock.h"
#include "door/fail.h"
#include "door/guard.h"
#include "door/ledger.h"
#include "door/outward.h"
#include "door/pass.h"
#include "door/pledge.h"
#include "door/urls.h"
#include "fleet/fleet.h"
#include "fleet/keyring.h"
#include "fleet/sweep.h"
#include "http/inner.h"
#include "http/router.h"
#include "http/server.h"
#include "wire/json.h"

struct memory;
struct convs;

struct door {
	struct loop *loop;
	struct fleet *fleet;
	struct guard *guard;
	struct keyring *ring;
	struct sweep *sweep;
	struct pledges *pledges;
	struct ledger *ledger;
	struct convs *convs;	    // of conv/; NULL: its state cannot be read
	struct outward outward;	    // where the daemon itself may go
	struct shares *shares;	    // of connections and memory, by tenant
	struct link present;	    // requests under way that came with a key which may be revoked
	struct http_server *server; // for its counters
	const struct route *routes;
	const char *version;
	struct memory *memory;	       // of inbox/memory, made there when first needed
	uint8_t pass_key[SECRET_HASH]; // of door/pass
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
void door_open(struct door *door);
// For http_server_open(), with a struct door as the house.
void door_serve(struct http *x);
void door_refuse(struct http *x, struct err *err);
// For inner_ask.serve: x->guest is set already, and may ask for what it may.
void door_inner(struct http *x);
// The beginning of a request that the client of `x` makes by way of another one.
struct inner_ask door_ask(const struct http *x, struct str method, struct str target);

static inline struct door *door_of(const struct http *x)
{
	return x->house;
}
// What the request is about to make, right before that is written down: for the audit log.
void door_begin(struct http *x, const char *target);
// Who came; NULL only on routes that are open to all.
static inline const struct who *door_who(const struct http *x)
{
	return x->guest;
}

// What every answer inside of a sandbox ends with.
static inline void door_put_now(struct json_out *out)
{
	json_put_time(out, "timestamp", clock_wall_ms());
}
// {"success": true, … "timestamp": …}: opens it, and closes and sends it.
struct json_out door_success(struct buf *body);
fallible door_answer(struct http *x, struct json_out *out);

// The JSON body of the request, NULL when it is empty. INVALID bad_content_type, bad_json;
// TOO_LARGE. `out_text` may be NULL; it lives as long as the exchange. The caller owns *out.
fallible door_json(struct http *x, struct json **out, struct str *out_text);
// INVALID bad_content_type: for a body that is read otherwise.
fallible door_want_json(const struct http *x);
