// The egress ledger. Row ids count per box: a host-wide id would reveal how busy the host is.
// `serial` is unique per box, so that a row written twice (by a daemon killed before it knew that
// the first write was durable) is stored and counted once.
#include "store/egress.h"

// clang-format off
#define ROW(KEY, FIRST, NEXT) \
	KEY(1,   id,          "id",        INT) \
	FIRST(2, time_ms,     "time",      INT) \
	NEXT(3,  name,        "name",      TEXT) \
	NEXT(4,  address,     "address",   TEXT) \
	NEXT(5,  port,        "port",      INT) \
	NEXT(6,  allowed,     "allowed",   INT) \
	NEXT(7,  rule,        "rule",      TEXT) \
	NEXT(8,  reason,      "reason",    TEXT) \
	NEXT(9,  requests,    "requests",  INT) \
	NEXT(10, bytes_out,   "bytes_out", INT) \
	NEXT(11, bytes_in,    "bytes_in",  INT) \
	NEXT(12, duration_ms, "duration",  INT) \
	NEXT(13, secrets,     "secrets",   TEXT)
#define SUMS(KEY, FIRST, NEXT) \
	KEY(1,   last,        "last",        INT) \
	FIRST(2, connections, "connections", INT) \
	NEXT(3,  requests,    "requests",    INT) \
	NEXT(4,  bytes_out,   "bytes_out",   INT) \
	NEXT(5,  bytes_in,    "bytes_in",    INT) \
	NEXT(6,  denied,      "denied",      INT) \
	NEXT(7,  opaque,      "opaque",      INT)
// clang-format on
static const struct db_column egress_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_egress_row, field, type)
	ROW(F, F, F){0}
#undef F
};
static const struct db_column sums_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_egress_sums, field, type)
	SUMS(F, F, F){0}
#undef F
};

static fallible store_egress_sum_up(struct db *db, const struct store_egress_entry *entry,
				    uint64_t *out_id)
{
	const struct store_egress_row *row = &entry->row;

	TRY(db_number(db,
		      "INSERT INTO egress_sums (box, tenant, last, connections, requests,"
		      " bytes_out, bytes_in, denied, opaque) VALUES ($1, $2, 1, $3, $4, $5, $6,"
		      " $7, $8) ON CONFLICT (box) DO UPDATE SET last = egress_sums.last + 1,"
		      " connections = egress_sums.connections + excluded.connections,"
		      " requests = egress_sums.requests + excluded.requests,"
		      " bytes_out = egress_sums.bytes_out + excluded.bytes_out,"
		      " bytes_in = egress_sums.bytes_in + excluded.bytes_in,"
		      " denied = egress_sums.denied + excluded.denied,"
		      " opaque = CASE WHEN excluded.opaque > egress_sums.opaque THEN"
		      " excluded.opaque ELSE egress_sums.opaque END RETURNING last",
		      DB_WITH(db_text(entry->box), db_text(entry->tenant ? entry->tenant : ""),
			      db_int((int64_t)entry->connections), db_int((int64_t)row->requests),
			      db_int((int64_t)row->bytes_out), db_int((int64_t)row->bytes_in),
			      db_int((int64_t)entry->denied), db_int(entry->opaque)),
		      out_id));
	return *out_id ? OK : err_sys(0, "the sums of a sandbox gave no number");
}

#define TRIM_EVERY 256

// Allowed rows are trimmed first: otherwise a box could hide its denials behind many allowed
// requests.
static fallible store_egress_trim(struct db *db, const char *box, uint64_t id)
{
	if (id % TRIM_EVERY || id <= STORE_EGRESS_KEEP)
		return OK;
	return db_run(db,
		      "DELETE FROM egress WHERE box = $1 AND id <= $2 AND (allowed = 1 OR id <="
		      " (SELECT id FROM egress WHERE box = $1 AND allowed = 0 ORDER BY id DESC"
		      " LIMIT 1 OFFSET $3))",
		      DB_WITH(db_text(box), db_int((int64_t)(id - STORE_EGRESS_KEEP)),
			      db_int(STORE_EGRESS_KEEP_DENIED)),
		      NULL);
}

fallible store_egress_add_in(struct db *db, const struct store_egress_entry *entry)
{
	const struct db_value *key = DB_WITH(db_text(entry->box), db_int((int64_t)entry->serial));
	struct store_egress_row row = entry->row;
	auto_query query = {0};
	uint64_t known = 0;
	bool found;

	TRY(db_number(db, "SELECT id FROM egress WHERE box = $1 AND serial = $2", key, &known));
	if (known)
		return OK;
	TRY(store_egress_sum_up(db, entry, &row.id));
	TRY(query_open(db,
		       "INSERT INTO egress (" DB_NAMES(ROW) ", box, serial) VALUES (" DB_PLACES(
			       ROW) ", $14, $15)",
		       &query));
	query_put_row(&query, egress_columns, &row);
	query_put(&query, key);
	TRY(query_step(&query, &found));
	return store_egress_trim(db, entry->box, row.id);
}

