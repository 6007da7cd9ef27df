// The tables of executions. The statement checks the version: a write that touches no row was based
// on an outdated state.
#include "store/executions.h"

#include "store/execution_ends.h"
#include "store/results.h"

// clang-format off
#define ROW(KEY, FIRST, NEXT) \
	KEY(1,    id,       "id",      TEXT) \
	FIRST(2,  tenant,   "tenant",  TEXT) \
	NEXT(3,   profile,  "profile", TEXT) \
	NEXT(4,   task,     "task",    TEXT) \
	NEXT(5,   state,    "state",   TEXT) \
	NEXT(6,   outcome,  "outcome", TEXT) \
	NEXT(7,   mark,     "mark",    TEXT) \
	NEXT(8,   made_ms,  "made",    INT) \
	NEXT(9,   ended_ms, "ended",   INT) \
	NEXT(10,  run_ms,   "run_ms",  INT) \
	NEXT(11,  cpu_ms,   "cpu_ms",  INT) \
	NEXT(12,  memory,   "memory",  INT) \
	NEXT(13,  live,     "live",    INT) \
	NEXT(14,  version,  "version", INT) \
	NEXT(15,  record,   "record",  BYTES) \
	NEXT(16,  inner,    "body",    BYTES) \
	NEXT(17,  repository, "repository", TEXT)
// clang-format on
static const struct db_column execution_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_execution, field, type)
	ROW(F, F, F){0}
#undef F
};
#define COLUMNS DB_NAMES(ROW)

static struct err *executions_put(struct db *db, void *arg)
{
	const struct store_execution_put *put = arg;
	struct store_execution row = *put->row;
	uint64_t count = 0;

	if (row.version) {
		TRY(db_run(
			db,
			"UPDATE executions SET state = $1, outcome = $2, ended = $3, run_ms = $4,"
			" cpu_ms = $5, memory = $6, live = $7, version = version + 1, record = $8,"
			" body = $9 WHERE id = $10 AND version = $11",
			DB_WITH(db_text(row.state), db_text(row.outcome), db_int(row.ended_ms),
				db_int(row.run_ms), db_int(row.cpu_ms), db_int(row.memory),
				db_int(row.live), db_data(row.record), db_data(row.inner),
				db_text(row.id), db_int(row.version)),
			&count));
	} else {
		row.version = 1;
		TRY(db_put(db,
			   "INSERT INTO executions (" COLUMNS
			   ") VALUES (" DB_PLACES(ROW) ") ON CONFLICT (id) DO NOTHING",
			   execution_columns, &row, &count));
		TRY(db_run(db, "INSERT INTO execution_requests (id, body) VALUES ($1, $2)",
			   DB_WITH(db_text(row.id), db_data(put->request)), NULL));
	}
	if (count && put->end)
		TRY(store_execution_ends_add_in(db, put->end));
	if (count && put->results)
		TRY(store_results_put_in(db, put->results));
	return count ? OK : err_new(CONFLICT, "state_stale", "the execution has changed meanwhile");
}

fallible store_executions_put(struct store *store, const struct store_execution_put *put)
{
	struct store_execution_put deed = *put;

	if (put->soon)
		return store_do_soon(store, executions_put, &deed);
	// An end may use the reserve of a full disk.
	return put->row->ends ? store_do_last(store, executions_put, &deed)
			      : store_do(store, executions_put, &deed);
}

struct execution_drop {
	const char *id;
	uint64_t bytes;
};

static struct err *executions_drop(struct db *db, void *arg)
{
	struct execution_drop *drop = arg;
	const char *id = drop->id;
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db, "SELECT LENGTH(body) FROM execution_requests WHERE id = $1", &query));
	query_put(&query, DB_WITH(db_text(id)));
	TRY(query_step(&query, &found));
	drop->bytes = found ? (uint64_t)query_take_int(&query) : 0;
	query_close(&query);
	TRY(db_run(db, "DELETE FROM execution_requests WHERE id = $1", DB_WITH(db_text(id)), NULL));
	return db_run(db, "DELETE FROM executions WHERE id = $1", DB_WITH(db_text(id)), NULL);
}

fallible store_executions_drop(struct store *store, const char *id, uint64_t *out_bytes)
{
	struct execution_drop drop = {id, 0};

	TRY(store_do_last(store, executions_drop, &drop));
	*out_bytes = drop.bytes;
	return OK;
}

// -------------------------------------------------------------------------------- reading

struct execution_sum {
	const char *tenant;
	uint64_t bytes;
};

static struct err *executions_sum_requests(struct db *db, void *arg)
{
	struct rows *rows = arg;
	auto_query query = {0};
	bool found;

	*rows = (struct rows){.arena = rows->arena};
	TRY(query_open(db,
		       "SELECT e.tenant, CAST(SUM(LENGTH(r.body)) AS BIGINT) FROM"
		       " execution_requests r JOIN executions e ON e.id = r.id GROUP BY e.tenant",
		       &query));
	for (;;) {
		struct execution_sum *sum;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		sum = rows_next(rows, sizeof(*sum));
		sum->tenant = query_take_text(&query, rows->arena);
		sum->bytes = (uint64_t)query_take_int(&query);
	}
}

fallible store_executions_requests(struct store *store,
				   void (*each)(void *arg, const char *tenant, uint64_t bytes),
				   void *arg)
{
	auto_arena arena = arena_new();
	struct rows rows = {.arena = arena};
	const struct execution_sum *sums;

	TRY(store_ask(store, executions_sum_requests, &rows), "sum up requests");
	sums = rows.at;
	for (size_t i = 0; i < rows.count; i++)
		each(arg, sums[i].tenant, sums[i].bytes);
	return OK;
}

