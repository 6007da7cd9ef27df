// Statements, as every store understands them. SQL here is what SQLite and PostgreSQL both read:
// parameters are $1, $2 …, in the order in which they first occur in the text; types are BIGINT,
// TEXT and BYTEA; ON CONFLICT and RETURNING are there.
//
// A connection belongs to one thread: the store's writer. A question binds its parameters in order,
// steps, and takes the columns of each row in order.
//
//	struct err *err;
//	auto_query q = {0};
//
//	TRY(query_open(db, "SELECT name FROM boxes WHERE id = $1", &q));
//	query_put_text(&q, id);
//	TRY(query_step(&q, &found));
//	if (found)
//		name = query_take(&q);
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

struct db;

struct query {
	struct db *db;
	void *statement;
	int put, taken;
	bool bad; // a column held something else than it was taken for: sticky until the next step
};

// `sql` is a literal: it is prepared once and kept by its address. One query of a text at a time.
fallible query_open(struct db *db, const char *sql, struct query *out);
void query_close(struct query *query); // harmless twice
#define auto_query on_exit_call(query_close) struct query

void query_put_int(struct query *query, int64_t value);
void query_put_text(struct query *query, const char *text); // NULL: null
void query_put_str(struct query *query, struct str text);   // at == NULL: null
void query_put_bytes(struct query *query, const void *bytes, size_t len);

// *out_row: there is one, and its columns can be taken.
fallible query_step(struct query *query, bool *out_row);
// For what returns nothing. How many rows it touched; `out_count` may be NULL.
fallible query_run(struct query *query, uint64_t *out_count);

int64_t query_take_int(struct query *query);
struct str query_take(struct query *query); // text or bytes; borrowed until the next step
// The same, copied; never NULL.
const char *query_take_text(struct query *query, struct arena *arena);

// Several statements that return nothing, with semicolons between them.
fallible db_script(struct db *db, const char *sql);

// What all errors of a store look like. UNAVAILABLE state_unwritable: full, read-only, an I/O
// error; it may pass. UNAVAILABLE state_corrupt: what is there cannot be read. CONFLICT
// state_conflict: a row of that key exists. Everything else is INTERNAL.
#define DB_UNWRITABLE "state_unwritable"
#define DB_CORRUPT "state_corrupt"
bool db_is_unwritable(const struct err *err);
bool db_is_corrupt(const struct err *err);