static fallible read_sums(struct db *db, const char *box, struct store_egress_sums *out)
{
	auto_query query = {0};
	bool found = false;

	*out = (struct store_egress_sums){0};
	TRY(query_open(db, "SELECT " DB_NAMES(SUMS) " FROM egress_sums WHERE box = $1", &query));
	query_put(&query, DB_WITH(db_text(box)));
	TRY(query_step(&query, &found));
	if (found)
		query_take_row(&query, sums_columns, NULL, out);
	return OK;
}

struct paging {
	const char *box;
	uint64_t after;
	size_t max;
	struct rows rows;
	struct store_egress_page page;
};

static struct err *egress_query_page(struct db *db, void *arg)
{
	static const struct db_table table = {egress_columns, sizeof(struct store_egress_row),
					      NULL};
	struct paging *paging = arg;
	struct store_egress_page *out = &paging->page;

	TRY(read_sums(db, paging->box, &out->sums));
	TRY(db_rows(db,
		    "SELECT " DB_NAMES(ROW) " FROM egress WHERE box = $1 AND id > $2 ORDER BY id"
					    " LIMIT $3",
		    DB_WITH(db_text(paging->box), db_int((int64_t)paging->after),
			    db_int((int64_t)paging->max)),
		    &table, &paging->rows));
	out->at = paging->rows.at;
	out->count = paging->rows.count;
	out->last = out->count ? out->at[out->count - 1].id : paging->after;
	return OK;
}

fallible store_egress_page(struct store *store, const char *box, uint64_t after, size_t max,
			   struct arena *arena, struct store_egress_page *out)
{
	struct paging paging = {.box = box, .after = after, .max = max, .rows = {.arena = arena}};

	TRY(store_ask(store, egress_query_page, &paging), "read what left a sandbox");
	*out = paging.page;
	return OK;
}

struct summing {
	const char *box;
	struct store_egress_sums sums;
};

static struct err *sums(struct db *db, void *arg)
{
	struct summing *summing = arg;

	return read_sums(db, summing->box, &summing->sums);
}

fallible store_egress_sums(struct store *store, const char *box, struct store_egress_sums *out)
{
	struct summing summing = {.box = box};

	TRY(store_ask(store, sums, &summing), "sum up what left a sandbox");
	*out = summing.sums;
	return OK;
}

fallible store_egress_forget_in(struct db *db, const char *box)
{
	TRY(db_run(db, "DELETE FROM egress WHERE box = $1", DB_WITH(db_text(box)), NULL));
	return db_run(db, "DELETE FROM egress_sums WHERE box = $1", DB_WITH(db_text(box)), NULL);
}

// Verdicts that ended after their box were recorded after it.
static struct err *forget_gone(struct db *db, void *arg)
{
	(void)arg;
	TRY(db_run(db, "DELETE FROM egress WHERE box NOT IN (SELECT id FROM boxes)", NULL, NULL));
	return db_run(db, "DELETE FROM egress_sums WHERE box NOT IN (SELECT id FROM boxes)", NULL,
		      NULL);
}

fallible store_egress_forget_gone(struct store *store)
{
	return store_do_last(store, forget_gone, NULL);
}

// ---------------------------------------------------------------------------------------- prune

#define STEP 500 // rows per commit

struct pruning {
	int64_t before_ms;
	uint64_t keep, count; // of this step
};

static struct err *egress_query_prune(struct db *db, void *arg)
{
	struct pruning *pruning = arg;
	uint64_t old = 0, many = 0;

	TRY(db_run(db,
		   "DELETE FROM egress WHERE (box, id) IN (SELECT box, id FROM egress WHERE"
		   " time < $1 ORDER BY time LIMIT $2)",
		   DB_WITH(db_int(pruning->before_ms), db_int(STEP)), &old));
	TRY(db_run(db,
		   "DELETE FROM egress WHERE (box, id) IN (SELECT egress.box, egress.id FROM"
		   " egress_sums JOIN egress ON egress.box = egress_sums.box AND egress.id <="
		   " egress_sums.last - $1 AND egress.allowed = 1 LIMIT $2)",
		   DB_WITH(db_int((int64_t)pruning->keep), db_int(STEP)), &many));
	pruning->count = old + many;
	return OK;
}

fallible store_egress_prune(struct store *store, int64_t before_ms, uint64_t keep,
			    uint64_t *out_count)
{
	struct pruning pruning = {
		.before_ms = before_ms,
		.keep = keep > INT64_MAX / 2 ? INT64_MAX / 2 : keep,
	};
	uint64_t total = 0;

	do {
		TRY(store_do_last(store, egress_query_prune, &pruning),
		    "forget what left the sandboxes");
		total += pruning.count;
	} while (pruning.count);
	*out_count = total;
	return OK;
}
