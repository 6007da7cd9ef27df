// The table of volumes. A row is written before the files are made and dropped when they are gone:
// its state says which of both is under way.
#include "store/volumes.h"

// clang-format off
#define VOLUME(KEY, FIRST, NEXT) \
	KEY(1,   id,         "id",      TEXT) \
	FIRST(2, tenant,     "tenant",  TEXT) \
	NEXT(3,  name,       "name",    TEXT) \
	NEXT(4,  state,      "state",   TEXT) \
	NEXT(5,  size,       "size",    INT) \
	NEXT(6,  created_ms, "created", INT)
// clang-format on
static const struct db_column volume_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_volume, field, type)
	VOLUME(F, F, F){0}
#undef F
};

static struct err *store_volumes_put_row(struct db *db, void *arg)
{
	return db_put(db, DB_UPSERT("volumes", "id", VOLUME), volume_columns, arg, NULL);
}

fallible store_volumes_put(struct store *store, const struct store_volume *volume)
{
	return store_do(store, store_volumes_put_row, (void *)volume);
}

static struct err *store_volumes_drop_row(struct db *db, void *arg)
{
	return db_run(db, "DELETE FROM volumes WHERE id = $1", DB_WITH(db_text(arg)), NULL);
}

fallible store_volumes_drop(struct store *store, const char *id)
{
	return store_do_last(store, store_volumes_drop_row, (void *)id);
}

static struct err *store_volumes_read_rows(struct db *db, void *arg)
{
	return db_rows(db, "SELECT " DB_NAMES(VOLUME) " FROM volumes ORDER BY tenant, name", NULL,
		       &(struct db_table){volume_columns, sizeof(struct store_volume), NULL}, arg);
}

fallible store_volumes_load(struct store *store, struct arena *arena, struct store_volume **out,
			    size_t *out_count)
{
	struct rows rows = {.arena = arena};

	TRY(store_ask(store, store_volumes_read_rows, &rows), "read the volumes of tenants");
	*out = rows.at;
	*out_count = rows.count;
	return OK;
}
