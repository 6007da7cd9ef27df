// Checks Host, Origin and the bearer token, and counts failures by address. Tokens are compared by
// hash in constant time. A local user of the Unix socket is identified by SO_PEERCRED. Failures are
// kept in memory only, for AUTHENTICATE_SPAN_S.
#include "gateway/authenticate.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/weak.h"
#include "http/upgrade.h"
#include "types/event.h"

#define FAILURES_MAX 20
#define STRIKES_SPAN_MS (AUTHENTICATE_SPAN_S * 1000)
#define PEERS_MAX 4096
#define USERS_MAX 1024 // cached names of local users

struct peer {
	int64_t since;
	uint32_t failures;
};

struct authenticate {
	struct loop *loop;
	struct authenticate_options options; // strings owned
	const struct keyring *ring;	     // NULL: only the operator has a key
	struct web_sessions *web;	     // NULL: nobody signs in
	struct map *peers;
	struct authenticate_users users;
	struct map *names;	     // names of local users, by uid
	uint8_t nobody[SECRET_HASH]; // compared with when there is no token, to take the same time
};

struct authenticate *authenticate_new(struct loop *loop, const struct authenticate_options *options)
{
	struct authenticate *auth = mem_new_of(struct authenticate);

	auth->loop = loop;
	auth->options = *options;
	auth->options.bound.at = mem_dup(options->bound.at, options->bound.len);
	auth->options.names.at = mem_dup(options->names.at, options->names.len);
	auth->peers = map_new();
	auth->names = map_new();
	return auth;
}

void authenticate_set_names(struct authenticate *auth, struct str names)
{
	free((char *)auth->options.names.at);
	auth->options.names = (struct str){mem_dup(names.at, names.len), names.len};
}

static void forget_all(struct map **map)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(*map, &at, &key, &value);)
		free(value);
	map_free(*map);
	*map = NULL;
}

void authenticate_set_users(struct authenticate *auth, const struct authenticate_users *users)
{
	auth->users = *users;
	forget_all(&auth->names);
	auth->names = map_new();
}

void authenticate_free(struct authenticate *auth)
{
	if (!auth)
		return;
	forget_all(&auth->peers);
	forget_all(&auth->names);
	free((char *)auth->options.bound.at);
	free((char *)auth->options.names.at);
	free(auth);
}

// Splits "name:port", "[::1]:port", "name": the brackets stay with the host; the default port is
// 80.
static bool split_host(struct str text, struct str *host, uint64_t *port)
{
	size_t colon = text.len;

	*port = 80;
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] == ':')
			colon = i;
		else if (text.at[i] == ']')
			colon = text.len;
	*host = (struct str){text.at, colon};
	if (!host->len)
		return false;
	return colon == text.len || str_to_u64(str_skip(text, colon + 1), 1, 65535, port);
}

static bool is_loopback_name(struct str host)
{
	return str_eq_nocase(host, STR("localhost")) || str_is(host, "127.0.0.1") ||
	       str_is(host, "[::1]");
}

static bool authenticate_is_ours(const struct authenticate *auth, struct str text)
{
	struct str host, part, rest = auth->options.names;
	uint64_t port, bound_port;
	struct str bound;

	if (!split_host(text, &host, &port))
		return false;
	while (rest.len && str_cut(&rest, ',', &part))
		if (str_eq_nocase(str_trim(part), host))
			return true;
	rest = auth->options.bound;
	while (rest.len && str_cut(&rest, ',', &part)) {
		if (!split_host(str_trim(part), &bound, &bound_port) || bound_port != port)
			continue;
		if (str_eq_nocase(bound, host) || is_loopback_name(host))
			return true;
	}
	return false;
}

void authenticate_report(const struct http *x, const char *event, const char *severity)
{
	auto_free char *peer = mem_dup(x->peer.at, x->peer.len);

	log_event(LOG_WARN, "security", "event", event, "severity", severity, "who", peer, NULL);
	event_publish(EVENT_SECURITY, "event", event, "severity", severity, "who", peer, NULL);
}

// A Unix socket has no port: localhost with any port is accepted, as through an ssh tunnel.
static bool names_socket(const struct http *x, struct str text)
{
	struct str host;
	uint64_t port;

	return x->uid >= 0 && split_host(text, &host, &port) && is_loopback_name(host);
}

fallible authenticate_host(const struct authenticate *auth, const struct http *x)
{
	struct str host = http_field(x, "Host");

	if (weak(HOST) || (host.at && (authenticate_is_ours(auth, host) || names_socket(x, host))))
		return OK;
	authenticate_report(x, "wrong_host", "low");
	return err_hint(
		err_new(MISDIRECTED, "wrong_host", "this server does not answer to that host name"),
		"use the address it listens on, or add the name to 'hosts'");
}

static fallible wrong_origin(void)
{
	return err_new(FORBIDDEN, "wrong_origin", "requests from other sites are refused");
}

