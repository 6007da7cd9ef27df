// Rows of stored responses, by the hash of tenant and idempotency key. A write is queued and never
// waited for. A row that cannot be parsed is skipped: its response cannot be repeated.
#include "store/idempotency.h"

// clang-format off
#define ROW(KEY, FIRST, NEXT) \
	KEY(1,   key,     "key",    TEXT) \
	FIRST(2, hash,    "hash",   HASH) \
	NEXT(3,  status,  "status", INT) \
	NEXT(4,  place,   "place",  TEXT) \
	NEXT(5,  body,    "body",   BYTES) \
	NEXT(6,  kept_ms, "kept",   INT)
// clang-format on
static const struct db_column idempotency_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_idempotency, field, type)
	ROW(F, F, F){0}
#undef F
};

struct writing {
	struct arena *arena;
	struct store_idempotency idempotency;
};

static void drop_writing(void *arg)
{
	arena_free(((struct writing *)arg)->arena);
}

static struct err *idempotency_rows_put(struct db *db, void *arg)
{
	return db_put(db, DB_UPSERT("idempotency", "key", ROW), idempotency_columns,
		      &((struct writing *)arg)->idempotency, NULL);
}

void store_idempotency_rows_put(struct store *store, const struct store_idempotency *idempotency)
{
	struct arena *arena = arena_new();
	struct writing *writing = arena_take(arena, sizeof(*writing));

	*writing = (struct writing){.arena = arena, .idempotency = *idempotency};
	db_copy_texts(idempotency_columns, arena, &writing->idempotency);
	store_queue(store, idempotency_rows_put, writing, drop_writing);
}

static struct err *idempotency_rows_forget(struct db *db, void *arg)
{
	return db_run(db, "DELETE FROM idempotency WHERE kept < $1",
		      DB_WITH(db_int(*(int64_t *)arg)), NULL);
}

struct idempotency_rows_pruning {
	int64_t since_ms;
	uint64_t keep;
};

static struct err *idempotency_rows_prune(struct db *db, void *arg)
{
	struct idempotency_rows_pruning *pruning = arg;

	TRY(idempotency_rows_forget(db, &pruning->since_ms));
	return db_run(
		db,
		"DELETE FROM idempotency WHERE kept <= (SELECT kept FROM idempotency ORDER BY kept"
		" DESC LIMIT 1 OFFSET $1)",
		DB_WITH(db_int((int64_t)pruning->keep)), NULL);
}

fallible store_idempotency_rows_prune(struct store *store, int64_t since_ms, uint64_t keep)
{
	struct idempotency_rows_pruning pruning = {.since_ms = since_ms, .keep = keep};

	return store_do_last(store, idempotency_rows_prune, &pruning);
}

// A response that cannot be repeated is dropped.
static bool idempotency_is_whole(void *row, bool bad)
{
	return !bad && ((struct store_idempotency *)row)->status;
}

struct idempotency_search {
	int64_t since_ms;
	struct rows rows;
};

static struct err *idempotency_rows_find(struct db *db, void *arg)
{
	static const struct db_table table = {idempotency_columns, sizeof(struct store_idempotency),
					      idempotency_is_whole};
	struct idempotency_search *search = arg;

	return db_rows(
		db, "SELECT " DB_NAMES(ROW) " FROM idempotency WHERE kept >= $1 ORDER BY kept, key",
		DB_WITH(db_int(search->since_ms)), &table, &search->rows);
}

fallible store_idempotency_rows_load(struct store *store, int64_t since_ms, struct arena *arena,
				     struct store_idempotency **out, size_t *out_count)
{
	struct idempotency_search search = {.since_ms = since_ms, .rows = {.arena = arena}};
	auto_err err = store_do_last(store, idempotency_rows_forget, &since_ms);

	// Old rows that cannot be removed now are skipped.
	if (err && !db_is_unwritable(err))
		return take_ptr(err);
	TRY(store_ask(store, idempotency_rows_find, &search), "look for idempotency keys");
	*out = search.rows.at;
	*out_count = search.rows.count;
	return OK;
}
