// Sessions of the dashboard, the codes of login links and the tickets of downloads. All sessions
// are in memory, so that authentication does not wait; those of keys are in the store, too, one
// small value each. The rights of a session are looked up in its key each time: a revoked or
// narrowed key binds at once. A session in use is written again at most once a minute, so that a
// restart forgets at most a minute of idle time. Codes and tickets are in memory alone.
#include "gateway/web_sessions.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "codec/text.h"
#include "manager/access.h"
#include "store/kv.h"
#include "types/key.h"

#define PREFIX "web/"
#define AGE_MS (12 * 3600 * 1000ll)
#define IDLE_MS (30 * 60 * 1000ll)
#define LOOK_MS 2000
#define WRITE_MS 60000
#define SESSIONS_MAX 4096
#define LINKS_MAX 256
#define TICKETS_MAX 4096
#define TENANT_TICKETS_MAX 128
#define ROW_MAX 2048

enum web_origin {
	WEB_OF_OPERATOR, // of the operator's key
	WEB_OF_KEY,
	WEB_OF_USER, // of a user of the Unix socket
};

struct web_session {
	char id[WHO_WEB_LEN + 1];
	uint8_t hash[SECRET_HASH];
	enum web_origin origin;
	struct who user; // of WEB_OF_USER; else only name and key count
	unsigned scopes;
	bool narrowed; // to the tenant
	char tenant[WHO_TENANT_MAX + 1];
	int64_t created_ms, used_ms, written_ms; // steady clock
};

struct web_link {
	struct who who;
	unsigned scopes;
	bool narrowed;
	char tenant[WHO_TENANT_MAX + 1];
	int64_t expires_ms;
};

struct web_ticket {
	struct who who;
	char *target; // owned
	int64_t expires_ms;
};

struct web_sessions {
	struct manager *manager;
	struct store *store;
	const struct keyring *ring;
	uint8_t root[SECRET_HASH];
	struct map *by_hash; // of struct web_session, owned
	struct map *links;   // of struct web_link by the hash of the code, owned
	struct map *tickets; // of struct web_ticket by the hash of the text, owned
	struct timer timer;
	void (*ended)(void *arg, const char *id);
	void *ended_arg;
};

static int64_t web_expires(const struct web_session *session)
{
	return session->created_ms + AGE_MS;
}

static bool web_is_over(const struct web_session *session, int64_t now)
{
	return now >= web_expires(session) || now >= session->used_ms + IDLE_MS ||
	       now < session->created_ms - AGE_MS;
}

static struct str web_hash_of(const struct web_session *session)
{
	return (struct str){(const char *)session->hash, SECRET_HASH};
}

static void web_row_name(const struct web_session *session, char out[64])
{
	snprintf(out, 64, PREFIX "%s", session->id);
}

// Frees it.
static void web_drop(struct web_sessions *web, struct web_session *session)
{
	char name[64], id[WHO_WEB_LEN + 1];

	web_row_name(session, name);
	memcpy(id, session->id, sizeof(id));
	map_take(web->by_hash, web_hash_of(session));
	if (session->origin != WEB_OF_USER)
		store_kv_queue(web->store, name, (struct str){0});
	secret_wipe(session, sizeof(*session));
	free(session);
	if (web->ended)
		web->ended(web->ended_arg, id);
}

// Ends each session that the test names. Removing one changes the table: start over each time.
static void web_drop_where(struct web_sessions *web,
			   bool (*test)(const struct web_session *session, const void *arg),
			   const void *arg)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(web->by_hash, &at, &key, &value);) {
		if (!test(value, arg))
			continue;
		web_drop(web, value);
		at = 0;
	}
}

static bool web_test_over(const struct web_session *session, const void *now)
{
	return web_is_over(session, *(const int64_t *)now);
}

static bool web_test_key(const struct web_session *session, const void *key)
{
	return session->origin == WEB_OF_KEY && !strcmp(session->user.key, key);
}