// Browsers say where a request comes from, also without Origin. A page of the dashboard may be the
// target of a link; everything else is for its own pages.
static bool is_foreign_fetch(const struct http *x)
{
	struct str site = http_field(x, "Sec-Fetch-Site"), path = x->url.path;

	if (str_is(http_field(x, "Service-Worker"), "script"))
		return true;
	if (str_is(path, "/") || str_is(path, "/ui") || str_starts(path, "/ui/"))
		return false;
	return str_is(site, "cross-site") || str_is(site, "same-site");
}

fallible authenticate_origin(struct authenticate *auth, const struct http *x)
{
	struct str origin = http_field(x, "Origin");

	TRY(authenticate_host(auth, x));
	if (weak(ORIGIN))
		return OK;
	if (is_foreign_fetch(x)) {
		authenticate_report(x, "wrong_origin", "medium");
		return wrong_origin();
	}
	if (!origin.at)
		return OK;
	if ((str_starts(origin, "http://") && authenticate_is_ours(auth, str_skip(origin, 7))) ||
	    (str_starts(origin, "https://") && authenticate_is_ours(auth, str_skip(origin, 8))))
		return OK;
	authenticate_report(x, "wrong_origin", "medium");
	return wrong_origin();
}

// A browser cannot send Authorization with a WebSocket, but names subprotocols: "cove.v1" and
// "bearer.TOKEN".
static struct str bearer_of(const struct http *x)
{
	struct str value = http_field(x, "Authorization"), word;

	if (value.len > 7 && str_eq_nocase((struct str){value.at, 7}, STR("Bearer ")))
		return str_trim(str_skip(value, 7));
	value = http_field(x, "Sec-WebSocket-Protocol");
	if (!http_has_token(value, STR(UPGRADE_PROTOCOL)))
		return (struct str){0};
	while (x->head.upgrade && value.len && str_cut(&value, ',', &word))
		if (str_starts(str_trim(word), WEB_PROTOCOL_BEARER))
			return str_skip(str_trim(word), strlen(WEB_PROTOCOL_BEARER));
	return (struct str){0};
}

// The token is for cove alone: a server in a sandbox to which the request is passed on must not see
// it.
static void authenticate_hide_token(struct http *x)
{
	for (size_t i = 0; i < x->head.field_count; i++) {
		struct http1_field *field = &x->head.fields[i];

		if (str_eq_nocase(field->name, STR("Sec-WebSocket-Protocol")) &&
		    http_has_token(field->value, STR(UPGRADE_PROTOCOL)))
			field->value = STR(UPGRADE_PROTOCOL);
	}
}

void authenticate_trust(struct authenticate *auth, const struct keyring *ring,
			struct web_sessions *web)
{
	auth->ring = ring;
	auth->web = web;
}

static bool is_operator(const struct authenticate *auth, struct str token)
{
	uint8_t hash[SECRET_HASH];

	// Compare hashes, not tokens: the time of the comparison then reveals nothing about the
	// key.
	secret_sha256(token.at ? token.at : "", token.len, hash);
	return secret_equal(hash, token.at ? auth->options.key_hash : auth->nobody, SECRET_HASH) &&
	       token.at;
}

const struct who *authenticate_token(const struct authenticate *auth, struct http *x,
				     struct str token)
{
	struct who who;
	struct who *out;

	// A token of an unknown format is looked up like any other, for constant time.
	if (is_operator(auth, token))
		who = WHO_KEYHOLDER;
	else if ((!auth->ring || !keyring_who(auth->ring, token.at ? token : STR(""), &who)) &&
		 (!auth->web || !web_sessions_who(auth->web, token.at ? token : STR(""), &who)))
		return NULL;
	out = arena_take(x->arena, sizeof(*out));
	*out = who;
	return out;
}

// "alice", or "" for a uid without a name. /etc/passwd is read directly: other NSS modules may wait
// for the network.
static const char *user_name(const struct authenticate *auth, int64_t uid)
{
	struct str key = {(const char *)&uid, sizeof(uid)};
	const char *known = map_get(auth->names, key);
	const struct passwd *user = NULL;
	char *name;
	FILE *file;

	if (known || map_count(auth->names) >= USERS_MAX)
		return known ? known : "";
	file = fopen("/etc/passwd", "re");
	while (file && (user = fgetpwent(file)) && user->pw_uid != (uid_t)uid)
		;
	name = mem_str(user ? user->pw_name : "");
	if (file)
		fclose(file);
	map_put(auth->names, key, name);
	return name;
}

static const struct who *local_user(const struct authenticate *auth, struct http *x)
{
	struct who *out = arena_take(x->arena, sizeof(*out));
	const char *name = user_name(auth, x->uid);

	*out = (struct who){
		.role = WHO_TENANT,
		.scopes = auth->users.scopes,
		.may_host = auth->users.may_host,
	};
	snprintf(out->name, sizeof(out->name), *name ? "uid=%" PRId64 "(%.32s)" : "uid=%" PRId64,
		 x->uid, name);
	if (auth->users.tenant[0])
		memcpy(out->tenant, auth->users.tenant, sizeof(out->tenant));
	else
		snprintf(out->tenant, sizeof(out->tenant), "uid-%" PRId64, x->uid);
	if (auth->ring)
		keyring_lend(auth->ring, out);
	return out;
}

