// Queries on any driver: binds parameters and takes columns in order, over the table of functions
// in db_private.h. A column of the wrong type sets `bad` of the query, which the caller checks.
#include "store/db.h"

#include "store/db_private.h"

fallible query_open(struct db *db, const char *sql, struct query *out)
{
	struct query query = {.db = db};

	TRY(db->driver->prepare(db, sql, &query.statement));
	*out = query;
	return OK;
}

void query_close(struct query *query)
{
	if (query->statement)
		query->db->driver->release(query->db, take_ptr(query->statement));
}

void query_put_int(struct query *query, int64_t value)
{
	query->db->driver->put_int(query->statement, ++query->put, value);
}

void query_put_str(struct query *query, struct str text)
{
	query->db->driver->put_text(query->statement, ++query->put, text);
}

void query_put_text(struct query *query, const char *text)
{
	query_put_str(query, str_of(text));
}

void query_put_bytes(struct query *query, const void *bytes, size_t len)
{
	query->db->driver->put_bytes(query->statement, ++query->put, bytes, len);
}

fallible query_step(struct query *query, bool *out_row)
{
	query->taken = 0;
	query->bad = false;
	return query->db->driver->step(query->db, query->statement, out_row);
}

fallible query_run(struct query *query, uint64_t *out_count)
{
	bool row = false;

	TRY(query_step(query, &row));
	if (out_count)
		*out_count = query->db->driver->touched(query->db, query->statement);
	return OK;
}

int64_t query_take_int(struct query *query)
{
	int64_t value = 0;

	if (!query->db->driver->take_int(query->statement, query->taken++, &value))
		query->bad = true;
	return value;
}

struct str query_take(struct query *query)
{
	struct str value = {0};

	if (!query->db->driver->take(query->statement, query->taken++, &value))
		query->bad = true;
	return value;
}

const char *query_take_text(struct query *query, struct arena *arena)
{
	struct str value = query_take(query);

	if (value.len && memchr(value.at, 0, value.len))
		query->bad = true; // a C string would end early
	return arena_dup(arena, value.len ? value.at : "", value.len);
}

fallible db_script(struct db *db, const char *sql)
{
	return db->driver->script(db, sql);
}

void db_close(struct db *db)
{
	if (db)
		db->driver->close(db);
}

uint64_t db_bytes(struct db *db)
{
	return db->driver->bytes(db);
}

fallible db_corrupt(void)
{
	return err_hint(err_new(UNAVAILABLE, DB_CORRUPT, "the stored state cannot be read"),
			"the operator has to restore it; what runs is left alone");
}

bool db_is_unwritable(const struct err *err)
{
	return err && !strcmp(err_reason(err), DB_UNWRITABLE);
}

bool db_is_corrupt(const struct err *err)
{
	return err && !strcmp(err_reason(err), DB_CORRUPT);
}
