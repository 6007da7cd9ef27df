// Rows of stored responses, by the hash of tenant and idempotency key. A write is queued and never
// waited for. A row that cannot be parsed is skipped: its response cannot be repeated.
#include "store/idempotency.h"

#include "store/rows.h"

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
	const struct store_idempotency *idempotency = &((struct writing *)arg)->idempotency;
	auto_query query = {0};

	TRY(query_open(
		db,
		"INSERT INTO idempotency (key, hash, status, place, body, kept) VALUES ($1, $2,"
		" $3, $4, $5, $6) ON CONFLICT (key) DO UPDATE SET hash = excluded.hash,"
		" status = excluded.status, place = excluded.place, body = excluded.body,"
		" kept = excluded.kept",
		&query));
	query_put_text(&query, idempotency->key);
	query_put_bytes(&query, idempotency->hash, sizeof(idempotency->hash));
	query_put_int(&query, idempotency->status);
	query_put_text(&query, idempotency->place);
	query_put_bytes(&query, idempotency->body.at, idempotency->body.len);
	query_put_int(&query, idempotency->kept_ms);
	return query_run(&query, NULL);
}

void store_idempotency_rows_put(struct store *store, const struct store_idempotency *idempotency)
{
	struct arena *arena = arena_new();
	struct writing *writing = arena_take(arena, sizeof(*writing));

	*writing = (struct writing){.arena = arena, .idempotency = *idempotency};
	writing->idempotency.key = arena_dup(arena, idempotency->key, strlen(idempotency->key));
	writing->idempotency.place = arena_dup(arena, idempotency->place,
					       strlen(idempotency->place));
	writing->idempotency.body.at = arena_dup(
		arena, idempotency->body.at ? idempotency->body.at : "", idempotency->body.len);
	store_tell(store, idempotency_rows_put, writing, drop_writing);
}

struct search {
	int64_t since_ms;
	struct rows rows;
	struct store_idempotency *at;
};

static struct err *idempotency_rows_forget(struct db *db, void *arg)
{
	auto_query query = {0};

	TRY(query_open(db, "DELETE FROM idempotency WHERE kept < $1", &query));
	query_put_int(&query, *(int64_t *)arg);
	return query_run(&query, NULL);
}

struct idempotency_rows_pruning {
	int64_t since_ms;
	uint64_t keep;
};

static struct err *idempotency_rows_prune(struct db *db, void *arg)
{
	struct idempotency_rows_pruning *pruning = arg;
	auto_query query = {0};

	TRY(idempotency_rows_forget(db, &pruning->since_ms));
	TRY(query_open(
		db,
		"DELETE FROM idempotency WHERE kept <= (SELECT kept FROM idempotency ORDER BY kept"
		" DESC LIMIT 1 OFFSET $1)",
		&query));
	query_put_int(&query, (int64_t)pruning->keep);
	return query_run(&query, NULL);
}

fallible store_idempotency_rows_prune(struct store *store, int64_t since_ms, uint64_t keep)
{
	struct idempotency_rows_pruning pruning = {.since_ms = since_ms, .keep = keep};

	return store_do_last(store, idempotency_rows_prune, &pruning);
}

static struct err *idempotency_rows_find(struct db *db, void *arg)
{
	struct search *search = arg;
	auto_query query = {0};
	bool found;

	search->rows.count = 0;
	TRY(query_open(
		db,
		"SELECT key, hash, status, place, body, kept FROM idempotency WHERE kept >= $1"
		" ORDER BY kept, key",
		&query));
	query_put_int(&query, search->since_ms);
	for (;;) {
		struct arena *arena = search->rows.arena;
		struct store_idempotency *idempotency;
		void *at = search->at;
		struct str hash, body;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		idempotency = rows_next(&search->rows, &at, sizeof(*idempotency));
		search->at = at;
		idempotency->key = query_take_text(&query, arena);
		hash = query_take(&query);
		if (hash.len == SECRET_HASH)
			memcpy(idempotency->hash, hash.at, hash.len);
		idempotency->status = (int)query_take_int(&query);
		idempotency->place = query_take_text(&query, arena);
		body = query_take(&query);
		idempotency->body = (struct str){
			arena_dup(arena, body.len ? body.at : "", body.len), body.len};
		idempotency->kept_ms = query_take_int(&query);
		if (query.bad || hash.len != SECRET_HASH || !idempotency->status)
			search->rows.count--; // a response that cannot be repeated
	}
}

fallible store_idempotency_rows_load(struct store *store, int64_t since_ms, struct arena *arena,
				     struct store_idempotency **out, size_t *out_count)
{
	struct search search = {.since_ms = since_ms, .rows = {.arena = arena}};
	auto_err err = store_do_last(store, idempotency_rows_forget, &since_ms);

	// Old rows that cannot be removed now are skipped.
	if (err && !db_is_unwritable(err))
		return take_ptr(err);
	TRY(store_ask(store, idempotency_rows_find, &search), "look for idempotency keys");
	*out = search.at;
	*out_count = search.rows.count;
	return OK;
}