// A download of the dashboard: a browser sends no header with a link, so the last parameter of the
// query is a ticket for this target. What it answers is saved, never shown as a page.
static const struct who *authenticate_ticket(const struct authenticate *auth, struct http *x)
{
	struct str target = x->head.target, text;
	const size_t len = strlen("?ticket=") + WEB_TICKET_LEN;
	struct who who, *out;

	if (!auth->web || x->head.upgrade || !str_is(x->head.method, "GET") || target.len <= len)
		return NULL;
	text = str_skip(target, target.len - len);
	target.len -= len;
	if ((text.at[0] != '?' && text.at[0] != '&') ||
	    !str_starts(str_skip(text, 1), "ticket=" WEB_TICKET_PREFIX))
		return NULL;
	if (!web_sessions_take_ticket(auth->web, str_skip(text, strlen("?ticket=")), target, &who))
		return NULL;
	http_set(x, "Content-Disposition", STR("attachment"));
	http_set(x, "Content-Security-Policy", STR("sandbox; default-src 'none'"));
	out = arena_take(x->arena, sizeof(*out));
	*out = who;
	return out;
}

const struct who *authenticate_who(const struct authenticate *auth, struct http *x)
{
	struct str bearer = bearer_of(x);
	const struct who *out;

	if (x->uid >= 0 && auth->users.scopes && !http_field(x, "Authorization").at)
		return local_user(auth, x);
	if (!bearer.at && (out = authenticate_ticket(auth, x)))
		return out;
	out = authenticate_token(auth, x, bearer);
	authenticate_hide_token(x);
	return out;
}

static struct peer *authenticate_peer_of(struct authenticate *auth, struct str address)
{
	struct peer *peer = map_get(auth->peers, address);

	if (peer)
		return peer;
	if (map_count(auth->peers) >= PEERS_MAX) {
		forget_all(&auth->peers);
		auth->peers = map_new();
	}
	peer = mem_new_of(struct peer);
	map_put(auth->peers, address, peer);
	return peer;
}

// Counts a wrong token against its sender's address; false: too many.
static bool count_strike(struct authenticate *auth, const struct http *x, const char *event)
{
	struct peer *peer = authenticate_peer_of(auth, x->peer);
	int64_t now = loop_now(auth->loop);

	if (now - peer->since > STRIKES_SPAN_MS)
		*peer = (struct peer){.since = now};
	if (peer->failures < FAILURES_MAX || weak(STRIKES)) {
		peer->failures++;
		authenticate_report(x, event, "medium");
		return true;
	}
	if (peer->failures++ == FAILURES_MAX)
		authenticate_report(x, "bearer_guessing", "high");
	return false;
}

static fallible too_many(void)
{
	return err_new(EXHAUSTED, "too_many_failures", "too many wrong tokens from this address");
}

fallible authenticate_fail_path(struct authenticate *auth, const struct http *x)
{
	if (!count_strike(auth, x, "failed_path_token"))
		return too_many();
	return err_hint(err_new(UNAUTHENTICATED, "bad_token",
				"the token in the path is not that of this sandbox"),
			"GET /v1/sandboxes/{id} with the operator's key shows it as 'token'");
}

fallible authenticate_fail_preview(struct authenticate *auth, const struct http *x)
{
	if (!count_strike(auth, x, "failed_preview_token"))
		return too_many();
	return err_new(NOT_FOUND, "invalid_token",
		       "Access denied: Invalid token or port not exposed");
}

static fallible bad_token(void)
{
	return err_hint(err_new(UNAUTHENTICATED, "bad_token", "this token is not valid"),
			"the key is in operator.key of the data directory");
}

fallible authenticate_fail_code(struct authenticate *auth, const struct http *x)
{
	if (!count_strike(auth, x, "failed_login_code"))
		return too_many();
	return err_hint(err_new(UNAUTHENTICATED, "bad_code",
				"this link was used already, is too old, or never was one"),
			"'cove dashboard' prints a new one");
}

struct str authenticate_bound(const struct authenticate *auth)
{
	struct str rest = auth->options.bound, first = {0};

	str_cut(&rest, ',', &first);
	return str_trim(first);
}

fallible authenticate_fail_query(struct authenticate *auth, const struct http *x)
{
	return count_strike(auth, x, "failed_query_token") ? bad_token() : too_many();
}

fallible authenticate_fail(struct authenticate *auth, const struct http *x)
{
	if (!bearer_of(x).at)
		return err_hint(err_new(UNAUTHENTICATED, "no_token", "this needs a bearer token"),
				"send 'Authorization: Bearer KEY'; the key is in operator.key of "
				"the data directory");
	return count_strike(auth, x, "failed_bearer") ? bad_token() : too_many();
}
