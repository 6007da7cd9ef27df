// The table of tenants' secrets. The value in `body` is encrypted by egress_seal(), with a key that
// is not in the database. Uses are queued, one update each: the sender limits how often.
#include "store/secrets.h"

// clang-format off
#define SECRET(KEY, FIRST, NEXT) \
	KEY(1,   tenant,     "tenant",    TEXT) \
	FIRST(2, name,       "name",      TEXT) \
	NEXT(3,  body,       "body",      TEXT) \
	NEXT(4,  created_ms, "created",   INT) \
	NEXT(5,  rotated_ms, "rotated",   INT) \
	NEXT(6,  used_ms,    "used",      INT) \
	NEXT(7,  used_host,  "used_host", TEXT)
// clang-format on
static const struct db_column secret_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_secret, field, type)
	SECRET(F, F, F){0}
#undef F
};

static struct err *store_secrets_put_row(struct db *db, void *arg)
{
	return db_put(db,
		      "INSERT INTO secrets (" DB_NAMES(SECRET) ") VALUES (" DB_PLACES(
			      SECRET) ") ON CONFLICT (tenant, name) DO UPDATE SET body ="
				      " excluded.body, rotated = excluded.rotated",
		      secret_columns, arg, NULL);
}

fallible store_secrets_put(struct store *store, const struct store_secret *secret)
{
	return store_do(store, store_secrets_put_row, (void *)secret);
}

static struct err *store_secrets_drop_row(struct db *db, void *arg)
{
	const struct store_secret *secret = arg;

	return db_run(db, "DELETE FROM secrets WHERE tenant = $1 AND name = $2",
		      DB_WITH(db_text(secret->tenant), db_text(secret->name)), NULL);
}

fallible store_secrets_drop(struct store *store, const char *tenant, const char *name)
{
	return store_do_last(store, store_secrets_drop_row,
			     &(struct store_secret){.tenant = tenant, .name = name});
}

static struct err *store_secrets_write_use(struct db *db, void *arg)
{
	const struct store_secret *secret = arg;

	return db_run(
		db, "UPDATE secrets SET used = $1, used_host = $2 WHERE tenant = $3 AND name = $4",
		DB_WITH(db_int(secret->used_ms), db_text(secret->used_host),
			db_text(secret->tenant), db_text(secret->name)),
		NULL);
}

static void store_secrets_free_use(void *arg)
{
	struct store_secret *secret = arg;

	free((char *)secret->tenant);
	free((char *)secret->name);
	free((char *)secret->used_host);
	free(secret);
}

void store_secrets_queue_use(struct store *store, const char *tenant, const char *name,
			     int64_t used_ms, const char *host)
{
	struct store_secret *secret = mem_new_of(struct store_secret);

	secret->tenant = mem_str(tenant);
	secret->name = mem_str(name);
	secret->used_host = mem_str(host);
	secret->used_ms = used_ms;
	store_queue(store, store_secrets_write_use, secret, store_secrets_free_use);
}

static struct err *store_secrets_read_rows(struct db *db, void *arg)
{
	return db_rows(db, "SELECT " DB_NAMES(SECRET) " FROM secrets ORDER BY tenant, name", NULL,
		       &(struct db_table){secret_columns, sizeof(struct store_secret), NULL}, arg);
}

fallible store_secrets_load(struct store *store, struct arena *arena, struct store_secret **out,
			    size_t *out_count)
{
	struct rows rows = {.arena = arena};

	TRY(store_ask(store, store_secrets_read_rows, &rows), "read the secrets of tenants");
	*out = rows.at;
	*out_count = rows.count;
	return OK;
}
