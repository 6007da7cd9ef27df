// Key-value table for small state. The writes of a name are ordered with all others;
// store_kv_queue() queues and does not wait.
#include "store/kv.h"

#include "base/clock.h"

struct writing {
	const char *name;
	struct str value;
};

fallible store_kv_put_in(struct db *db, const char *name, struct str value)
{
	return db_run(db,
		      "INSERT INTO kv (name, value, time) VALUES ($1, $2, $3) ON CONFLICT (name)"
		      " DO UPDATE SET value = excluded.value, time = excluded.time",
		      DB_WITH(db_text(name), db_data(value), db_int(clock_wall_ms())), NULL);
}

fallible store_kv_drop_in(struct db *db, const char *name)
{
	return db_run(db, "DELETE FROM kv WHERE name = $1", DB_WITH(db_text(name)), NULL);
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

void store_kv_queue(struct store *store, const char *name, struct str value)
{
	struct writing *writing = mem_new_of(struct writing);

	writing->name = mem_str(name);
	if (value.at)
		writing->value = (struct str){mem_dup(value.at, value.len), value.len};
	store_queue(store, kv_change, writing, drop_writing);
}

struct kv_search {
	const char *prefix;
	struct rows rows;
};

static struct err *kv_find(struct db *db, void *arg)
{
	static const struct db_column columns[] = {DB_COLUMN(struct store_kv, name, TEXT) DB_COLUMN(
		struct store_kv, value, BYTES) DB_COLUMN(struct store_kv, time_ms, INT){0}};
	struct kv_search *search = arg;

	return db_rows(db,
		       "SELECT name, value, time FROM kv WHERE substr(name, 1, length($1)) = $1"
		       " ORDER BY name",
		       DB_WITH(db_text(search->prefix)),
		       &(struct db_table){columns, sizeof(struct store_kv), NULL}, &search->rows);
}

fallible store_kv_load(struct store *store, const char *prefix, struct arena *arena,
		       struct store_kv **out, size_t *out_count)
{
	struct kv_search search = {.prefix = prefix, .rows = {.arena = arena}};

	TRY(store_ask(store, kv_find, &search), "look for names");
	*out = search.rows.at;
	*out_count = search.rows.count;
	return OK;
}
