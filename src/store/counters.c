// Monotonic counters in the table of the same name. A counter is raised in the caller's
// transaction, so that a rollback leaves no gap.
#include "store/counters.h"

#define VALUE_OF "SELECT value FROM counters WHERE name = $1"

// Raise first, then read: the row is locked by us. A single INSERT … ON CONFLICT … RETURNING is
// slower: SQLite materialises the returned rows in a temporary table.
fallible counter_next(struct db *db, const char *what, const char *of, uint64_t *out)
{
	auto_free char *name = mem_fmt("%s/%s", what, of);
	uint64_t raised = 0;

	TRY(db_run(db, "UPDATE counters SET value = value + 1 WHERE name = $1",
		   DB_WITH(db_text(name)), &raised));
	if (!raised)
		TRY(db_run(db, "INSERT INTO counters (name, value) VALUES ($1, 1)",
			   DB_WITH(db_text(name)), NULL));
	return db_number(db, VALUE_OF, DB_WITH(db_text(name)), out);
}

fallible counter_raise(struct db *db, const char *name, uint64_t least)
{
	return db_run(db,
		      "INSERT INTO counters (name, value) VALUES ($1, $2) ON CONFLICT (name)"
		      " DO UPDATE SET value = excluded.value WHERE excluded.value > counters.value",
		      DB_WITH(db_text(name), db_int((int64_t)least)), NULL);
}

fallible counter_read(struct db *db, const char *what, const char *of, uint64_t *out)
{
	auto_free char *name = mem_fmt("%s/%s", what, of ? of : "");

	return db_number(db,
			 of ? VALUE_OF
			    : "SELECT coalesce(max(value), 0) FROM counters WHERE"
			      " substr(name, 1, length($1)) = $1",
			 DB_WITH(db_text(name)), out);
}
