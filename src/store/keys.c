// Tenants and keys. Events and audit rows of a dropped tenant stay for the operator as long as any,
// without the tenant's numbers, so that a later tenant of that name sees none of them. Its own data
// is removed with it.
#include "store/keys.h"

// clang-format off
#define TENANT_ROW(KEY, FIRST, NEXT) \
	KEY(1,   id,         "id",      TEXT) \
	FIRST(2, body,       "body",    TEXT) \
	NEXT(3,  created_ms, "created", INT)
#define KEY_ROW(KEY, FIRST, NEXT) \
	KEY(1,   id,         "id",      TEXT) \
	FIRST(2, tenant,     "tenant",  TEXT) \
	NEXT(3,  name,       "name",    TEXT) \
	NEXT(4,  hash,       "hash",    HASH) \
	NEXT(5,  scopes,     "scopes",  INT) \
	NEXT(6,  body,       "body",    TEXT) \
	NEXT(7,  created_ms, "created", INT) \
	NEXT(8,  expires_ms, "expires", INT) \
	NEXT(9,  revoked_ms, "revoked", INT)
// clang-format on
static const struct db_column tenant_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_tenant, field, type)
	TENANT_ROW(F, F, F){0}
#undef F
};
static const struct db_column key_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_key, field, type)
	KEY_ROW(F, F, F){0}
#undef F
};

static fallible leave_behind(struct db *db, const char *tenant)
{
	static const char *const steps[] = {
		"UPDATE events SET own = 0 WHERE tenant = $1",
		"UPDATE audit SET own = 0 WHERE tenant = $1",
		"DELETE FROM counters WHERE name = 'event/' || $1 OR name = 'audit/' || $1",
		"DELETE FROM session_ids WHERE substr(id, 1, length($1) + 2) = $1 || '__'",
		"DELETE FROM egress WHERE box IN (SELECT box FROM egress_sums WHERE tenant = $1)",
		"DELETE FROM egress_sums WHERE tenant = $1",
		"DELETE FROM secrets WHERE tenant = $1",
		"DELETE FROM registries WHERE tenant = $1",
		// No tenant's name has a tilde: the sums stay for the operator.
		"UPDATE usage_charges SET tenant = tenant || '~' WHERE tenant = $1",
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		TRY(db_run(db, steps[i], DB_WITH(db_text(tenant)), NULL));
	return OK;
}

static struct err *put_tenant(struct db *db, void *arg)
{
	const struct store_tenant *tenant = arg;
	uint64_t known = 0;

	TRY(db_number(db, "SELECT 1 FROM tenants WHERE id = $1", DB_WITH(db_text(tenant->id)),
		      &known));
	if (!known) // rows about an earlier tenant of that name may have been written after its end
		TRY(leave_behind(db, tenant->id));
	return db_put(db, DB_UPSERT("tenants", "id", TENANT_ROW), tenant_columns, tenant, NULL);
}

static struct err *drop_tenant(struct db *db, void *arg)
{
	TRY(db_run(db, "DELETE FROM access_keys WHERE tenant = $1", DB_WITH(db_text(arg)), NULL));
	TRY(leave_behind(db, arg));
	return db_run(db, "DELETE FROM tenants WHERE id = $1", DB_WITH(db_text(arg)), NULL);
}

static struct err *put_key(struct db *db, void *arg)
{
	return db_put(db, DB_UPSERT("access_keys", "id", KEY_ROW), key_columns, arg, NULL);
}

struct revocation {
	const char *id;
	int64_t now_ms;
};

static struct err *revoke_key(struct db *db, void *arg)
{
	const struct revocation *revocation = arg;
	uint64_t count = 0;

	TRY(db_run(db, "UPDATE access_keys SET revoked = $1 WHERE id = $2",
		   DB_WITH(db_int(revocation->now_ms), db_text(revocation->id)), &count));
	return count ? OK : err_new(NOT_FOUND, "no_key", "there is no such key");
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

static bool mark_bad_tenant(void *row, bool bad)
{
	if (bad)
		((struct store_tenant *)row)->body = NULL;
	return true;
}

static bool mark_bad_key(void *row, bool bad)
{
	if (bad)
		((struct store_key *)row)->body = NULL;
	return true;
}

struct keyring_rows {
	struct rows tenants, keys;
};

static struct err *keyring_load_rows(struct db *db, void *arg)
{
	static const struct db_table tenants = {tenant_columns, sizeof(struct store_tenant),
						mark_bad_tenant};
	static const struct db_table keys = {key_columns, sizeof(struct store_key), mark_bad_key};
	struct keyring_rows *rows = arg;

	TRY(db_rows(db, "SELECT " DB_NAMES(TENANT_ROW) " FROM tenants ORDER BY id", NULL, &tenants,
		    &rows->tenants));
	return db_rows(db, "SELECT " DB_NAMES(KEY_ROW) " FROM access_keys ORDER BY created, id",
		       NULL, &keys, &rows->keys);
}

fallible store_keys_load(struct store *store, struct arena *arena, struct store_keyring *out)
{
	struct keyring_rows rows = {.tenants.arena = arena, .keys.arena = arena};

	TRY(store_ask(store, keyring_load_rows, &rows), "load tenants and keys");
	*out = (struct store_keyring){rows.tenants.at, rows.tenants.count, rows.keys.at,
				      rows.keys.count};
	return OK;
}
