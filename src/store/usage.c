// A charge (sandbox, tenant, labels, …) is a row with a number, and an hour of usage names it. A
// sandbox whose labels change gets another charge, so that the past stays as it was. Additions are
// queued and never waited for; sums cover whole hours.
#include "store/usage.h"

#include <string.h>

#include "codec/json.h"

#define PRUNE_STEP 500 // rows per commit

// clang-format off
#define METER(KEY, FIRST, NEXT) \
	KEY(1,    sandbox,     "sandbox",     TEXT) \
	FIRST(2,  epoch,       "epoch",       INT) \
	NEXT(3,   cgroup,      "cgroup",      INT) \
	NEXT(4,   boot,        "boot",        TEXT) \
	NEXT(5,   cpu_us,      "cpu",         INT) \
	NEXT(6,   connections, "connections", INT) \
	NEXT(7,   requests,    "requests",    INT) \
	NEXT(8,   bytes_in,    "bytes_in",    INT) \
	NEXT(9,   bytes_out,   "bytes_out",   INT) \
	NEXT(10,  denied,      "denied",      INT) \
	NEXT(11,  disk,        "disk",        INT) \
	NEXT(12,  memory,      "memory",      INT) \
	NEXT(13,  time_ms,     "time",        INT)
#define CHARGE(X) X(sandbox) X(tenant) X(name) X(type) X(owner) X(execution) X(session) X(labels)
// clang-format on
static const struct db_column meter_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_meter, field, type)
	METER(F, F, F){0}
#undef F
};

struct use {
	struct arena *arena; // owns all of it
	struct store_charge charge;
	int64_t hour;
	struct usage used;
	struct store_meter meter;
};

static void usage_drop_use(void *arg)
{
	arena_free(((struct use *)arg)->arena);
}

static fallible usage_put_labels(struct db *db, uint64_t charge, const char *labels)
{
	struct json *value;
	auto_json all = NULL;
	struct str name;

	TRY(json_read_any(str_of(labels), &all));
	for (size_t at = 0; json_next(all, &at, &name, &value);) {
		auto_free char *text = mem_dup(name.at, name.len);

		TRY(db_run(db, "INSERT INTO usage_labels (charge, name, value) VALUES ($1, $2, $3)",
			   DB_WITH(db_int((int64_t)charge), db_text(text),
				   db_text(json_chars(value).at)),
			   NULL));
	}
	return OK;
}

static fallible usage_charge_id(struct db *db, const struct store_charge *charge, uint64_t *out)
{
	const struct db_value *all = DB_WITH(db_text(charge->sandbox), db_text(charge->tenant),
					     db_text(charge->name), db_text(charge->type),
					     db_text(charge->owner), db_text(charge->execution),
					     db_text(charge->session), db_text(charge->labels));

	TRY(db_number(db,
		      "SELECT id FROM usage_charges WHERE sandbox = $1 AND tenant = $2 AND name ="
		      " $3 AND type = $4 AND owner = $5 AND execution = $6 AND session = $7 AND"
		      " labels = $8",
		      all, out));
	if (*out)
		return OK;
	TRY(db_number(db,
		      "INSERT INTO usage_charges (sandbox, tenant, name, type, owner,"
		      " execution, session, labels, id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8,"
		      " (SELECT coalesce(max(id), 0) + 1 FROM usage_charges)) RETURNING id",
		      all, out));
	return usage_put_labels(db, *out, charge->labels);
}

static struct err *usage_query_add(struct db *db, void *arg)
{
	const struct use *use = arg;
	const struct usage *used = &use->used;
	uint64_t charge = 0;

	if (!usage_is_none(used)) {
		TRY(usage_charge_id(db, &use->charge, &charge));
		TRY(db_run(
			db,
			"INSERT INTO usage_hours (charge, hour, cpu_us, memory_kib_s, disk_kib_s,"
			" requests, bytes_in, bytes_out) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
			" ON CONFLICT (hour, charge) DO UPDATE SET"
			" cpu_us = usage_hours.cpu_us + excluded.cpu_us,"
			" memory_kib_s = usage_hours.memory_kib_s + excluded.memory_kib_s,"
			" disk_kib_s = usage_hours.disk_kib_s + excluded.disk_kib_s,"
			" requests = usage_hours.requests + excluded.requests,"
			" bytes_in = usage_hours.bytes_in + excluded.bytes_in,"
			" bytes_out = usage_hours.bytes_out + excluded.bytes_out",
			DB_WITH(db_int((int64_t)charge), db_int(use->hour),
				db_int((int64_t)used->cpu_us), db_int((int64_t)used->memory_kib_s),
				db_int((int64_t)used->disk_kib_s), db_int((int64_t)used->requests),
				db_int((int64_t)used->bytes_in), db_int((int64_t)used->bytes_out)),
			NULL));
	}
	return db_put(db, DB_UPSERT("usage_meters", "sandbox", METER), meter_columns, &use->meter,
		      NULL);
}

