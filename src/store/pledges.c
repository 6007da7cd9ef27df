#include "store/pledges.h"

#include "store/rows.h"

struct writing {
	struct arena *arena;
	struct store_pledge pledge;
};

static void drop_writing(void *arg)
{
	arena_free(((struct writing *)arg)->arena);
}

static struct err *pledges_put(struct db *db, void *arg)
{
	const struct store_pledge *pledge = &((struct writing *)arg)->pledge;
	auto_query query = {0};

	TRY(query_open(db,
		       "INSERT INTO pledges (key, hash, status, place, body, kept) VALUES ($1, $2,"
		       " $3, $4, $5, $6) ON CONFLICT (key) DO UPDATE SET hash = excluded.hash,"
		       " status = excluded.status, place = excluded.place, body = excluded.body,"
		       " kept = excluded.kept",
		       &query));
	query_put_text(&query, pledge->key);
	query_put_bytes(&query, pledge->hash, sizeof(pledge->hash));
	query_put_int(&query, pledge->status);
	query_put_text(&query, pledge->place);
	query_put_bytes(&query, pledge->body.at, pledge->body.len);
	query_put_int(&query, pledge->kept_ms);
	return query_run(&query, NULL);
}

void store_pledges_put(struct store *store, const struct store_pledge *pledge)
{
	struct arena *arena = arena_new();
	struct writing *writing = arena_take(arena, sizeof(*writing));

	*writing = (struct writing){.arena = arena, .pledge = *pledge};
	writing->pledge.key = arena_dup(arena, pledge->key, strlen(pledge->key));
	writing->pledge.place = arena_dup(arena, pledge->place, strlen(pledge->place));
	writing->pledge.body.at = arena_dup(arena, pledge->body.at ? pledge->body.at : "",
					    pledge->body.len);
	store_tell(store, pledges_put, writing, drop_writing);
}

struct search {
	int64_t since_ms;
	struct rows rows;
	struct store_pledge *at;
};

static struct err *pledges_forget(struct db *db, void *arg)
{
	auto_query query = {0};

	TRY(query_open(db, "DELETE FROM pledges WHERE kept < $1", &query));
	query_put_int(&query, *(int64_t *)arg);
	return query_run(&query, NULL);
}

struct pledges_pruning {
	int64_t since_ms;
	uint64_t keep;
};

static struct err *pledges_prune(struct db *db, void *arg)
{
	struct pledges_pruning *pruning = arg;
	auto_query query = {0};

	TRY(pledges_forget(db, &pruning->since_ms));
	TRY(query_open(db,
		       "DELETE FROM pledges WHERE kept <= (SELECT kept FROM pledges ORDER BY kept"
		       " DESC LIMIT 1 OFFSET $1)",
		       &query));
	query_put_int(&query, (int64_t)pruning->keep);
	return query_run(&query, NULL);
}

fallible store_pledges_prune(struct store *store, int64_t since_ms, uint64_t keep)
{
	struct pledges_pruning pruning = {.since_ms = since_ms, .keep = keep};

	return store_do_last(store, pledges_prune, &pruning);
}

static struct err *pledges_find(struct db *db, void *arg)
{
	struct search *search = arg;
	auto_query query = {0};
	bool found;

	search->rows.count = 0;
	TRY(query_open(db,
		       "SELECT key, hash, status, place, body, kept FROM pledges WHERE kept >= $1"
		       " ORDER BY kept, key",
		       &query));
	query_put_int(&query, search->since_ms);
	for (;;) {
		struct arena *arena = search->rows.arena;
		struct store_pledge *pledge;
		void *at = search->at;
		struct str hash, body;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		pledge = rows_next(&search->rows, &at, sizeof(*pledge));
		search->at = at;
		pledge->key = query_take_text(&query, arena);
		hash = query_take(&query);
		if (hash.len == SECRET_HASH)
			memcpy(pledge->hash, hash.at, hash.len);
		pledge->status = (int)query_take_int(&query);
		pledge->place = query_take_text(&query, arena);
		body = query_take(&query);
		pledge->body = (struct str){arena_dup(arena, body.len ? body.at : "", body.len),
					    body.len};
		pledge->kept_ms = query_take_int(&query);
		if (query.bad || hash.len != SECRET_HASH || !pledge->status)
			search->rows.count--; // an answer that cannot be repeated
	}
}

fallible store_pledges_load(struct store *store, int64_t since_ms, struct arena *arena,
			    struct store_pledge **out, size_t *out_count)
{
	struct search search = {.since_ms = since_ms, .rows = {.arena = arena}};
	auto_err err = store_do_last(store, pledges_forget, &since_ms);

	// Old ones that cannot be removed now are passed over all the same.
	if (err && !db_is_unwritable(err))
		return take_ptr(err);
	TRY(store_ask(store, pledges_find, &search), "look for idempotency keys");
	*out = search.at;
	*out_count = search.rows.count;
	return OK;
}
