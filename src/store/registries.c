// The table of credentials at registries. The secret in `body` is encrypted by egress_seal(), with
// a key that is not in the database.
#include "store/registries.h"

// clang-format off
#define REGISTRY(KEY, FIRST, NEXT) \
	KEY(1,   tenant,     "tenant",  TEXT) \
	FIRST(2, host,       "host",    TEXT) \
	NEXT(3,  body,       "body",    TEXT) \
	NEXT(4,  created_ms, "created", INT)
// clang-format on
static const struct db_column registry_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_registry, field, type)
	REGISTRY(F, F, F){0}
#undef F
};

static struct err *store_registries_put_row(struct db *db, void *arg)
{
	return db_put(db, DB_UPSERT("registries", "tenant, host", REGISTRY), registry_columns, arg,
		      NULL);
}

fallible store_registries_put(struct store *store, const struct store_registry *registry)
{
	return store_do(store, store_registries_put_row, (void *)registry);
}

static struct err *store_registries_drop_row(struct db *db, void *arg)
{
	const struct store_registry *registry = arg;

	return db_run(db, "DELETE FROM registries WHERE tenant = $1 AND host = $2",
		      DB_WITH(db_text(registry->tenant), db_text(registry->host)), NULL);
}

fallible store_registries_drop(struct store *store, const char *tenant, const char *host)
{
	return store_do_last(store, store_registries_drop_row,
			     &(struct store_registry){.tenant = tenant, .host = host});
}

static struct err *store_registries_read_rows(struct db *db, void *arg)
{
	return db_rows(
		db, "SELECT " DB_NAMES(REGISTRY) " FROM registries ORDER BY tenant, host", NULL,
		&(struct db_table){registry_columns, sizeof(struct store_registry), NULL}, arg);
}

fallible store_registries_load(struct store *store, struct arena *arena,
			       struct store_registry **out, size_t *out_count)
{
	struct rows rows = {.arena = arena};

	TRY(store_ask(store, store_registries_read_rows, &rows), "read the registries of tenants");
	*out = rows.at;
	*out_count = rows.count;
	return OK;
}