void store_usage_queue(struct store *store, const struct store_charge *charge, int64_t time_ms,
		       const struct usage *usage, const struct store_meter *meter)
{
	struct arena *arena = arena_new();
	struct use *use = arena_take(arena, sizeof(*use));

	*use = (struct use){.arena = arena,
			    .charge = *charge,
			    .hour = time_ms / USAGE_HOUR_MS,
			    .used = *usage,
			    .meter = *meter};
#define X(field) use->charge.field = arena_fmt(arena, "%s", charge->field);
	CHARGE(X)
#undef X
	db_copy_texts(meter_columns, arena, &use->meter);
	store_queue(store, usage_query_add, use, usage_drop_use);
}

struct meter_asking {
	const char *sandbox;
	struct rows rows;
};

static struct err *usage_query_meter(struct db *db, void *arg)
{
	struct meter_asking *asking = arg;

	return db_rows(db, "SELECT " DB_NAMES(METER) " FROM usage_meters WHERE sandbox = $1",
		       DB_WITH(db_text(asking->sandbox)),
		       &(struct db_table){meter_columns, sizeof(struct store_meter), NULL},
		       &asking->rows);
}

fallible store_usage_meter(struct store *store, const char *sandbox, struct arena *arena,
			   struct store_meter *out, bool *out_found)
{
	struct meter_asking asking = {.sandbox = sandbox, .rows = {.arena = arena}};

	TRY(store_ask(store, usage_query_meter, &asking), "read the last counters of a sandbox");
	*out_found = asking.rows.count > 0;
	if (*out_found)
		*out = *(struct store_meter *)asking.rows.at;
	return OK;
}

// ------------------------------------------------------------------------------------------ sums

struct usage_asking {
	const struct usage_query *query;
	struct rows rows;
	struct store_usage_item total;
};

#define SUMS                                                                                       \
	"coalesce(sum(h.cpu_us), 0), coalesce(sum(h.memory_kib_s), 0),"                            \
	" coalesce(sum(h.disk_kib_s), 0), coalesce(sum(h.requests), 0),"                           \
	" coalesce(sum(h.bytes_in), 0), coalesce(sum(h.bytes_out), 0),"                            \
	" count(DISTINCT c.sandbox), count(DISTINCT CASE WHEN c.execution <> '' THEN c.execution"  \
	" END) "
// $1 from, $2 to, $3 tenant, $4 sandbox, $5 session, $6 key of a label, $7 its value.
#define WHERE                                                                                      \
	"FROM usage_hours h JOIN usage_charges c ON c.id = h.charge WHERE h.hour >= $1 AND h.hour" \
	" < $2 AND c.tenant = coalesce($3, c.tenant) AND c.sandbox = coalesce($4, c.sandbox)"      \
	" AND c.session = coalesce($5, c.session) AND ($6 IS NULL OR EXISTS (SELECT 1 FROM"        \
	" usage_labels l WHERE l.charge = c.id AND l.name = $6 AND l.value = $7)) "
#define BY(key)                                                                                    \
	"SELECT " key " AS item, " SUMS WHERE " GROUP BY item HAVING ($8 = 0 OR item > $9)"        \
	" ORDER BY item LIMIT $10"

static const char *const usage_texts[USAGE_BYS] = {
	[USAGE_BY_TENANT] = BY("c.tenant"),
	[USAGE_BY_SANDBOX] = BY("c.sandbox"),
	[USAGE_BY_TYPE] = BY("c.type"),
	[USAGE_BY_OWNER] = BY("c.owner"),
	[USAGE_BY_EXECUTION] = BY("c.execution"),
	[USAGE_BY_AGENT_SESSION] = BY("c.session"),
	[USAGE_BY_LABEL] = BY(
		"coalesce((SELECT k.value FROM usage_labels k WHERE k.charge = c.id AND"
		" k.name = $11), '')"),
	// Days since 1970: five digits for 270 years, so that texts sort as numbers do.
	[USAGE_BY_DAY] = BY("CAST(h.hour / 24 AS TEXT)"),
};

