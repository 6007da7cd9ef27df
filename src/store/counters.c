// Monotonic counters in the table of the same name. A counter is raised in the caller's
// transaction, so that a rollback leaves no gap.
#include "store/counters.h"

static fallible begin_at_one(struct db *db, const char *name)
{
	auto_query query = {0};

	TRY(query_open(db, "INSERT INTO counters (name, value) VALUES ($1, 1)", &query));
	query_put_text(&query, name);
	return query_run(&query, NULL);
}

// The value of one matching row; 0: none.
static fallible counters_read_value(struct db *db, const char *sql, const char *name, uint64_t *out)
{
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db, sql, &query));
	query_put_text(&query, name);
	TRY(query_step(&query, &found));
	*out = found ? (uint64_t)query_take_int(&query) : 0;
	return OK;
}

#define VALUE_OF "SELECT value FROM counters WHERE name = $1"

// Raise first, then read: the row is locked by us. A single INSERT … ON CONFLICT … RETURNING is
// slower: SQLite materialises the returned rows in a temporary table.
fallible counter_next(struct db *db, const char *what, const char *of, uint64_t *out)
{
	auto_free char *name = mem_fmt("%s/%s", what, of);
	auto_query query = {0};
	uint64_t raised = 0;

	TRY(query_open(db, "UPDATE counters SET value = value + 1 WHERE name = $1", &query));
	query_put_text(&query, name);
	TRY(query_run(&query, &raised));
	if (!raised)
		TRY(begin_at_one(db, name));
	return counters_read_value(db, VALUE_OF, name, out);
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

	return counters_read_value(db,
				   of ? VALUE_OF
				      : "SELECT coalesce(max(value), 0) FROM counters WHERE"
					" substr(name, 1, length($1)) = $1",
				   name, out);
}
