// Authentication of a request: whether it is meant for this host, and who sends it.
#pragma once

#include "base/secret.h"
#include "base/str.h"
#include "gateway/web_sessions.h"
#include "http/http.h"
#include "loop/loop.h"
#include "manager/keyring.h"
#include "types/who.h"

struct authenticate;

#define WEB_PROTOCOL_BEARER "bearer." // before the token, among the subprotocols of a WebSocket

#define AUTHENTICATE_SPAN_S 10 // longest delay of an address that sent wrong tokens

// Writes a security event to the log: what happened, its severity, and the peer's address.
void authenticate_report(const struct http *x, const char *event, const char *severity);

struct authenticate_options {
	uint8_t key_hash[SECRET_HASH]; // SHA-256 of the operator's key
	struct str bound; // "127.0.0.1:8484,[::1]:8484": our listeners, with their real ports
	struct str names; // "cove.example,box.lan": names accepted in Host with any port
};

// The rights of a local user who connects to the Unix socket without a key.
struct authenticate_users {
	unsigned scopes; // bits of enum who_scope
	bool may_host;
	char tenant[WHO_TENANT_MAX +
		    1]; // tenant of all local users; "": each uid has its own, "uid-1000"
};

struct authenticate *authenticate_new(struct loop *loop,
				      const struct authenticate_options *options);
void authenticate_free(struct authenticate *auth);
void authenticate_set_names(struct authenticate *auth, struct str names); // replaces the names

void authenticate_set_users(struct authenticate *auth,
			    const struct authenticate_users *users); // replaces the rights

// Checks that Host names this server and that Origin, if any, is the same host. MISDIRECTED
// wrong_host, FORBIDDEN wrong_origin. Protects against DNS rebinding and cross-site requests.
fallible authenticate_origin(struct authenticate *auth, const struct http *x);

// Only the check of Host: for sites whose pages decide themselves who may call them.
fallible authenticate_host(const struct authenticate *auth, const struct http *x);

// Accepts tenants' keys and tokens of dashboard sessions from then on. Both borrowed.
void authenticate_trust(struct authenticate *auth, const struct keyring *ring,
			struct web_sessions *web);
// The first address of the listeners, "127.0.0.1:8484"; len 0: none.
struct str authenticate_bound(const struct authenticate *auth);

// The principal of the bearer token, or the local user without one; NULL for a missing or wrong
// token. Constant time for every token. Lives as long as the exchange.
const struct who *authenticate_who(const struct authenticate *auth, struct http *x);
const struct who *authenticate_token(const struct authenticate *auth, struct http *x,
				     struct str token); // a token from elsewhere
// The error for an unauthenticated request: UNAUTHENTICATED no_token or bad_token, and EXHAUSTED
// too_many_failures for an address that sent too many wrong tokens. A valid token is never delayed
// by failures of others.
fallible authenticate_fail(struct authenticate *auth, const struct http *x);
// The same for a wrong token in the path, or in the query.
fallible authenticate_fail_path(struct authenticate *auth, const struct http *x);
// The same for a preview's token, with the message of a port that is not exposed.
fallible authenticate_fail_preview(struct authenticate *auth, const struct http *x);
// The same for the code of a login link: UNAUTHENTICATED bad_code.
fallible authenticate_fail_code(struct authenticate *auth, const struct http *x);
fallible authenticate_fail_query(struct authenticate *auth, const struct http *x);
