// The egress ledger. Row ids count per box: a host-wide id would reveal how busy the host is.
// `serial` is unique per box, so that a row written twice (by a daemon killed before it knew that
// the first write was durable) is stored and counted once.
#include "store/egress.h"

#include "store/rows.h"

#define WORDS                                                                                      \
	"id, time, name, address, port, allowed, rule, reason, requests, bytes_out, bytes_in, "    \
	"duration"

static const char *or_none(const char *text)
{
	return text ? text : "";
}

static fallible store_egress_is_known(struct db *db, const struct store_egress_entry *entry,
				      bool *out)
{
	auto_query query = {0};

	TRY(query_open(db, "SELECT id FROM egress WHERE box = $1 AND serial = $2", &query));
	query_put_text(&query, entry->box);
	query_put_int(&query, (int64_t)entry->serial);
	return query_step(&query, out);
}

static fallible store_egress_sum_up(struct db *db, const struct store_egress_entry *entry,
				    uint64_t *out_id)
{
	const struct store_egress_row *row = &entry->row;
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db,
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
		       &query));
	query_put_text(&query, entry->box);
	query_put_text(&query, or_none(entry->tenant));
	query_put_int(&query, (int64_t)entry->connections);
	query_put_int(&query, (int64_t)row->requests);
	query_put_int(&query, (int64_t)row->bytes_out);
	query_put_int(&query, (int64_t)row->bytes_in);
	query_put_int(&query, (int64_t)entry->denied);
	query_put_int(&query, entry->opaque);
	TRY(query_step(&query, &found));
	if (!found)
		return err_sys(0, "the sums of a sandbox gave no number");
	*out_id = (uint64_t)query_take_int(&query);
	return OK;
}

#define TRIM_EVERY 256

// Allowed rows are trimmed first: otherwise a box could hide its denials behind many allowed
// requests.
static fallible store_egress_trim(struct db *db, const char *box, uint64_t id)
{
	auto_query query = {0};

	if (id % TRIM_EVERY || id <= STORE_EGRESS_KEEP)
		return OK;
	TRY(query_open(db,
		       "DELETE FROM egress WHERE box = $1 AND id <= $2 AND (allowed = 1 OR id <="
		       " (SELECT id FROM egress WHERE box = $1 AND allowed = 0 ORDER BY id DESC"
		       " LIMIT 1 OFFSET $3))",
		       &query));
	query_put_text(&query, box);
	query_put_int(&query, (int64_t)(id - STORE_EGRESS_KEEP));
	query_put_int(&query, STORE_EGRESS_KEEP_DENIED);
	return query_run(&query, NULL);
}

fallible store_egress_add_in(struct db *db, const struct store_egress_entry *entry)
{
	const struct store_egress_row *row = &entry->row;
	auto_query query = {0};
	bool known = false;
	uint64_t id = 0;

	TRY(store_egress_is_known(db, entry, &known));
	if (known)
		return OK;
	TRY(store_egress_sum_up(db, entry, &id));
	TRY(query_open(db,
		       "INSERT INTO egress (box, serial, " WORDS ") VALUES ($1, $2, $3, $4, $5,"
		       " $6, $7, $8, $9, $10, $11, $12, $13, $14)",
		       &query));
	query_put_text(&query, entry->box);
	query_put_int(&query, (int64_t)entry->serial);
	query_put_int(&query, (int64_t)id);
	query_put_int(&query, row->time_ms);
	query_put_text(&query, or_none(row->name));
	query_put_text(&query, or_none(row->address));
	query_put_int(&query, row->port);
	query_put_int(&query, row->allowed);
	query_put_text(&query, or_none(row->rule));
	query_put_text(&query, or_none(row->reason));
	query_put_int(&query, (int64_t)row->requests);
	query_put_int(&query, (int64_t)row->bytes_out);
	query_put_int(&query, (int64_t)row->bytes_in);
	query_put_int(&query, row->duration_ms);
	TRY(query_run(&query, NULL));
	return store_egress_trim(db, entry->box, id);
}

static fallible read_sums(struct db *db, const char *box, struct store_egress_sums *out)
{
	auto_query query = {0};
	bool found = false;

	*out = (struct store_egress_sums){0};
	TRY(query_open(db,
		       "SELECT connections, requests, bytes_out, bytes_in, denied, opaque, last"
		       " FROM egress_sums WHERE box = $1",
		       &query));
	query_put_text(&query, box);
	TRY(query_step(&query, &found));
	if (!found)
		return OK;
	out->connections = (uint64_t)query_take_int(&query);
	out->requests = (uint64_t)query_take_int(&query);
	out->bytes_out = (uint64_t)query_take_int(&query);
	out->bytes_in = (uint64_t)query_take_int(&query);
	out->denied = (uint64_t)query_take_int(&query);
	out->opaque = query_take_int(&query) != 0;
	out->last = (uint64_t)query_take_int(&query);
	return OK;
}

