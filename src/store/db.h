// Queries, for every driver. SQL is the common subset of SQLite and PostgreSQL: parameters are $1,
// $2 … in the order in which they first occur; types are BIGINT, TEXT and BYTEA; ON CONFLICT and
// RETURNING exist.
//
// A connection belongs to one thread. A query binds its parameters in order, steps, and takes the
// columns of each row in order.
//
//	auto_query q = {0};
//
//	TRY(query_open(db, "SELECT name FROM boxes WHERE id = $1", &q));
//	query_put(&q, DB_WITH(db_text(id)));
//	TRY(query_step(&q, &found));
//	if (found)
//		name = query_take(&q);
//
// Most statements need less: db_run(), db_number(), db_rows().
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

struct db;

struct query {
	struct db *db;
	void *statement;
	int put, taken;
	bool bad; // a column had the wrong type: sticky until the next step
};

// `sql` is a literal: it is prepared once and cached by its address. One open query per text.
fallible query_open(struct db *db, const char *sql, struct query *out);
void query_close(struct query *query); // harmless twice
#define auto_query on_exit_call(query_close) struct query

enum db_type {
	DB_END,	  // ends a list
	DB_INT,	  // of any size
	DB_TEXT,  // const char *; as a parameter, NULL is null; in a row, NULL is ""
	DB_BYTES, // struct str
	DB_HASH,  // an array of bytes, of that length exactly
	DB_ROOM,  // an array of char for a text with its NUL
};

// Parameters of a statement: DB_WITH(db_text(id), db_int(5)).
struct db_value {
	enum db_type type;
	int64_t number;
	struct str text;
};
static inline struct db_value db_int(int64_t number)
{
	return (struct db_value){.type = DB_INT, .number = number};
}
static inline struct db_value db_text(const char *text)
{
	return (struct db_value){.type = DB_TEXT, .text = str_of(text)};
}
static inline struct db_value db_data(struct str bytes)
{
	return (struct db_value){.type = DB_BYTES, .text = bytes};
}
#define DB_WITH(...) ((const struct db_value[]){__VA_ARGS__, {.type = DB_END}})

void query_put(struct query *query, const struct db_value *with); // NULL: none

// *out_row: there is a row, and its columns can be taken.
fallible query_step(struct query *query, bool *out_row);

int64_t query_take_int(struct query *query);
struct str query_take(struct query *query); // text or bytes; borrowed until the next step
// The same, copied; never NULL.
const char *query_take_text(struct query *query, struct arena *arena);

// A statement without rows. The number of changed rows; `out_count` may be NULL.
fallible db_run(struct db *db, const char *sql, const struct db_value *with, uint64_t *out_count);
// The number in the first row; 0: there is no row.
fallible db_number(struct db *db, const char *sql, const struct db_value *with, uint64_t *out);

// A record that is one row of a table is described once, as a macro TABLE(KEY, FIRST, NEXT) of
// rows (place, field, "column", type): the key, the first other column, and the next ones. The
// texts of its statements and the array of its columns come from the rows.
#define DB_NAMES(TABLE) TABLE(DB_NAME_, DB_NEXT_NAME_, DB_NEXT_NAME_)	  // "id, a, b"
#define DB_OTHER_NAMES(TABLE) TABLE(DB_NONE_, DB_NAME_, DB_NEXT_NAME_)	  // "a, b"
#define DB_PLACES(TABLE) TABLE(DB_PLACE_, DB_NEXT_PLACE_, DB_NEXT_PLACE_) // "$1, $2, $3"
#define DB_REPLACE(TABLE) TABLE(DB_NONE_, DB_SET_, DB_NEXT_SET_)	  // "a = excluded.a, …"
#define DB_UPSERT(table, key, TABLE)                                                               \
	"INSERT INTO " table                                                                       \
	" (" DB_NAMES(TABLE) ") VALUES (" DB_PLACES(TABLE) ") ON CONFLICT (" key                   \
							   ") DO UPDATE SET " DB_REPLACE(TABLE)
#define DB_NAME_(place, field, column, type) column
#define DB_NEXT_NAME_(place, field, column, type) ", " column
#define DB_PLACE_(place, field, column, type) "$" #place
#define DB_NEXT_PLACE_(place, field, column, type) ", $" #place
#define DB_SET_(place, field, column, type) column " = excluded." column
#define DB_NEXT_SET_(place, field, column, type) ", " column " = excluded." column
#define DB_NONE_(place, field, column, type)
struct db_column {
	enum db_type type;
	uint16_t offset, size;
};
#define DB_COLUMN(of, field, type) {DB_##type, offsetof(of, field), sizeof(((of *)NULL)->field)},
void query_put_row(struct query *query, const struct db_column *columns, const void *row);
// Texts and bytes are copied to the arena.
void query_take_row(struct query *query, const struct db_column *columns, struct arena *arena,
		    void *row);
// Copies the texts and bytes of a row to the arena: the row can be queued.
void db_copy_texts(const struct db_column *columns, struct arena *arena, void *row);
// Runs an INSERT of `row`. `out_count` as in db_run().
fallible db_put(struct db *db, const char *sql, const struct db_column *columns, const void *row,
		uint64_t *out_count);

// A result of unknown length: an array that grows in an arena.
struct rows {
	struct arena *arena;
	void *at;
	size_t count, room;
};
void *rows_next(struct rows *rows, size_t size); // one more element, zeroed
struct db_table {
	const struct db_column *columns;
	size_t size;			   // of an element
	bool (*keep)(void *row, bool bad); // false: drops the row; NULL: every row is kept
};
// All rows. Replaces what was in *out.
fallible db_rows(struct db *db, const char *sql, const struct db_value *with,
		 const struct db_table *table, struct rows *out);

// Several statements without rows, separated by semicolons.
fallible db_script(struct db *db, const char *sql);

// The errors of a store. UNAVAILABLE state_unwritable: full, read-only, I/O error; it may pass.
// UNAVAILABLE state_corrupt: the data cannot be read. CONFLICT state_conflict: a row of that key
// exists. Everything else is INTERNAL.
#define DB_UNWRITABLE "state_unwritable"
#define DB_CORRUPT "state_corrupt"
bool db_is_unwritable(const struct err *err);
bool db_is_corrupt(const struct err *err);

// Counters that only grow, raised in the transaction of the rows that they number: a failed batch
// leaves no gap. A name is "WHAT/OF", each part of any length.
fallible counter_next(struct db *db, const char *what, const char *of, uint64_t *out);
fallible counter_raise(struct db *db, const char *name, uint64_t least); // the whole name
// 0: none. `of` NULL: the maximum of all counters of `what`.
fallible counter_read(struct db *db, const char *what, const char *of, uint64_t *out);
