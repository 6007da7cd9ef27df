// Queries on any driver: binds parameters and takes columns in order, over the table of functions
// in db_private.h. Records are put and taken by their table of columns. A column of the wrong type
// sets `bad` of the query, which the caller checks.
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

static void query_put_value(struct query *query, const struct db_value *value)
{
	const struct db_driver *driver = query->db->driver;
	int at = ++query->put;

	if (value->type == DB_INT)
		driver->put_int(query->statement, at, value->number);
	else if (value->type == DB_TEXT)
		driver->put_text(query->statement, at, value->text);
	else
		driver->put_bytes(query->statement, at, value->text.at, value->text.len);
}

void query_put(struct query *query, const struct db_value *with)
{
	for (; with && with->type != DB_END; with++)
		query_put_value(query, with);
}

fallible query_step(struct query *query, bool *out_row)
{
	query->taken = 0;
	query->bad = false;
	return query->db->driver->step(query->db, query->statement, out_row);
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

static fallible query_run(struct query *query, uint64_t *out_count)
{
	bool row = false;

	TRY(query_step(query, &row));
	if (out_count)
		*out_count = query->db->driver->touched(query->db, query->statement);
	return OK;
}

fallible db_run(struct db *db, const char *sql, const struct db_value *with, uint64_t *out_count)
{
	auto_query query = {0};

	TRY(query_open(db, sql, &query));
	query_put(&query, with);
	return query_run(&query, out_count);
}

fallible db_number(struct db *db, const char *sql, const struct db_value *with, uint64_t *out)
{
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db, sql, &query));
	query_put(&query, with);
	TRY(query_step(&query, &found));
	*out = found ? (uint64_t)query_take_int(&query) : 0; // null is 0, too
	return OK;
}

static int64_t column_int(const struct db_column *column, const void *field)
{
	switch (column->size) {
	case 1:
		return *(const uint8_t *)field;
	case 2:
		return *(const uint16_t *)field;
	case 4:
		return *(const int32_t *)field;
	default:
		return *(const int64_t *)field;
	}
}

static void column_set_int(const struct db_column *column, void *field, int64_t value)
{
	if (column->size == 1)
		*(uint8_t *)field = value != 0; // a bool
	else if (column->size == 2)
		*(uint16_t *)field = (uint16_t)value;
	else if (column->size == 4)
		*(int32_t *)field = (int32_t)value;
	else
		*(int64_t *)field = value;
}

void query_put_row(struct query *query, const struct db_column *columns, const void *row)
{
	for (const struct db_column *column = columns; column->type != DB_END; column++) {
		const void *field = (const char *)row + column->offset;
		struct db_value value;

		switch (column->type) {
		case DB_INT:
			value = db_int(column_int(column, field));
			break;
		case DB_BYTES:
			value = db_data(*(const struct str *)field);
			break;
		case DB_HASH:
			value = db_data((struct str){field, column->size});
			break;
		case DB_ROOM:
			value = db_text(field);
			break;
		default:
			value = db_text(*(const char *const *)field);
			if (!value.text.at)
				value.text = STR("");
		}
		query_put_value(query, &value);
	}
}

static void column_take_bytes(struct query *query, const struct db_column *column, char *field)
{
	struct str bytes = query_take(query);
	bool is_text = column->type == DB_ROOM;

	if (is_text ? bytes.len >= column->size || (bytes.len && memchr(bytes.at, 0, bytes.len))
		    : bytes.len != column->size)
		query->bad = true;
	else if (bytes.len)
		memcpy(field, bytes.at, bytes.len);
}

void query_take_row(struct query *query, const struct db_column *columns, struct arena *arena,
		    void *row)
{
	for (const struct db_column *column = columns; column->type != DB_END; column++) {
		void *field = (char *)row + column->offset;
		struct str bytes;

		switch (column->type) {
		case DB_INT:
			column_set_int(column, field, query_take_int(query));
			break;
		case DB_TEXT:
			*(const char **)field = query_take_text(query, arena);
			break;
		case DB_BYTES:
			bytes = query_take(query);
			*(struct str *)field = (struct str){
				arena_dup(arena, bytes.len ? bytes.at : "", bytes.len), bytes.len};
			break;
		default:
			column_take_bytes(query, column, field);
		}
	}
}

void db_copy_texts(const struct db_column *columns, struct arena *arena, void *row)
{
	for (const struct db_column *column = columns; column->type != DB_END; column++) {
		void *field = (char *)row + column->offset;
		struct str *bytes = field;
		const char **text = field;

		if (column->type == DB_BYTES && bytes->at)
			bytes->at = arena_dup(arena, bytes->at, bytes->len);
		else if (column->type == DB_TEXT && *text)
			*text = arena_dup(arena, *text, strlen(*text));
	}
}

fallible db_put(struct db *db, const char *sql, const struct db_column *columns, const void *row,
		uint64_t *out_count)
{
	auto_query query = {0};

	TRY(query_open(db, sql, &query));
	query_put_row(&query, columns, row);
	return query_run(&query, out_count);
}

void *rows_next(struct rows *rows, size_t size)
{
	if (rows->count == rows->room) {
		size_t room = rows->room ? rows->room * 2 : 16;
		char *grown = arena_take(rows->arena, room * size);

		if (rows->count)
			memcpy(grown, rows->at, rows->count * size);
		rows->at = grown;
		rows->room = room;
	}
	return (char *)rows->at + rows->count++ * size;
}

fallible db_rows(struct db *db, const char *sql, const struct db_value *with,
		 const struct db_table *table, struct rows *out)
{
	auto_query query = {0};
	bool found = false;

	*out = (struct rows){.arena = out->arena};
	TRY(query_open(db, sql, &query));
	query_put(&query, with);
	for (;;) {
		void *row;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		row = rows_next(out, table->size);
		query_take_row(&query, table->columns, out->arena, row);
		if (table->keep && !table->keep(row, query.bad)) {
			memset(row, 0, table->size);
			out->count--;
		}
	}
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

// --------------------------------------------------------------------------------------- counters

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