static bool web_test_user(const struct web_session *session, const void *arg)
{
	(void)arg;
	return session->origin == WEB_OF_USER;
}

static void web_drop_old_links(struct web_sessions *web, int64_t now)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(web->links, &at, &key, &value);) {
		if (((struct web_link *)value)->expires_ms > now)
			continue;
		map_take(web->links, key);
		free(value);
		at = 0;
	}
}

static void web_free_ticket(struct web_ticket *ticket)
{
	if (!ticket)
		return;
	free(ticket->target);
	free(ticket);
}

static void web_drop_old_tickets(struct web_sessions *web, int64_t now)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(web->tickets, &at, &key, &value);) {
		if (((struct web_ticket *)value)->expires_ms > now)
			continue;
		map_take(web->tickets, key);
		web_free_ticket(value);
		at = 0;
	}
}

static void web_on_timer(struct timer *timer)
{
	struct web_sessions *web = link_of(timer, struct web_sessions, timer);
	struct loop *loop = web->manager->loop;
	int64_t now = clock_steady_ms();

	web_drop_where(web, web_test_over, &now);
	web_drop_old_links(web, now);
	web_drop_old_tickets(web, now);
	if (map_count(web->by_hash) || map_count(web->links) || map_count(web->tickets))
		loop_set_timer(loop, &web->timer, loop_now(loop) + LOOK_MS);
}

static void web_arm(struct web_sessions *web)
{
	struct loop *loop = web->manager->loop;

	loop_set_timer(loop, &web->timer, loop_now(loop) + LOOK_MS);
}

struct web_sessions *web_sessions_new(struct manager *manager, struct store *store,
				      const struct keyring *ring, const uint8_t root[SECRET_HASH])
{
	struct web_sessions *web = mem_new_of(struct web_sessions);

	web->manager = manager;
	web->store = store;
	web->ring = ring;
	secret_sha256(root, SECRET_HASH, web->root);
	web->by_hash = map_new();
	web->links = map_new();
	web->tickets = map_new();
	web->timer.due = web_on_timer;
	return web;
}

static void web_forget_all(struct map *map)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(map, &at, &key, &value);)
		free(value);
	map_free(map);
}

void web_sessions_free(struct web_sessions *web)
{
	if (!web)
		return;
	loop_drop_timer(web->manager->loop, &web->timer);
	web_forget_all(web->by_hash);
	web_forget_all(web->links);
	web_drop_old_tickets(web, INT64_MAX);
	map_free(web->tickets);
	free(web);
}

void web_sessions_on_end(struct web_sessions *web, void (*ended)(void *arg, const char *id),
			 void *arg)
{
	web->ended = ended;
	web->ended_arg = arg;
}

static void web_put_hash(struct json_out *out, const char *key, const uint8_t hash[SECRET_HASH])
{
	auto_buf text = BUF_INIT(2 * SECRET_HASH + 1);

	text_hex(&text, hash, SECRET_HASH);
	json_put_str(out, key, buf_view(&text));
}

static void web_write(struct web_session *session, const struct web_sessions *web, struct buf *body)
{
	struct json_out out = json_to(body);

	session->written_ms = session->used_ms;
	json_begin(&out, '{');
	web_put_hash(&out, "hash", session->hash);
	web_put_hash(&out, "root", web->root);
	json_put_text(&out, "key", session->user.key);
	json_put_text(&out, "name", session->user.name);
	if (session->narrowed)
		json_put_text(&out, "tenant", session->tenant);
	json_put_int(&out, "scopes", session->scopes);
	json_put_int(&out, "created", session->created_ms);
	json_put_int(&out, "used", session->used_ms);
	json_end(&out, '}');
}

