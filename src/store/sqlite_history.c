// One deed merges new points into the rows of their hours. The write-ahead log is kept small: the
// bounds of the history are those of all its files.
#include "store/sqlite_history.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "store/db_private.h"

#define ROW_MAX 16384
#define SPARE_ROWS 500 // removed at once when the file is too large

static struct err *history_settle(struct db *db)
{
	if (db->read_only)
		return OK;
	return db_script(db, "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 64;"
			     "PRAGMA journal_size_limit = 262144;"
			     "CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY,"
			     " value BIGINT NOT NULL);"
			     "CREATE TABLE IF NOT EXISTS history (scope TEXT NOT NULL,"
			     " hour BIGINT NOT NULL, body BYTEA NOT NULL,"
			     " PRIMARY KEY (scope, hour)) WITHOUT ROWID;"
			     "CREATE INDEX IF NOT EXISTS history_by_hour ON history (hour);");
}

fallible store_history_open(struct loop *loop, int dir, struct store **out)
{
	struct store_options options = {
		.loop = loop, .dir = dir, .name = HISTORY_FILE, .settle = history_settle};

	TRY(store_open(&options, out));
	if (store_health(*out) != STORE_CORRUPT || dir < 0)
		return OK;
	log_event(LOG_ERROR, "history.set_aside", "file", HISTORY_FILE, NULL);
	store_close(*out);
	if (renameat(dir, HISTORY_FILE, dir, HISTORY_FILE ".bad") && errno != ENOENT)
		return err_sys(errno, "set the history aside");
	renameat(dir, HISTORY_FILE "-wal", dir, HISTORY_FILE ".bad-wal");
	return store_open(&options, out);
}

static fallible history_read_old(struct db *db, const struct history_write *write,
				 struct history_point points[HISTORY_POINTS])
{
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db, "SELECT body FROM history WHERE scope = $1 AND hour = $2", &query));
	query_put(&query, DB_WITH(db_text(write->key), db_int(write->hour)));
	TRY(query_step(&query, &found));
	if (!found || !history_row_read(query_take(&query), points))
		memset(points, 0, HISTORY_POINTS * sizeof(*points));
	return OK;
}

static fallible history_put(struct db *db, const struct history_write *write)
{
	struct history_point points[HISTORY_POINTS];
	auto_buf body = BUF_INIT(ROW_MAX);

	TRY(history_read_old(db, write, points));
	for (int i = 0; i < HISTORY_POINTS; i++)
		if (write->points >> i & 1)
			history_point_add(&points[i], &write->at[i]);
	history_row_write(points, &body);
	return db_run(db,
		      "INSERT INTO history (scope, hour, body) VALUES ($1, $2, $3) ON CONFLICT"
		      " (scope, hour) DO UPDATE SET body = excluded.body",
		      DB_WITH(db_text(write->key), db_int(write->hour), db_data(buf_view(&body))),
		      NULL);
}

static struct err *history_put_all(struct db *db, void *arg)
{
	const struct history_batch *batch = arg;

	for (size_t i = 0; i < batch->count; i++)
		TRY(history_put(db, &batch->writes[i]));
	TRY(db_run(db, "DELETE FROM history WHERE hour < $1", DB_WITH(db_int(batch->oldest_hour)),
		   NULL));
	if (db_bytes(db) <= batch->bytes_max)
		return OK;
	return db_run(db,
		      "DELETE FROM history WHERE (scope, hour) IN (SELECT scope, hour FROM history"
		      " WHERE scope LIKE 'sandbox:%' ORDER BY hour LIMIT $1)",
		      DB_WITH(db_int(SPARE_ROWS)), NULL);
}

fallible store_history_write(struct store *store, struct history_batch *batch)
{
	return store_do(store, history_put_all, batch);
}

struct history_ask {
	const char *key;
	int64_t from, to;
	struct rows rows;
};

static struct err *history_find(struct db *db, void *arg)
{
	static const struct db_column columns[] = {DB_COLUMN(
		struct history_row, hour, INT) DB_COLUMN(struct history_row, body, BYTES){0}};
	struct history_ask *ask = arg;

	return db_rows(db,
		       "SELECT hour, body FROM history WHERE scope = $1 AND hour >= $2 AND hour <="
		       " $3 ORDER BY hour",
		       DB_WITH(db_text(ask->key), db_int(ask->from), db_int(ask->to)),
		       &(struct db_table){columns, sizeof(struct history_row), NULL}, &ask->rows);
}

fallible store_history_load(struct store *store, const char *key, int64_t from, int64_t to,
			    struct arena *arena, struct history_row **out, size_t *out_count)
{
	struct history_ask ask = {.key = key, .from = from, .to = to, .rows = {.arena = arena}};

	TRY(store_look(store, history_find, &ask), "read the history");
	*out = ask.rows.at;
	*out_count = ask.rows.count;
	return OK;
}
