// Events. Ids come from counters, in the transaction that writes the event: a failed batch leaves
// no gap, and a pruned id is never reused. The last pruned id of each tenant is stored ("gone"), so
// that a late reader learns what it missed.
#include "store/events.h"

#define OWN "event" // counter of a tenant
#define GONE "gone" // the last pruned id of a tenant
// clang-format off
#define ROW(KEY, FIRST, NEXT) \
	KEY(1,   id,      "id",      INT) \
	FIRST(2, time_ms, "time",    INT) \
	NEXT(3,  tenant,  "tenant",  TEXT) \
	NEXT(4,  kind,    "kind",    TEXT) \
	NEXT(5,  sandbox, "sandbox", TEXT) \
	NEXT(6,  session, "session", TEXT) \
	NEXT(7,  fields,  "fields",  TEXT) \
	NEXT(8,  own,     "own",     INT)
// clang-format on
static const struct db_column event_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_event, field, type)
	ROW(F, F, F){0}
#undef F
};

fallible store_events_add_in(struct db *db, const struct store_event *event, uint64_t *out_id)
{
	struct store_event row = *event;

	if (!row.fields)
		row.fields = "{}";
	TRY(counter_next(db, "events", "", &row.id));
	TRY(counter_next(db, OWN, row.tenant ? row.tenant : "", &row.own));
	TRY(db_put(db, "INSERT INTO events (" DB_NAMES(ROW) ") VALUES (" DB_PLACES(ROW) ")",
		   event_columns, &row, NULL));
	if (out_id)
		*out_id = row.id;
	return OK;
}

struct paging {
	const struct store_events_ask *ask;
	struct rows rows;
	struct store_events page;
};

static fallible first_of(struct db *db, const struct store_events_ask *ask, uint64_t *out)
{
	return db_number(
		db,
		ask->own ? "SELECT coalesce(min(own), 0) FROM events WHERE tenant = $1 AND own > 0"
		: ask->tenant ? "SELECT coalesce(min(id), 0) FROM events WHERE tenant = $1"
			      : "SELECT coalesce(min(id), 0) FROM events",
		ask->tenant ? DB_WITH(db_text(ask->tenant)) : NULL, out);
}

static fallible ends(struct db *db, const struct store_events_ask *ask, struct store_events *out)
{
	uint64_t gone = 0;

	TRY(ask->own ? counter_read(db, OWN, ask->tenant, &out->newest)
		     : counter_read(db, "events", "", &out->newest));
	TRY(first_of(db, ask, &out->oldest));
	if (!out->oldest)
		out->oldest = out->newest + 1;
	if (ask->own)
		gone = out->oldest - 1; // ids of a tenant have no gaps
	else
		TRY(counter_read(db, GONE, ask->tenant, &gone));
	out->missed = ask->after && (ask->after < gone || ask->after > out->newest);
	return OK;
}

static struct err *events_query_page(struct db *db, void *arg)
{
	static const struct db_table table = {event_columns, sizeof(struct store_event), NULL};
	struct paging *paging = arg;
	const struct store_events_ask *ask = paging->ask;
	struct store_events *out = &paging->page;
	int64_t max = (int64_t)ask->max, after;

	TRY(ends(db, ask, out));
	// After a restore from a backup new ids are smaller than the requested one.
	out->last = ask->after > out->newest ? out->newest : ask->after;
	after = (int64_t)out->last;
	TRY(db_rows(db,
		    ask->own	  ? "SELECT " DB_NAMES(ROW) " FROM events WHERE own > $1 AND"
							    " tenant = $2 ORDER BY own LIMIT $3"
		    : ask->tenant ? "SELECT " DB_NAMES(ROW) " FROM events WHERE id > $1 AND"
							    " tenant = $2 ORDER BY id LIMIT $3"
				  : "SELECT " DB_NAMES(ROW) " FROM events WHERE id > $1"
							    " ORDER BY id LIMIT $2",
		    ask->tenant ? DB_WITH(db_int(after), db_text(ask->tenant), db_int(max))
				: DB_WITH(db_int(after), db_int(max)),
		    &table, &paging->rows));
	out->at = paging->rows.at;
	out->count = paging->rows.count;
	for (size_t i = 0; i < out->count; i++) {
		if (ask->own)
			out->at[i].id = out->at[i].own;
		out->last = out->at[i].id;
	}
	// Nothing more matches up to the newest: skip what was read.
	if (out->count < ask->max && out->newest > out->last)
		out->last = out->newest;
	return OK;
}