struct paging {
	const char *box;
	uint64_t after;
	size_t max;
	struct rows rows;
	struct store_egress_page page;
};

static void store_egress_take_row(struct query *query, struct arena *arena,
				  struct store_egress_row *out)
{
	out->id = (uint64_t)query_take_int(query);
	out->time_ms = query_take_int(query);
	out->name = query_take_text(query, arena);
	out->address = query_take_text(query, arena);
	out->port = (uint16_t)query_take_int(query);
	out->allowed = query_take_int(query) != 0;
	out->rule = query_take_text(query, arena);
	out->reason = query_take_text(query, arena);
	out->requests = (uint64_t)query_take_int(query);
	out->bytes_out = (uint64_t)query_take_int(query);
	out->bytes_in = (uint64_t)query_take_int(query);
	out->duration_ms = query_take_int(query);
}

static struct err *egress_query_page(struct db *db, void *arg)
{
	struct paging *paging = arg;
	struct store_egress_page *out = &paging->page;
	auto_query query = {0};
	bool found;

	paging->rows.count = 0;
	out->last = paging->after;
	TRY(read_sums(db, paging->box, &out->sums));
	TRY(query_open(db,
		       "SELECT " WORDS " FROM egress WHERE box = $1 AND id > $2 ORDER BY id LIMIT"
		       " $3",
		       &query));
	query_put_text(&query, paging->box);
	query_put_int(&query, (int64_t)paging->after);
	query_put_int(&query, (int64_t)paging->max);
	for (;;) {
		struct store_egress_row *row;
		void *at = out->at;

		TRY(query_step(&query, &found));
		if (!found)
			break;
		row = rows_next(&paging->rows, &at, sizeof(*row));
		out->at = at;
		store_egress_take_row(&query, paging->rows.arena, row);
		out->last = row->id;
	}
	out->count = paging->rows.count;
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
	auto_query rows = {0}, all = {0};

	TRY(query_open(db, "DELETE FROM egress WHERE box = $1", &rows));
	query_put_text(&rows, box);
	TRY(query_run(&rows, NULL));
	TRY(query_open(db, "DELETE FROM egress_sums WHERE box = $1", &all));
	query_put_text(&all, box);
	return query_run(&all, NULL);
}

static struct err *forget(struct db *db, void *arg)
{
	return store_egress_forget_in(db, arg);
}

fallible store_egress_forget(struct store *store, const char *box)
{
	auto_free char *id = mem_str(box);

	return store_do_last(store, forget, id);
}

// Verdicts that ended after their box were recorded after it.
static struct err *forget_gone(struct db *db, void *arg)
{
	auto_query rows = {0}, all = {0};

	(void)arg;
	TRY(query_open(db, "DELETE FROM egress WHERE box NOT IN (SELECT id FROM boxes)", &rows));
	TRY(query_run(&rows, NULL));
	TRY(query_open(db, "DELETE FROM egress_sums WHERE box NOT IN (SELECT id FROM boxes)",
		       &all));
	return query_run(&all, NULL);
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

static fallible prune_old(struct db *db, struct pruning *pruning)
{
	auto_query query = {0};
	uint64_t count = 0;

	TRY(query_open(db,
		       "DELETE FROM egress WHERE (box, id) IN (SELECT box, id FROM egress WHERE"
		       " time < $1 ORDER BY time LIMIT $2)",
		       &query));
	query_put_int(&query, pruning->before_ms);
	query_put_int(&query, STEP);
	TRY(query_run(&query, &count));
	pruning->count += count;
	return OK;
}

static fallible prune_many(struct db *db, struct pruning *pruning)
{
	auto_query query = {0};
	uint64_t count = 0;

	TRY(query_open(db,
		       "DELETE FROM egress WHERE (box, id) IN (SELECT egress.box, egress.id FROM"
		       " egress_sums JOIN egress ON egress.box = egress_sums.box AND egress.id <="
		       " egress_sums.last - $1 AND egress.allowed = 1 LIMIT $2)",
		       &query));
	query_put_int(&query, (int64_t)pruning->keep);
	query_put_int(&query, STEP);
	TRY(query_run(&query, &count));
	pruning->count += count;
	return OK;
}

static struct err *egress_query_prune(struct db *db, void *arg)
{
	struct pruning *pruning = arg;

	pruning->count = 0;
	TRY(prune_old(db, pruning));
	return prune_many(db, pruning);
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
