// The context of all HTTP routes, and the steps that every request passes.
#pragma once

#include "base/clock.h"
#include "codec/json.h"
#include "egress/outbound.h"
#include "gateway/audit.h"
#include "gateway/authenticate.h"
#include "gateway/error_response.h"
#include "gateway/idempotency.h"
#include "gateway/path_token.h"
#include "gateway/urls.h"
#include "http/in_process.h"
#include "http/router.h"
#include "http/server.h"
#include "manager/access.h"
#include "manager/box_ref.h"
#include "manager/keyring.h"
#include "manager/manager.h"
#include "manager/sweep.h"

struct watch_state;
struct command_table;
struct agent_sessions;
struct monitor;
struct results;
struct executions;
struct host_settings;

struct gateway {
	struct loop *loop;
	struct manager *manager;
	struct authenticate *auth;
	struct keyring *ring;
	struct web_sessions *web; // who has signed in to the dashboard
	struct sweep *sweep;
	struct idempotency_keys *idempotency_keys;
	struct audit_log *audit;
	struct agent_sessions *agents; // of agent/; NULL: its state cannot be read
	struct monitor *monitor;       // of monitor/
	struct results *results;       // of agent/: logs and artifacts of executions
	struct executions *executions; // of execution/; NULL: likewise
	struct outbound outbound;      // addresses that the daemon itself may connect to
	struct shares *shares;	       // of connections and memory, by tenant
	struct link running;	       // running requests whose key can be revoked
	struct link feeds;	       // of api/live
	struct http_server *server;    // for its counters
	const struct route *routes;
	// host_settings_look() of os/, which handlers cannot call, and what it looks at.
	void (*look_at_host)(const struct host_settings *settings,
			     void (*each)(void *arg, const char *what, const char *fix), void *arg);
	const struct host_settings *host_settings;
	const char *version;
	struct watch_state *watches;	     // of toolbox/watch_state.c, made at first use
	struct command_table *commands;	     // of daytona/commands.c, likewise
	uint8_t path_token_key[SECRET_HASH]; // for gateway/path_token.h
	uint8_t link_key[SECRET_HASH];	     // for signed links to previews
	struct urls urls;		     // of previews
	int64_t started_ms;		     // loop time
	struct {
		struct buf text;
		int64_t until;	  // loop time until which the text may be reused
		uint64_t changes; // the manager's change counter when it was written
		bool ready;
	} health; // the last answer of api/health to an authenticated client
};

// With `auth`, `ring` and `web` set: from now on the end of a key or a dashboard session cancels
// its running requests.
void gateway_open(struct gateway *gateway);
// For http_server_open(), with a struct gateway as the app.
void gateway_serve(struct http *x);
void gateway_refuse(struct http *x, struct err *err);
// For in_process_ask.serve: x->principal is already set, and its rights apply.
void gateway_inner(struct http *x);
// Starts a request on behalf of the client of `x`.
struct in_process_ask gateway_ask(const struct http *x, struct str method, struct str target);

static inline struct gateway *gateway_of(const struct http *x)
{
	return x->app;
}
// Names the object that the request is about to create, right before its record is written: for the
// audit log.
void gateway_begin(struct http *x, const char *target);
// The authenticated principal; NULL only on ROUTE_OPEN routes.
static inline const struct who *gateway_who(const struct http *x)
{
	return x->principal;
}

// The sandbox of the path, x->params[0], with the rights of the client: every route gets its
// sandbox by one of these. gateway_box(): see box_ref_begin(); gateway_look(): see box_ref_look().
fallible gateway_box(struct http *x, struct box_ref *out);
fallible gateway_look(struct http *x, struct box_ref *out);
// Its entry, in any state but STATE_DELETING, without waking it. FORBIDDEN not_allowed; NOT_FOUND
// no_sandbox. The caller drops the reference.
fallible gateway_entry(struct http *x, enum access what, struct entry **out);
// File operations as the sandbox's root, within `ms`.
struct files gateway_files(const struct http *x, const struct box_ref *ref, int64_t ms);

// ?key=true or false; *out is unchanged when it is absent. INVALID bad_field.
// "https://HOST": where the client sent the request, by Host and by X-Forwarded-Proto of a proxy
// that ends TLS. In the exchange's arena.
const char *gateway_origin(const struct http *x);
fallible gateway_flag(struct http *x, const char *key, bool *out);

// Server-sent events: the head of the reply; an event {"type": …}, whose members the caller adds;
// its end. gateway_send_event() ends the event, sends the buffer and clears it.
fallible gateway_begin_events(struct http *x);
struct json_out gateway_event(struct buf *event, const char *type);
void gateway_event_end(struct json_out *out);
fallible gateway_send_event(struct http *x, struct json_out *out);

// The last member of every answer inside a sandbox.
static inline void gateway_put_now(struct json_out *out)
{
	json_put_time(out, "timestamp", clock_wall_ms());
}
// {"success": true, … "timestamp": …}: gateway_success() opens it, gateway_answer() closes and
// sends it.
struct json_out gateway_success(struct buf *body);
fallible gateway_answer(struct http *x, struct json_out *out);

// The JSON body of the request, NULL when it is empty. INVALID bad_content_type, bad_json;
// TOO_LARGE. `out_text` may be NULL; it lives as long as the exchange. The caller owns *out.
fallible gateway_json(struct http *x, struct json **out, struct str *out_text);
// The same for a body that must be an object. INVALID bad_field. The caller owns *out in any case.
fallible gateway_object(struct http *x, struct json **out);
// INVALID bad_content_type: for a body that the handler parses itself.
fallible gateway_want_json(const struct http *x);