fallible store_events_page(struct store *store, const struct store_events_ask *ask,
			   struct arena *arena, struct store_events *out)
{
	struct paging paging = {.ask = ask, .rows = {.arena = arena}};

	TRY(store_ask(store, events_query_page, &paging), "read events");
	*out = paging.page;
	return OK;
}

// ---------------------------------------------------------------------------------------- prune

#define STEP 500 // events per commit

struct pruning {
	int64_t before_ms;
	uint64_t keep, count; // of this step
};

struct doomed {
	uint64_t id;
	const char *tenant;
};

static const struct db_column doomed_columns[] = {
	DB_COLUMN(struct doomed, id, INT) DB_COLUMN(struct doomed, tenant, TEXT){0}};
static const struct db_table doomed_table = {doomed_columns, sizeof(struct doomed), NULL};

static fallible store_events_forget(struct db *db, const struct doomed *doomed)
{
	auto_free char *gone = mem_fmt(GONE "/%s", doomed->tenant);

	TRY(db_run(db, "DELETE FROM events WHERE id = $1", DB_WITH(db_int((int64_t)doomed->id)),
		   NULL));
	return counter_raise(db, gone, doomed->id);
}

// The events of tenants that have more than `keep`, by the number of all that each ever had.
static fallible find_many(struct db *db, uint64_t keep, struct rows *out)
{
	struct rows tenants = {.arena = out->arena};

	TRY(db_rows(db,
		    "SELECT value, substr(name, length($1) + 1) FROM counters WHERE"
		    " substr(name, 1, length($1)) = $1",
		    DB_WITH(db_text(OWN "/")), &doomed_table, &tenants));
	for (size_t i = 0; i < tenants.count && !out->count; i++) {
		const struct doomed *tally = // `id` is a number of events
			(struct doomed *)tenants.at + i;

		if (tally->id > keep)
			TRY(db_rows(db,
				    "SELECT id, tenant FROM events WHERE tenant = $1 AND own <= $2"
				    " ORDER BY own LIMIT $3",
				    DB_WITH(db_text(tally->tenant),
					    db_int((int64_t)(tally->id - keep)), db_int(STEP)),
				    &doomed_table, out));
	}
	return OK;
}

static struct err *events_query_prune(struct db *db, void *arg)
{
	struct pruning *pruning = arg;
	auto_arena arena = arena_new();
	struct rows found = {.arena = arena};

	// Only among the first: times follow ids, as far as the clock was right.
	TRY(db_rows(db,
		    "SELECT id, tenant FROM (SELECT id, tenant, time FROM events ORDER BY id LIMIT"
		    " $1) AS first WHERE time < $2",
		    DB_WITH(db_int(STEP), db_int(pruning->before_ms)), &doomed_table, &found));
	if (!found.count)
		TRY(find_many(db, pruning->keep, &found));
	for (size_t i = 0; i < found.count; i++)
		TRY(store_events_forget(db, (struct doomed *)found.at + i));
	pruning->count = found.count;
	return OK;
}

fallible store_events_prune(struct store *store, int64_t before_ms, uint64_t keep,
			    uint64_t *out_count)
{
	struct pruning pruning = {.before_ms = before_ms, .keep = keep};
	uint64_t count = 0;

	do {
		TRY(store_do_last(store, events_query_prune, &pruning), "forget old events");
		count += pruning.count;
	} while (pruning.count);
	if (out_count)
		*out_count = count;
	return OK;
}