static bool execution_mark_bad(void *row, bool bad)
{
	((struct store_execution *)row)->unreadable = bad;
	return true;
}

struct execution_search {
	const struct db_column *columns; // NULL: all
	const char *sql;
	const struct db_value *with;
	struct rows rows;
};

static struct err *store_executions_find(struct db *db, void *arg)
{
	const struct execution_search *given = arg;
	const struct db_table table = {given->columns ? given->columns : execution_columns,
				       sizeof(struct store_execution), execution_mark_bad};
	struct execution_search *search = arg;

	return db_rows(db, search->sql, search->with, &table, &search->rows);
}

static fallible executions_search(struct store *store, struct execution_search *search,
				  struct store_execution **out, size_t *out_count)
{
	TRY(store_ask(store, store_executions_find, search), "read executions");
	*out = search->rows.at;
	*out_count = search->rows.count;
	return OK;
}

fallible store_executions_get(struct store *store, const char *id, struct arena *arena,
			      struct store_execution **out)
{
	struct execution_search search = {
		NULL,
		"SELECT " COLUMNS " FROM executions WHERE id = $1",
		DB_WITH(db_text(id)),
		{.arena = arena},
	};
	size_t count;

	return executions_search(store, &search, out, &count);
}

struct execution_request_search {
	const char *id;
	struct arena *arena;
	struct str out;
};

static struct err *executions_read_request(struct db *db, void *arg)
{
	struct execution_request_search *search = arg;
	auto_query query = {0};
	bool found = false;
	struct str body;

	TRY(query_open(db, "SELECT body FROM execution_requests WHERE id = $1", &query));
	query_put(&query, DB_WITH(db_text(search->id)));
	TRY(query_step(&query, &found));
	search->out = (struct str){0};
	if (!found)
		return OK;
	body = query_take(&query);
	search->out = (struct str){arena_dup(search->arena, body.at, body.len), body.len};
	return OK;
}

fallible store_executions_request(struct store *store, const char *id, struct arena *arena,
				  struct str *out)
{
	struct execution_request_search search = {id, arena, {0}};

	TRY(store_ask(store, executions_read_request, &search), "read a request");
	*out = search.out;
	return OK;
}

fallible store_executions_live(struct store *store, struct arena *arena,
			       struct store_execution **out, size_t *out_count)
{
	struct execution_search search = {
		NULL,
		"SELECT " COLUMNS " FROM executions WHERE live = 1 ORDER BY made, id",
		NULL,
		{.arena = arena},
	};

	return executions_search(store, &search, out, out_count);
}

fallible store_executions_marks(struct store *store, int64_t since_ms, struct arena *arena,
				struct store_execution **out, size_t *out_count)
{
	struct execution_search search = {
		NULL,
		"SELECT " COLUMNS " FROM executions WHERE mark <> '' AND made >= $1",
		DB_WITH(db_int(since_ms)),
		{.arena = arena},
	};

	return executions_search(store, &search, out, out_count);
}

#define MADE "SELECT made FROM executions WHERE id = $1"

fallible store_executions_page(struct store *store, const struct store_executions_ask *ask,
			       struct arena *arena, struct store_execution **out, size_t *out_count)
{
	static const struct db_column columns[] = {
		DB_COLUMN(struct store_execution, id, TEXT)
			DB_COLUMN(struct store_execution, record, BYTES){0}};
	struct execution_search search = {
		columns,
		"SELECT id, record FROM executions WHERE ($1 = '' OR made < (" MADE
		") OR (made = (" MADE ") AND id < $1)) AND (tenant = $2 OR $3 = 1) AND ($4 = '' OR"
		" state = $4) AND ($5 = '' OR profile = $5) AND ($6 = '' OR task = $6)"
		" ORDER BY made DESC, id DESC LIMIT $7",
		DB_WITH(db_text(ask->before ? ask->before : ""),
			db_text(ask->tenant ? ask->tenant : ""), db_int(!ask->tenant),
			db_text(ask->state ? ask->state : ""),
			db_text(ask->profile ? ask->profile : ""),
			db_text(ask->task ? ask->task : ""), db_int((int64_t)ask->max)),
		{.arena = arena},
	};

	return executions_search(store, &search, out, out_count);
}

struct execution_use_search {
	const char *tenant, *profile, *repository;
	size_t max;
	struct rows rows;
};

static struct err *executions_find_use(struct db *db, void *arg)
{
#define USE(field) DB_COLUMN(struct store_execution_use, field, INT)
	static const struct db_column columns[] = {USE(memory) USE(cpu_ms) USE(run_ms){0}};
#undef USE
	static const struct db_table table = {columns, sizeof(struct store_execution_use), NULL};
	struct execution_use_search *search = arg;

	return db_rows(db,
		       "SELECT memory, cpu_ms, run_ms FROM executions WHERE tenant = $1 AND"
		       " profile = $2 AND ($3 = '' OR repository = $3) AND outcome = 'completed'"
		       " ORDER BY made DESC LIMIT $4",
		       DB_WITH(db_text(search->tenant), db_text(search->profile),
			       db_text(search->repository), db_int((int64_t)search->max)),
		       &table, &search->rows);
}

fallible store_executions_use(struct store *store, const char *tenant, const char *profile,
			      const char *repository, size_t max, struct arena *arena,
			      struct store_execution_use **out, size_t *out_count)
{
	struct execution_use_search search = {tenant, profile, repository, max, {.arena = arena}};

	TRY(store_ask(store, executions_find_use, &search), "read what executions used");
	*out = search.rows.at;
	*out_count = search.rows.count;
	return OK;
}
