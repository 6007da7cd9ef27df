// Tenants and keys. Events and audit rows of a dropped tenant stay for the operator as long as any,
// without the tenant's numbers, so that a later tenant of that name sees none of them. Its own data
// is removed with it.
#include "store/keys.h"

static fallible do_for(struct db *db, const char *sql, const char *id)
{
	auto_query query = {0};

	TRY(query_open(db, sql, &query));
	query_put_text(&query, id);
	return query_run(&query, NULL);
}

static fallible leave_behind(struct db *db, const char *tenant)
{
	static const char *const steps[] = {
		"UPDATE events SET own = 0 WHERE tenant = $1",
		"UPDATE audit SET own = 0 WHERE tenant = $1",
		"DELETE FROM counters WHERE name = 'event/' || $1 OR name = 'audit/' || $1",
		"DELETE FROM session_ids WHERE substr(id, 1, length($1) + 2) = $1 || '__'",
		"DELETE FROM egress WHERE box IN (SELECT box FROM egress_sums WHERE tenant = $1)",
		"DELETE FROM egress_sums WHERE tenant = $1",
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		TRY(do_for(db, steps[i], tenant));
	return OK;
}

static fallible has_tenant(struct db *db, const char *id, bool *out)
{
	auto_query query = {0};

	TRY(query_open(db, "SELECT id FROM tenants WHERE id = $1", &query));
	query_put_text(&query, id);
	return query_step(&query, out);
}

static struct err *put_tenant(struct db *db, void *arg)
{
	const struct store_tenant *tenant = arg;
	auto_query query = {0};
	bool known = false;

	TRY(has_tenant(db, tenant->id, &known));
	if (!known) // rows about an earlier tenant of that name may have been written after its end
		TRY(leave_behind(db, tenant->id));
	TRY(query_open(db,
		       "INSERT INTO tenants (id, body, created) VALUES ($1, $2, $3) ON CONFLICT"
		       " (id) DO UPDATE SET body = excluded.body, created = excluded.created",
		       &query));
	query_put_text(&query, tenant->id);
	query_put_text(&query, tenant->body);
	query_put_int(&query, tenant->created_ms);
	return query_run(&query, NULL);
}

static struct err *drop_tenant(struct db *db, void *arg)
{
	TRY(do_for(db, "DELETE FROM access_keys WHERE tenant = $1", arg));
	TRY(leave_behind(db, arg));
	return do_for(db, "DELETE FROM tenants WHERE id = $1", arg);
}

static struct err *put_key(struct db *db, void *arg)
{
	const struct store_key *key = arg;
	auto_query query = {0};

	TRY(query_open(db,
		       "INSERT INTO access_keys (id, tenant, name, hash, scopes, body, created,"
		       " expires, revoked) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT"
		       " (id) DO UPDATE SET tenant = excluded.tenant, name = excluded.name, hash ="
		       " excluded.hash, scopes = excluded.scopes, body = excluded.body, created ="
		       " excluded.created, expires = excluded.expires, revoked = excluded.revoked",
		       &query));
	query_put_text(&query, key->id);
	query_put_text(&query, key->tenant);
	query_put_text(&query, key->name);
	query_put_bytes(&query, key->hash, sizeof(key->hash));
	query_put_int(&query, (int64_t)key->scopes);
	query_put_text(&query, key->body ? key->body : "{}");
	query_put_int(&query, key->created_ms);
	query_put_int(&query, key->expires_ms);
	query_put_int(&query, key->revoked_ms);
	return query_run(&query, NULL);
}

struct revocation {
	const char *id;
	int64_t now_ms;
};

static struct err *revoke_key(struct db *db, void *arg)
{
	const struct revocation *revocation = arg;
	auto_query query = {0};
	uint64_t count = 0;

	TRY(query_open(db, "UPDATE access_keys SET revoked = $1 WHERE id = $2", &query));
	query_put_int(&query, revocation->now_ms);
	query_put_text(&query, revocation->id);
	TRY(query_run(&query, &count));
	return count ? OK : err_new(NOT_FOUND, "no_key", "there is no such key");
}

static struct err *drop_key(struct db *db, void *arg)
{
	return do_for(db, "DELETE FROM access_keys WHERE id = $1", arg);
}

fallible store_tenants_put(struct store *store, const struct store_tenant *tenant)
{
	return store_do(store, put_tenant, (void *)tenant);
}

fallible store_tenants_drop(struct store *store, const char *id)
{
	return store_do_last(store, drop_tenant, (void *)id);
}

fallible store_keys_put(struct store *store, const struct store_key *key)
{
	return store_do(store, put_key, (void *)key);
}

fallible store_keys_revoke(struct store *store, const char *id, int64_t now_ms)
{
	return store_do_last(store, revoke_key, &(struct revocation){id, now_ms});
}

fallible store_keys_drop(struct store *store, const char *id)
{
	return store_do_last(store, drop_key, (void *)id);
}

struct loading {
	struct arena *arena;
	struct store_keyring ring;
};

static fallible count_rows(struct db *db, const char *sql, size_t *out)
{
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db, sql, &query));
	TRY(query_step(&query, &found));
	*out = found ? (size_t)query_take_int(&query) : 0;
	return OK;
}

