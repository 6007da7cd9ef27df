// The tables of results. Rows of an attempt are written once, in one commit, and name blobs that
// are already on disk. A blob is in use while a row of its tenant names it: the rows are the
// reference counts.
#include "store/results.h"

// clang-format off
#define RESULT(KEY, FIRST, NEXT) \
	KEY(1,   tenant,           "tenant",           TEXT) \
	FIRST(2, execution,        "execution",        TEXT) \
	NEXT(3,  attempt,          "attempt",          INT) \
	NEXT(4,  ended_ms,         "ended",            INT) \
	NEXT(5,  files,            "files",            INT) \
	NEXT(6,  bytes,            "bytes",            INT) \
	NEXT(7,  partial,          "partial",          INT) \
	NEXT(8,  missing,          "missing",          TEXT) \
	NEXT(9,  log,              "log",              TEXT) \
	NEXT(10, times,            "times",            BYTES) \
	NEXT(11, log_bytes,        "log_bytes",        INT) \
	NEXT(12, stdout_bytes,     "stdout_bytes",     INT) \
	NEXT(13, stderr_bytes,     "stderr_bytes",     INT) \
	NEXT(14, stdout_written,   "stdout_written",   INT) \
	NEXT(15, stderr_written,   "stderr_written",   INT) \
	NEXT(16, stdout_truncated, "stdout_truncated", INT) \
	NEXT(17, stderr_truncated, "stderr_truncated", INT) \
	NEXT(18, stdout_sha256,    "stdout_sha256",    TEXT) \
	NEXT(19, stderr_sha256,    "stderr_sha256",    TEXT) \
	NEXT(20, removed,          "removed",          INT)
#define RESULT_FILE(KEY, FIRST, NEXT) \
	KEY(1,   path,   "path",   BYTES) \
	FIRST(2, target, "target", BYTES) \
	NEXT(3,  mode,   "mode",   INT) \
	NEXT(4,  size,   "size",   INT) \
	NEXT(5,  sha256, "sha256", TEXT)
// clang-format on
#define F(of, field, type) DB_COLUMN(of, field, type)
#define RESULT_COLUMN(place, field, column, type) F(struct store_result, field, type)
#define FILE_COLUMN(place, field, column, type) F(struct store_file, field, type)
static const struct db_column result_columns[] = {
	RESULT(RESULT_COLUMN, RESULT_COLUMN, RESULT_COLUMN){0}};
static const struct db_column file_columns[] = {
	RESULT_FILE(FILE_COLUMN, FILE_COLUMN, FILE_COLUMN){0}};
static const struct db_table result_table = {result_columns, sizeof(struct store_result), NULL};
static const struct db_table file_table = {file_columns, sizeof(struct store_file), NULL};
static const struct db_column blob_columns[] = {F(struct store_blob, tenant, TEXT)
							F(struct store_blob, name, TEXT){0}};
static const struct db_table blob_table = {blob_columns, sizeof(struct store_blob), NULL};
#undef F

#define OF_ATTEMPT " WHERE tenant = $1 AND execution = $2 AND attempt = $3"
#define OF_EXECUTION " WHERE tenant = $1 AND execution = $2"
#define KEY_OF(of) db_text((of)->tenant), db_text((of)->execution), db_int((of)->attempt)

struct err *store_results_put_in(struct db *db, const struct store_result_rows *rows)
{
	TRY(db_put(db, "INSERT INTO results (" DB_NAMES(RESULT) ") VALUES (" DB_PLACES(RESULT) ")",
		   result_columns, rows->result, NULL));
	for (size_t i = 0; i < rows->count; i++) {
		const struct store_file *file = &rows->files[i];

		TRY(db_run(db,
			   "INSERT INTO result_files (tenant, execution, attempt, path, target,"
			   " mode, size, sha256) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
			   DB_WITH(KEY_OF(rows->result), db_data(file->path), db_data(file->target),
				   db_int(file->mode), db_int(file->size), db_text(file->sha256)),
			   NULL));
	}
	return OK;
}

// A query for one row or many.
struct results_query {
	const struct store_result *of;
	struct str after;
	size_t max;
	struct rows rows;
};

static struct err *results_find_row(struct db *db, void *arg)
{
	struct results_query *of = arg;

	return db_rows(db, "SELECT " DB_NAMES(RESULT) " FROM results" OF_ATTEMPT,
		       DB_WITH(KEY_OF(of->of)), &result_table, &of->rows);
}

fallible store_results_get(struct store *store, struct arena *arena, struct store_result *out,
			   bool *out_found)
{
	struct results_query query = {.of = out, .rows = {.arena = arena}};

	TRY(store_ask(store, results_find_row, &query), "read a result");
	*out_found = query.rows.count;
	if (*out_found)
		*out = *(struct store_result *)query.rows.at;
	return OK;
}

static struct err *results_find_files(struct db *db, void *arg)
{
	struct results_query *of = arg;

	return db_rows(db,
		       "SELECT " DB_NAMES(RESULT_FILE) " FROM result_files" OF_ATTEMPT
						       " AND path > $4 ORDER BY path LIMIT $5",
		       DB_WITH(KEY_OF(of->of), db_data(of->after), db_int((int64_t)of->max)),
		       &file_table, &of->rows);
}