static bool web_read_hash(const struct json *value, uint8_t out[SECRET_HASH])
{
	struct str text = json_chars(value);

	if (text.len != 2 * SECRET_HASH)
		return false;
	for (size_t i = 0; i < SECRET_HASH; i++) {
		int high = text_hex_digit(text.at[2 * i]), low = text_hex_digit(text.at[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static fallible web_load_one(struct web_sessions *web, const struct store_kv *row)
{
	const char *id = row->name + sizeof(PREFIX) - 1;
	struct web_session session = {.origin = WEB_OF_OPERATOR};
	struct str key = {0}, name = {0}, tenant = {0};
	uint64_t created = 0, used = 0, scopes = 0;
	uint8_t root[SECRET_HASH];
	struct web_session *own;
	auto_json body = NULL;

	TRY(json_read(row->value, &body));
	TRY(json_str(json_get(body, "key"), "key", &key));
	TRY(json_str(json_get(body, "name"), "name", &name));
	TRY(json_str(json_get(body, "tenant"), "tenant", &tenant));
	TRY(json_u64(json_get(body, "scopes"), "scopes", 0, WHO_MAY_ALL, &scopes));
	TRY(json_u64(json_get(body, "created"), "created", 0, INT64_MAX >> 10, &created));
	TRY(json_u64(json_get(body, "used"), "used", 0, INT64_MAX >> 10, &used));
	if (strlen(id) != WHO_WEB_LEN || key.len > WHO_KEY_LEN || name.len > WHO_NAME_MAX ||
	    (tenant.at && !who_is_tenant(tenant)) ||
	    !web_read_hash(json_get(body, "hash"), session.hash) ||
	    !web_read_hash(json_get(body, "root"), root))
		return err_new(INVALID, "bad_session", "the row is malformed");
	memcpy(session.id, id, WHO_WEB_LEN);
	memcpy(session.user.key, key.at ? key.at : "", key.len);
	memcpy(session.user.name, name.at ? name.at : "", name.len);
	memcpy(session.tenant, tenant.at ? tenant.at : "", tenant.len);
	session.narrowed = tenant.at != NULL;
	session.origin = key.len ? WEB_OF_KEY : WEB_OF_OPERATOR;
	session.scopes = (unsigned)scopes;
	session.created_ms = (int64_t)created;
	session.used_ms = session.written_ms = (int64_t)used;
	if (web_is_over(&session, clock_steady_ms()) ||
	    (session.origin == WEB_OF_OPERATOR && !secret_equal(root, web->root, SECRET_HASH))) {
		store_kv_queue(web->store, row->name, (struct str){0});
		return OK;
	}
	own = mem_new_of(struct web_session);
	*own = session;
	if (!map_put(web->by_hash, web_hash_of(own), own))
		free(own);
	return OK;
}

fallible web_sessions_load(struct web_sessions *web)
{
	auto_arena arena = arena_new();
	struct store_kv *rows = NULL;
	size_t count = 0;

	TRY(store_kv_load(web->store, PREFIX, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		auto_err err = web_load_one(web, &rows[i]);

		if (err)
			log_event(LOG_ERROR, "web_session.unreadable", "id", rows[i].name,
				  "message", err_message(err), NULL);
	}
	if (map_count(web->by_hash))
		web_arm(web);
	return OK;
}

static fallible web_refuse(const char *what)
{
	return err_hint(err_new(FORBIDDEN, "not_allowed", "this credential may not %s", what),
			"use a key that has the rights itself");
}

static fallible web_ask_rights(const struct web_sessions *web, const struct who *who,
			       const struct web_ask *ask)
{
	const struct account *account =
		ask->tenant.at ? accounts_find(&web->manager->accounts, ask->tenant) : NULL;

	if (who->web[0] || who->role == WHO_BOX || who->role == WHO_NOBODY)
		return web_refuse("sign in to the dashboard");
	if (ask->scopes & ~who->scopes)
		return web_refuse("give scopes that it lacks");
	if (!ask->tenant.at)
		return OK;
	if (who->role != WHO_OPERATOR && !str_is(ask->tenant, who->tenant))
		return err_absent("no_tenant", "tenant", ask->tenant);
	if (who->role == WHO_OPERATOR && (!account || !account->known))
		return err_absent("no_tenant", "tenant", ask->tenant);
	return OK;
}

static bool web_rights(const struct web_sessions *web, const struct web_session *session,
		       struct who *out)
{
	struct who who = session->user;

	if (session->origin == WEB_OF_OPERATOR)
		who = WHO_KEYHOLDER;
	if (session->origin == WEB_OF_KEY && !keyring_key(web->ring, session->user.key, &who))
		return false;
	if (session->narrowed && who.role == WHO_OPERATOR) {
		who.role = WHO_TENANT;
		who.may_host = false;
		memcpy(who.tenant, session->tenant, sizeof(who.tenant));
		keyring_lend(web->ring, &who);
	}
	who.scopes &= session->scopes;
	if (!(who.scopes & WHO_MAY_ADMIN) && !who.box[0] && who.role == WHO_OPERATOR)
		who.role = WHO_TENANT; // as key_who() does for a key with those scopes
	memcpy(who.web, session->id, sizeof(who.web));
	*out = who;
	return true;
}

fallible web_sessions_make(struct web_sessions *web, const struct who *who,
			   const struct web_ask *ask, struct who *out, char text[WEB_TOKEN_LEN + 1])
{
	auto_buf body = BUF_INIT(ROW_MAX);
	struct web_session *session;
	char name[64];

	TRY(web_ask_rights(web, who, ask));
	if (map_count(web->by_hash) >= SESSIONS_MAX)
		return err_hint(
			err_new(EXHAUSTED, "too_many_sessions", "too many browsers are signed in"),
			"sign out elsewhere, or wait: sessions end after 30 idle minutes");
	session = mem_new_of(struct web_session);
	snprintf(session->id, sizeof(session->id), "dash-");
	secret_hex(session->id + strlen(session->id), 8);
	snprintf(text, WEB_TOKEN_LEN + 1, WEB_TOKEN_PREFIX);
	secret_hex(text + sizeof(WEB_TOKEN_PREFIX) - 1, 32);
	secret_sha256(text, WEB_TOKEN_LEN, session->hash);
	session->user = *who;
	session->origin = who->key[0]		      ? WEB_OF_KEY
			  : who->role == WHO_OPERATOR ? WEB_OF_OPERATOR
						      : WEB_OF_USER;
	if (ask->name.len && session->origin != WEB_OF_USER)
		snprintf(session->user.name, sizeof(session->user.name), STR_FMT,
			 STR_ARG(ask->name));
	session->scopes = ask->scopes;
	session->narrowed = ask->tenant.at && who->role == WHO_OPERATOR;
	if (session->narrowed)
		memcpy(session->tenant, ask->tenant.at, ask->tenant.len);
	session->created_ms = session->used_ms = clock_steady_ms();
	web_write(session, web, &body);
	web_row_name(session, name);
	if (session->origin != WEB_OF_USER) {
		struct err *err = store_kv_put(web->store, name, buf_view(&body));

		if (err) {
			free(session);
			return err_while(err, "keep a dashboard session");
		}
	}
	map_put(web->by_hash, web_hash_of(session), session);
	web_arm(web);
	if (!web_rights(web, session, out)) { // the key was revoked during the wait
		web_drop(web, session);
		return web_refuse("sign in: it was just revoked");
	}
	return OK;
}

fallible web_sessions_link(struct web_sessions *web, const struct who *who,
			   const struct web_ask *ask, char code[WEB_CODE_LEN + 1],
			   int64_t *out_expires_ms)
{
	uint8_t hash[SECRET_HASH];
	struct web_link *link;

	TRY(web_ask_rights(web, who, ask));
	web_drop_old_links(web, clock_steady_ms());
	if (map_count(web->links) >= LINKS_MAX)
		return err_hint(err_new(EXHAUSTED, "too_many_links", "too many links are unused"),
				"try again in a minute");
	link = mem_new_of(struct web_link);
	link->who = *who;
	link->scopes = ask->scopes;
	link->narrowed = ask->tenant.at != NULL;
	memcpy(link->tenant, link->narrowed ? ask->tenant.at : "", ask->tenant.len);
	link->expires_ms = clock_steady_ms() + WEB_CODE_MS;
	secret_hex(code, WEB_CODE_LEN / 2);
	secret_sha256(code, WEB_CODE_LEN, hash);
	map_put(web->links, (struct str){(const char *)hash, sizeof(hash)}, link);
	web_arm(web);
	*out_expires_ms = link->expires_ms;
	return OK;
}

fallible web_sessions_redeem(struct web_sessions *web, struct str code, bool *out_known,
			     struct who *out, char text[WEB_TOKEN_LEN + 1])
{
	struct web_ask ask = {0};
	uint8_t hash[SECRET_HASH];
	auto_free struct web_link *link = NULL;
	struct who who;

	secret_sha256(code.at, code.len, hash);
	link = map_take(web->links, (struct str){(const char *)hash, sizeof(hash)});
	*out_known = link && link->expires_ms > clock_steady_ms() &&
		     (!link->who.key[0] || keyring_key(web->ring, link->who.key, &who));
	if (!*out_known)
		return OK;
	ask.scopes = link->scopes;
	if (link->narrowed)
		ask.tenant = str_of(link->tenant);
	return web_sessions_make(web, &link->who, &ask, out, text);
}

static struct web_session *web_find(const struct web_sessions *web, struct str id)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(web->by_hash, &at, &key, &value);)
		if (str_is(id, ((struct web_session *)value)->id))
			return value;
	return NULL;
}

fallible web_sessions_ticket(struct web_sessions *web, const struct who *who, struct str target,
			     char text[WEB_TICKET_LEN + 1], int64_t *out_expires_ms)
{
	uint8_t hash[SECRET_HASH];
	struct web_ticket *ticket;
	size_t own = 0;
	struct str key;
	void *value;

	web_drop_old_tickets(web, clock_steady_ms());
	for (size_t at = 0; map_next(web->tickets, &at, &key, &value);)
		own += !strcmp(((struct web_ticket *)value)->who.tenant, who->tenant);
	if (own >= TENANT_TICKETS_MAX || map_count(web->tickets) >= TICKETS_MAX)
		return err_hint(
			err_new(EXHAUSTED, "too_many_tickets", "too many tickets are unused"),
			"try again in a minute");
	ticket = mem_new_of(struct web_ticket);
	ticket->who = *who;
	ticket->target = mem_dup(target.at, target.len);
	ticket->expires_ms = clock_steady_ms() + WEB_CODE_MS;
	snprintf(text, WEB_TICKET_LEN + 1, WEB_TICKET_PREFIX);
	secret_hex(text + sizeof(WEB_TICKET_PREFIX) - 1, 32);
	secret_sha256(text, WEB_TICKET_LEN, hash);
	map_put(web->tickets, (struct str){(const char *)hash, sizeof(hash)}, ticket);
	web_arm(web);
	*out_expires_ms = ticket->expires_ms;
	return OK;
}

bool web_sessions_rights(const struct web_sessions *web, const struct who *was, struct who *out)
{
	const struct web_session *session = was->web[0] ? web_find(web, str_of(was->web)) : NULL;

	if (was->web[0])
		return session && !web_is_over(session, clock_steady_ms()) &&
		       web_rights(web, session, out);
	if (was->key[0])
		return keyring_key(web->ring, was->key, out);
	*out = *was;
	return true;
}

bool web_sessions_take_ticket(struct web_sessions *web, struct str text, struct str target,
			      struct who *out)
{
	uint8_t hash[SECRET_HASH];
	struct web_ticket *ticket;
	bool valid;

	secret_sha256(text.at, text.len, hash);
	ticket = map_take(web->tickets, (struct str){(const char *)hash, sizeof(hash)});
	valid = ticket && ticket->expires_ms > clock_steady_ms() &&
		str_is(target, ticket->target) && web_sessions_rights(web, &ticket->who, out);
	web_free_ticket(ticket);
	return valid;
}

bool web_sessions_who(struct web_sessions *web, struct str token, struct who *out)
{
	static const struct web_session nobody;
	struct web_session *session;
	uint8_t hash[SECRET_HASH];
	int64_t now = clock_steady_ms();
	bool same;

	secret_sha256(token.at, token.len, hash);
	session = map_get(web->by_hash, (struct str){(const char *)hash, sizeof(hash)});
	same = secret_equal(hash, session ? session->hash : nobody.hash, SECRET_HASH);
	if (!session || !same || web_is_over(session, now) || !web_rights(web, session, out))
		return false;
	session->used_ms = now;
	if (session->origin != WEB_OF_USER && now - session->written_ms > WRITE_MS) {
		auto_buf body = BUF_INIT(ROW_MAX);
		char name[64];

		web_write(session, web, &body);
		web_row_name(session, name);
		store_kv_queue(web->store, name, buf_view(&body));
	}
	return true;
}

// The operator sees all; others those of their own key, or of their own user.
static bool web_sees(const struct web_sessions *web, const struct who *who,
		     const struct web_session *session)
{
	struct who own;

	if (who->role == WHO_OPERATOR && !who->box[0])
		return true;
	return web_rights(web, session, &own) && !strcmp(own.tenant, who->tenant) &&
	       !strcmp(own.key, who->key) && !strcmp(own.name, who->name) &&
	       session->origin != WEB_OF_OPERATOR;
}

fallible web_sessions_end(struct web_sessions *web, const struct who *who, struct str id)
{
	struct web_session *session = web_find(web, id);

	if (!session || (strcmp(session->id, who->web) != 0 && !web_sees(web, who, session)))
		return err_absent("no_session", "dashboard session", id);
	web_drop(web, session);
	return store_flush(web->store);
}

void web_sessions_end_key(struct web_sessions *web, const char *key)
{
	web_drop_where(web, web_test_key, key);
}

void web_sessions_end_users(struct web_sessions *web)
{
	web_drop_where(web, web_test_user, NULL);
}

static const char *web_role(const struct who *who)
{
	return who->box[0] ? "sandbox" : who->role == WHO_OPERATOR ? "operator" : "tenant";
}

static void web_put_session(const struct web_sessions *web, const struct web_session *session,
			    struct json_out *out)
{
	struct who who = {0};
	bool valid = web_rights(web, session, &who);

	json_put_text(out, "id", session->id);
	json_put_time(out, "createdAt", session->created_ms);
	json_put_time(out, "expiresAt", web_expires(session));
	json_put_time(out, "idleExpiresAt", session->used_ms + IDLE_MS);
	json_put_begin(out, "who", '{');
	json_put_text(out, "role", web_role(&who));
	json_put_text(out, "tenant", who.tenant[0] ? who.tenant : NULL);
	json_key(out, "scopes");
	key_put_scopes(out, valid ? who.scopes : 0);
	json_put_text(out, "key", who.key[0] ? who.key : NULL);
	json_put_text(out, "name", session->user.name[0] ? session->user.name : NULL);
	json_end(out, '}');
}

void web_sessions_put(const struct web_sessions *web, const char *id, struct json_out *out)
{
	const struct web_session *session = web_find(web, str_of(id));

	if (session)
		web_put_session(web, session, out);
}

void web_sessions_put_all(const struct web_sessions *web, const struct who *who,
			  struct json_out *out)
{
	struct str key;
	void *value;

	json_begin(out, '[');
	for (size_t at = 0; map_next(web->by_hash, &at, &key, &value);) {
		const struct web_session *session = value;

		if (strcmp(session->id, who->web) != 0 && !web_sees(web, who, session))
			continue;
		json_begin(out, '{');
		web_put_session(web, session, out);
		json_put_bool(out, "current", !strcmp(session->id, who->web));
		json_end(out, '}');
	}
	json_end(out, ']');
}
