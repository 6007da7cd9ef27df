#include "store/counters.h"

fallible counter_next(struct db *db, const char *what, const char *of, uint64_t *out)
{
	auto_free char *name = mem_fmt("%s/%s", what, of);
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db,
		       "INSERT INTO counters (name, value) VALUES ($1, 1) ON CONFLICT (name)"
		       " DO UPDATE SET value = counters.value + 1 RETURNING value",
		       &query));
	query_put_text(&query, name);
	TRY(query_step(&query, &found));
	if (!found)
		return err_sys(0, "the counter %s gave no number", name);
	*out = (uint64_t)query_take_int(&query);
	return OK;
}

fallible counter_raise(struct db *db, const char *what, const char *of, uint64_t least)
{
	auto_free char *name = mem_fmt("%s/%s", what, of);
	auto_query query = {0};

	TRY(query_open(
		db,
		"INSERT INTO counters (name, value) VALUES ($1, $2) ON CONFLICT (name)"
		" DO UPDATE SET value = excluded.value WHERE excluded.value > counters.value",
		&query));
	query_put_text(&query, name);
	query_put_int(&query, (int64_t)least);
	return query_run(&query, NULL);
}

fallible counter_read(struct db *db, const char *what, const char *of, uint64_t *out)
{
	auto_free char *name = mem_fmt("%s/%s", what, of ? of : "");
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db,
		       of ? "SELECT value FROM counters WHERE name = $1"
			  : "SELECT coalesce(max(value), 0) FROM counters WHERE"
			    " substr(name, 1, length($1)) = $1",
		       &query));
	query_put_text(&query, name);
	TRY(query_step(&query, &found));
	*out = found ? (uint64_t)query_take_int(&query) : 0;
	return OK;
}
