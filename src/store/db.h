// Queries, for every driver. SQL is the common subset of SQLite and PostgreSQL: parameters are $1,
// $2 … in the order in which they first occur; types are BIGINT, TEXT and BYTEA; ON CONFLICT and
// RETURNING exist.
//
// A connection belongs to one thread. A query binds its parameters in order, steps, and takes the
// columns of each row in order.
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
	bool bad; // a column had the wrong type: sticky until the next step
};

// `sql` is a literal: it is prepared once and cached by its address. One open query per text.
fallible query_open(struct db *db, const char *sql, struct query *out);
void query_close(struct query *query); // harmless twice
#define auto_query on_exit_call(query_close) struct query

void query_put_int(struct query *query, int64_t value);
void query_put_text(struct query *query, const char *text); // NULL: null
void query_put_str(struct query *query, struct str text);   // at == NULL: null
void query_put_bytes(struct query *query, const void *bytes, size_t len);

// *out_row: there is a row, and its columns can be taken.
fallible query_step(struct query *query, bool *out_row);
// For statements without rows. The number of changed rows; `out_count` may be NULL.
fallible query_run(struct query *query, uint64_t *out_count);

int64_t query_take_int(struct query *query);
struct str query_take(struct query *query); // text or bytes; borrowed until the next step
// The same, copied; never NULL.
const char *query_take_text(struct query *query, struct arena *arena);

// Several statements without rows, separated by semicolons.
fallible db_script(struct db *db, const char *sql);

// The errors of a store. UNAVAILABLE state_unwritable: full, read-only, I/O error; it may pass.
// UNAVAILABLE state_corrupt: the data cannot be read. CONFLICT state_conflict: a row of that key
// exists. Everything else is INTERNAL.
#define DB_UNWRITABLE "state_unwritable"
#define DB_CORRUPT "state_corrupt"
bool db_is_unwritable(const struct err *err);
bool db_is_corrupt(const struct err *err);