static fallible load_tenants(struct db *db, struct loading *to)
{
	auto_query query = {0};
	size_t room = 0;
	bool found;

	TRY(count_rows(db, "SELECT count(*) FROM tenants", &room));
	to->ring.tenants = arena_take(to->arena, (room + 1) * sizeof(struct store_tenant));
	to->ring.tenant_count = 0;
	TRY(query_open(db, "SELECT id, body, created FROM tenants ORDER BY id", &query));
	for (;;) {
		struct store_tenant *tenant = &to->ring.tenants[to->ring.tenant_count];

		TRY(query_step(&query, &found));
		if (!found || to->ring.tenant_count == room)
			return OK;
		tenant->id = query_take_text(&query, to->arena);
		tenant->body = query_take_text(&query, to->arena);
		tenant->created_ms = query_take_int(&query);
		if (query.bad)
			tenant->body = NULL;
		to->ring.tenant_count++;
	}
}

static void store_keys_read(struct query *query, struct arena *arena, struct store_key *out)
{
	struct str hash;

	out->id = query_take_text(query, arena);
	out->tenant = query_take_text(query, arena);
	out->name = query_take_text(query, arena);
	hash = query_take(query);
	if (hash.len == sizeof(out->hash))
		memcpy(out->hash, hash.at, hash.len);
	out->scopes = (uint64_t)query_take_int(query);
	out->body = query_take_text(query, arena);
	out->created_ms = query_take_int(query);
	out->expires_ms = query_take_int(query);
	out->revoked_ms = query_take_int(query);
	if (query->bad || hash.len != sizeof(out->hash))
		out->body = NULL;
}

static fallible load_keys(struct db *db, struct loading *to)
{
	auto_query query = {0};
	size_t room = 0;
	bool found;

	TRY(count_rows(db, "SELECT count(*) FROM access_keys", &room));
	to->ring.keys = arena_take(to->arena, (room + 1) * sizeof(struct store_key));
	to->ring.key_count = 0;
	TRY(query_open(db,
		       "SELECT id, tenant, name, hash, scopes, body, created, expires, revoked"
		       " FROM access_keys ORDER BY created, id",
		       &query));
	for (;;) {
		TRY(query_step(&query, &found));
		if (!found || to->ring.key_count == room)
			return OK;
		store_keys_read(&query, to->arena, &to->ring.keys[to->ring.key_count++]);
	}
}

static struct err *load(struct db *db, void *arg)
{
	TRY(load_tenants(db, arg));
	return load_keys(db, arg);
}

fallible store_keys_load(struct store *store, struct arena *arena, struct store_keyring *out)
{
	struct loading loading = {.arena = arena};

	TRY(store_ask(store, load, &loading), "load tenants and keys");
	*out = loading.ring;
	return OK;
}
