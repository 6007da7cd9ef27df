// Ids come from a counter of their own, in the transaction that writes the event: a batch that
// fails leaves no gap, and a prune never lets one be given again.
#include "store/events.h"

#include "store/rows.h"

static fallible next_id(struct db *db, uint64_t *out)
{
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db,
		       "INSERT INTO counters (name, value) VALUES ('event', 1) ON CONFLICT (name)"
		       " DO UPDATE SET value = counters.value + 1 RETURNING value",
		       &query));
	TRY(query_step(&query, &found));
	if (!found)
		return err_sys(0, "the counter of events gave no number");
	*out = (uint64_t)query_take_int(&query);
	return OK;
}

static const char *or_none(const char *text)
{
	return text ? text : "";
}

fallible store_events_add_in(struct db *db, const struct store_event *event, uint64_t *out_id)
{
	auto_query query = {0};
	uint64_t id = 0;

	TRY(next_id(db, &id));
	TRY(query_open(db,
		       "INSERT INTO events (id, time, tenant, kind, sandbox, session, fields)"
		       " VALUES ($1, $2, $3, $4, $5, $6, $7)",
		       &query));
	query_put_int(&query, (int64_t)id);
	query_put_int(&query, event->time_ms);
	query_put_text(&query, or_none(event->tenant));
	query_put_text(&query, or_none(event->kind));
	query_put_text(&query, or_none(event->sandbox));
	query_put_text(&query, or_none(event->session));
	query_put_text(&query, event->fields ? event->fields : "{}");
	TRY(query_run(&query, NULL));
	if (out_id)
		*out_id = id;
	return OK;
}

struct adding {
	const struct store_event *at;
	size_t count;
	uint64_t first;
};

static struct err *add(struct db *db, void *arg)
{
	struct adding *adding = arg;

	for (size_t i = 0; i < adding->count; i++)
		TRY(store_events_add_in(db, &adding->at[i], i ? NULL : &adding->first));
	return OK;
}

fallible store_events_add(struct store *store, const struct store_event *events, size_t count,
			  uint64_t *out_first)
{
	struct adding adding = {.at = events, .count = count};

	TRY(store_do(store, add, &adding), "write events down");
	if (out_first)
		*out_first = adding.first;
	return OK;
}

struct paging {
	uint64_t after;
	const char *tenant;
	size_t max;
	struct rows rows;
	struct store_events page;
};

static fallible ends(struct db *db, uint64_t *out_oldest, uint64_t *out_newest)
{
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db, "SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM events",
		       &query));
	TRY(query_step(&query, &found));
	*out_oldest = (uint64_t)query_take_int(&query);
	*out_newest = (uint64_t)query_take_int(&query);
	return OK;
}

static struct err *page(struct db *db, void *arg)
{
	struct paging *paging = arg;
	struct store_events *out = &paging->page;
	auto_query query = {0};
	bool found;

	paging->rows.count = 0;
	TRY(ends(db, &out->oldest, &out->newest));
	TRY(query_open(db,
		       paging->tenant
			       ? "SELECT id, time, tenant, kind, sandbox, session, fields FROM"
				 " events WHERE id > $1 AND tenant = $2 ORDER BY id LIMIT $3"
			       : "SELECT id, time, tenant, kind, sandbox, session, fields FROM"
				 " events WHERE id > $1 ORDER BY id LIMIT $2",
		       &query));
	query_put_int(&query, (int64_t)paging->after);
	if (paging->tenant)
		query_put_text(&query, paging->tenant);
	query_put_int(&query, (int64_t)paging->max);
	out->last = paging->after;
	for (;;) {
		struct store_event *event;
		void *at = out->at;

		TRY(query_step(&query, &found));
		if (!found)
			break;
		event = rows_next(&paging->rows, &at, sizeof(*event));
		out->at = at;
		event->id = (uint64_t)query_take_int(&query);
		event->time_ms = query_take_int(&query);
		event->tenant = query_take_text(&query, paging->rows.arena);
		event->kind = query_take_text(&query, paging->rows.arena);
		event->sandbox = query_take_text(&query, paging->rows.arena);
		event->session = query_take_text(&query, paging->rows.arena);
		event->fields = query_take_text(&query, paging->rows.arena);
		out->last = event->id;
	}
	out->count = paging->rows.count;
	// Nothing more matches up to the newest: what was passed over need not be read again.
	if (out->count < paging->max && out->newest > out->last)
		out->last = out->newest;
	return OK;
}

fallible store_events_page(struct store *store, uint64_t after, const char *tenant, size_t max,
			   struct arena *arena, struct store_events *out)
{
	struct paging paging = {
		.after = after, .tenant = tenant, .max = max, .rows = {.arena = arena}};

	TRY(store_ask(store, page, &paging), "read events");
	*out = paging.page;
	return OK;
}

struct pruning {
	int64_t before_ms;
	uint64_t keep, count;
};

static struct err *prune(struct db *db, void *arg)
{
	struct pruning *pruning = arg;
	auto_query query = {0};

	TRY(query_open(db,
		       "DELETE FROM events WHERE time < $1 OR id <= (SELECT value - $2 FROM"
		       " counters WHERE name = 'event')",
		       &query));
	query_put_int(&query, pruning->before_ms);
	query_put_int(&query, (int64_t)pruning->keep);
	return query_run(&query, &pruning->count);
}

fallible store_events_prune(struct store *store, int64_t before_ms, uint64_t keep,
			    uint64_t *out_count)
{
	struct pruning pruning = {.before_ms = before_ms, .keep = keep};

	TRY(store_do_last(store, prune, &pruning), "forget old events");
	if (out_count)
		*out_count = pruning.count;
	return OK;
}