static void usage_bind(struct query *q, const struct usage_query *query)
{
	query_put(q,
		  DB_WITH(db_int(query->from_ms / USAGE_HOUR_MS),
			  db_int((query->to_ms + USAGE_HOUR_MS - 1) / USAGE_HOUR_MS),
			  db_text(query->tenant), db_text(query->sandbox), db_text(query->session),
			  db_text(query->label_key), db_text(query->label_value)));
}

static void usage_take(struct query *q, struct store_usage_item *item)
{
	item->used.cpu_us = (uint64_t)query_take_int(q);
	item->used.memory_kib_s = (uint64_t)query_take_int(q);
	item->used.disk_kib_s = (uint64_t)query_take_int(q);
	item->used.requests = (uint64_t)query_take_int(q);
	item->used.bytes_in = (uint64_t)query_take_int(q);
	item->used.bytes_out = (uint64_t)query_take_int(q);
	item->sandboxes = (uint64_t)query_take_int(q);
	item->executions = (uint64_t)query_take_int(q);
}

static struct err *usage_query_items(struct db *db, void *arg)
{
	struct usage_asking *asking = arg;
	const struct usage_query *query = asking->query;
	auto_query q = {0};
	bool found;

	asking->rows = (struct rows){.arena = asking->rows.arena};
	TRY(query_open(db, usage_texts[query->by], &q));
	if (query->by == USAGE_BY_LABEL) // its place in the text comes first
		query_put(&q, DB_WITH(db_text(query->label)));
	usage_bind(&q, query);
	query_put(&q,
		  DB_WITH(db_int(query->after != NULL), db_text(query->after ? query->after : ""),
			  db_int((int64_t)query->max)));
	for (;;) {
		struct store_usage_item *item;

		TRY(query_step(&q, &found));
		if (!found)
			return OK;
		item = rows_next(&asking->rows, sizeof(*item));
		item->key = query_take_text(&q, asking->rows.arena);
		usage_take(&q, item);
	}
}

fallible store_usage_items(struct store *store, const struct usage_query *query,
			   struct arena *arena, struct store_usage_page *out)
{
	struct usage_asking asking = {.query = query, .rows = {.arena = arena}};

	TRY(store_look(store, usage_query_items, &asking), "sum up what was used");
	*out = (struct store_usage_page){asking.rows.at, asking.rows.count};
	return OK;
}

static struct err *usage_query_total(struct db *db, void *arg)
{
	struct usage_asking *asking = arg;
	auto_query q = {0};
	bool found;

	TRY(query_open(db, "SELECT " SUMS WHERE, &q));
	usage_bind(&q, asking->query);
	TRY(query_step(&q, &found));
	if (found)
		usage_take(&q, &asking->total);
	return OK;
}

fallible store_usage_total(struct store *store, const struct usage_query *query,
			   struct store_usage_item *out)
{
	struct usage_asking asking = {.query = query};

	TRY(store_look(store, usage_query_total, &asking), "sum up what was used");
	*out = asking.total;
	return OK;
}

// ----------------------------------------------------------------------------------------- prune

struct usage_pruning {
	int64_t hour;
	uint64_t count; // of this step
};

static struct err *usage_query_prune(struct db *db, void *arg)
{
	struct usage_pruning *pruning = arg;

	return db_run(db,
		      "DELETE FROM usage_hours WHERE (hour, charge) IN (SELECT hour, charge FROM"
		      " usage_hours WHERE hour < $1 LIMIT $2)",
		      DB_WITH(db_int(pruning->hour), db_int(PRUNE_STEP)), &pruning->count);
}

static struct err *usage_query_forget(struct db *db, void *arg)
{
	(void)arg;
	TRY(db_run(db, "DELETE FROM usage_charges WHERE id NOT IN (SELECT charge FROM usage_hours)",
		   NULL, NULL));
	TRY(db_run(db,
		   "DELETE FROM usage_labels WHERE charge NOT IN (SELECT id FROM usage_charges)",
		   NULL, NULL));
	return db_run(db, "DELETE FROM usage_meters WHERE sandbox NOT IN (SELECT id FROM boxes)",
		      NULL, NULL);
}

fallible store_usage_prune(struct store *store, int64_t before_ms)
{
	struct usage_pruning pruning = {.hour = before_ms / USAGE_HOUR_MS};

	do {
		TRY(store_do_last(store, usage_query_prune, &pruning), "forget old usage");
	} while (pruning.count);
	return store_do_last(store, usage_query_forget, NULL);
}
