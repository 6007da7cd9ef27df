// Key-value table for small state. The writes of a name are ordered with all others;
// store_kv_tell() queues and does not wait.
#include "store/kv.h"

#include "base/clock.h"
#include "store/rows.h"

struct writing {
	const char *name;
	struct str value;
};

fallible store_kv_put_in(struct db *db, const char *name, struct str value)
{
	auto_query query = {0};

	TRY(query_open(db,
		       "INSERT INTO kv (name, value, time) VALUES ($1, $2, $3) ON CONFLICT (name)"
		       " DO UPDATE SET value = excluded.value, time = excluded.time",
		       &query));
	query_put_text(&query, name);
	query_put_bytes(&query, value.at, value.len);
	query_put_int(&query, clock_wall_ms());
	return query_run(&query, NULL);
}

fallible store_kv_drop_in(struct db *db, const char *name)
{
	auto_query query = {0};

	TRY(query_open(db, "DELETE FROM kv WHERE name = $1", &query));
	query_put_text(&query, name);
	return query_run(&query, NULL);
}

static struct err *kv_change(struct db *db, void *arg)
{
	const struct writing *writing = arg;

	return writing->value.at ? store_kv_put_in(db, writing->name, writing->value)
				 : store_kv_drop_in(db, writing->name);
}

fallible store_kv_put(struct store *store, const char *name, struct str value)
{
	struct str some = value.at ? value : STR("");

	return store_do(store, kv_change, &(struct writing){name, some});
}

fallible store_kv_drop(struct store *store, const char *name)
{
	return store_do_last(store, kv_change, &(struct writing){.name = name});
}

static void drop_writing(void *arg)
{
	struct writing *writing = arg;

	free((char *)writing->name);
	free((char *)writing->value.at);
	free(writing);
}

void store_kv_tell(struct store *store, const char *name, struct str value)
{
	struct writing *writing = mem_new_of(struct writing);

	writing->name = mem_str(name);
	if (value.at)
		writing->value = (struct str){mem_dup(value.at, value.len), value.len};
	store_tell(store, kv_change, writing, drop_writing);
}

struct search {
	const char *prefix;
	struct rows rows;
	struct store_kv *at;
};

static struct err *kv_find(struct db *db, void *arg)
{
	struct search *search = arg;
	auto_query query = {0};
	bool found;

	search->rows.count = 0;
	TRY(query_open(db,
		       "SELECT name, value, time FROM kv WHERE substr(name, 1, length($1)) = $1"
		       " ORDER BY name",
		       &query));
	query_put_text(&query, search->prefix);
	for (;;) {
		struct store_kv *kv;
		void *at = search->at;
		struct str value;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		kv = rows_next(&search->rows, &at, sizeof(*kv));
		search->at = at;
		kv->name = query_take_text(&query, search->rows.arena);
		value = query_take(&query);
		kv->value = (struct str){
			arena_dup(search->rows.arena, value.len ? value.at : "", value.len),
			value.len};
		kv->time_ms = query_take_int(&query);
	}
}

fallible store_kv_load(struct store *store, const char *prefix, struct arena *arena,
		       struct store_kv **out, size_t *out_count)
{
	struct search search = {.prefix = prefix, .rows = {.arena = arena}};

	TRY(store_ask(store, kv_find, &search), "look for names");
	*out = search.at;
	*out_count = search.rows.count;
	return OK;
}