fallible store_results_files(struct store *store, const struct store_result *of, struct str after,
			     size_t max, struct arena *arena, struct store_file **out,
			     size_t *out_count)
{
	struct results_query query = {
		.of = of, .after = after, .max = max, .rows = {.arena = arena}};

	TRY(store_ask(store, results_find_files, &query), "read the files of a result");
	*out = query.rows.at;
	*out_count = query.rows.count;
	return OK;
}

static struct err *results_find_file(struct db *db, void *arg)
{
	struct results_query *of = arg;

	return db_rows(db,
		       "SELECT " DB_NAMES(RESULT_FILE) " FROM result_files" OF_ATTEMPT
						       " AND path = $4",
		       DB_WITH(KEY_OF(of->of), db_data(of->after)), &file_table, &of->rows);
}

fallible store_results_file(struct store *store, const struct store_result *of, struct str path,
			    struct arena *arena, struct store_file *out, bool *out_found)
{
	struct results_query query = {.of = of, .after = path, .rows = {.arena = arena}};

	TRY(store_ask(store, results_find_file, &query), "read a file of a result");
	*out_found = query.rows.count;
	if (*out_found)
		*out = *(struct store_file *)query.rows.at;
	return OK;
}

// -------------------------------------------------------------------------------- removal

struct results_removal {
	const char *tenant, *execution;
	struct store_result *oldest;
	bool found;
	struct arena *arena;
	struct rows rows;
};

static struct err *results_drop_rows(struct db *db, void *arg)
{
	struct results_removal *removal = arg;
	const struct db_value *key = DB_WITH(db_text(removal->tenant), db_text(removal->execution));

	removal->rows = (struct rows){.arena = removal->arena};
	TRY(db_rows(db,
		    "SELECT tenant, log FROM results" OF_EXECUTION " AND log <> '' UNION"
		    " SELECT tenant, sha256 FROM result_files" OF_EXECUTION " AND sha256 <> ''",
		    key, &blob_table, &removal->rows));
	TRY(db_run(db, "DELETE FROM result_files" OF_EXECUTION, key, NULL));
	return db_run(db, "DELETE FROM results" OF_EXECUTION, key, NULL);
}

fallible store_results_drop(struct store *store, const char *tenant, const char *execution,
			    struct arena *arena, struct store_blobs *out)
{
	struct results_removal removal = {.tenant = tenant, .execution = execution, .arena = arena};

	TRY(store_do_last(store, results_drop_rows, &removal), "remove a result");
	*out = (struct store_blobs){removal.rows.at, removal.rows.count};
	return OK;
}

static struct err *results_evict_rows(struct db *db, void *arg)
{
	struct results_removal *removal = arg;
	struct store_result *oldest = removal->oldest;
	struct rows found = {.arena = removal->arena};

	removal->rows = (struct rows){.arena = removal->arena};
	TRY(db_rows(db,
		    "SELECT " DB_NAMES(RESULT) " FROM results WHERE removed = 0"
					       " ORDER BY ended LIMIT 1",
		    NULL, &result_table, &found));
	removal->found = found.count;
	if (!found.count)
		return OK;
	*oldest = *(struct store_result *)found.at;
	TRY(db_rows(db,
		    "SELECT tenant, log FROM results" OF_ATTEMPT " AND log <> '' UNION"
		    " SELECT tenant, sha256 FROM result_files" OF_ATTEMPT " AND sha256 <> ''",
		    DB_WITH(KEY_OF(oldest)), &blob_table, &removal->rows));
	TRY(db_run(db, "DELETE FROM result_files" OF_ATTEMPT, DB_WITH(KEY_OF(oldest)), NULL));
	return db_run(db, "UPDATE results SET removed = 1, log = '', log_bytes = 0" OF_ATTEMPT,
		      DB_WITH(KEY_OF(oldest)), NULL);
}

fallible store_results_evict(struct store *store, struct arena *arena, struct store_result *out,
			     struct store_blobs *out_blobs, bool *out_found)
{
	struct results_removal removal = {.oldest = out, .arena = arena};

	TRY(store_do_last(store, results_evict_rows, &removal), "remove the oldest result");
	*out_blobs = (struct store_blobs){removal.rows.at, removal.rows.count};
	*out_found = removal.found;
	return OK;
}

static struct err *results_look_rows(struct db *db, void *arg)
{
	struct store_blobs *blobs = arg;

	for (size_t i = 0; i < blobs->count; i++) {
		uint64_t used = 0;

		TRY(db_number(db,
			      "SELECT count(*) FROM (SELECT 1 FROM results WHERE tenant = $1 AND"
			      " log = $2 UNION ALL SELECT 1 FROM result_files WHERE tenant = $1 AND"
			      " sha256 = $2 LIMIT 1) AS of_blob",
			      DB_WITH(db_text(blobs->at[i].tenant), db_text(blobs->at[i].name)),
			      &used));
		blobs->at[i].used = used > 0;
	}
	return OK;
}

fallible store_results_look(struct store *store, struct store_blob *blobs, size_t count)
{
	return store_ask(store, results_look_rows, &(struct store_blobs){blobs, count});
}
