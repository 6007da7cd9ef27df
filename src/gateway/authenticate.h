// The lock of every door: is the request meant for this host, and who sends it?
#pragma once

#include "base/secret.h"
#include "base/str.h"
#include "http/http.h"
#include "loop/loop.h"
#include "manager/keyring.h"
#include "types/who.h"

struct authenticate;

#define AUTHENTICATE_SPAN_S 10 // how long an address that guessed wrong is held up, at most

// A line of the log for whoever watches over attacks: what happened, how grave it is, and from
// where.
void authenticate_report(const struct http *x, const char *event, const char *severity);

struct authenticate_options {
	uint8_t key_hash[SECRET_HASH]; // SHA-256 of the operator's key
	struct str bound; // "127.0.0.1:8484,[::1]:8484": where we listen, with the real ports
	struct str names; // "cove.example,box.lan": names that may stand in Host with any port
};

// The rights of a local user who came by the Unix socket and sent no key.
struct authenticate_users {
	unsigned scopes; // bits of enum who_scope
	bool may_host;
	char tenant[WHO_TENANT_MAX + 1]; // of all of them; "": each has one of its own, "uid-1000"
};

struct authenticate *authenticate_new(struct loop *loop,
				      const struct authenticate_options *options);
void authenticate_free(struct authenticate *auth);
void authenticate_set_names(struct authenticate *auth, struct str names); // others from now on

void authenticate_set_users(struct authenticate *auth,
			    const struct authenticate_users *users); // likewise

// Host names this server and Origin, if any, is the same place. MISDIRECTED wrong_host, FORBIDDEN
// wrong_origin. Defends against DNS rebinding and against pages of other sites.
fallible authenticate_place(struct authenticate *auth, const struct http *x);

// The first half of that: for a place whose pages decide themselves who may call them.
fallible authenticate_host(const struct authenticate *auth, const struct http *x);

// Tenants' keys are known from then on, too. Borrowed.
void authenticate_trust(struct authenticate *auth, const struct keyring *ring);

// Whose bearer it is, or which local user sent none; NULL for none or a wrong one. Takes the same
// time for every token. It lives as long as the exchange.
const struct who *authenticate_who(const struct authenticate *auth, struct http *x);
const struct who *authenticate_token(const struct authenticate *auth, struct http *x,
				     struct str token); // one that came otherwise
// What to say to nobody: UNAUTHENTICATED no_token or bad_token, and EXHAUSTED too_many_failures to
// an address that guesses. A right token is never held up by another's guesses.
fallible authenticate_strike(struct authenticate *auth, const struct http *x);
// The same for a wrong credential in the path, or in the query.
fallible authenticate_strike_path(struct authenticate *auth, const struct http *x);
// Likewise for a preview's token, told in the words of one that is exposed nowhere.
fallible authenticate_strike_preview(struct authenticate *auth, const struct http *x);
fallible authenticate_strike_query(struct authenticate *auth, const struct http *x);
