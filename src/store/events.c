// Events. Ids come from counters, in the transaction that writes the event: a failed batch leaves
// no gap, and a pruned id is never reused. The last pruned id of each tenant is stored ("gone"), so
// that a late reader learns what it missed.
#include "store/events.h"

#include "store/counters.h"
#include "store/rows.h"

#define OWN "event" // counter of a tenant
#define GONE "gone" // the last pruned id of a tenant
#define WORDS "time, tenant, kind, sandbox, session, fields"

static fallible next_id(struct db *db, uint64_t *out)
{
	return counter_next(db, "events", "", out);
}

static fallible read_newest(struct db *db, uint64_t *out)
{
	return counter_read(db, "events", "", out);
}

static const char *or_none(const char *text)
{
	return text ? text : "";
}

fallible store_events_add_in(struct db *db, const struct store_event *event, uint64_t *out_id)
{
	const char *tenant = or_none(event->tenant);
	auto_query query = {0};
	uint64_t id = 0, own = 0;

	TRY(next_id(db, &id));
	TRY(counter_next(db, OWN, tenant, &own));
	TRY(query_open(db,
		       "INSERT INTO events (id, time, tenant, kind, sandbox, session, fields, own)"
		       " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
		       &query));
	query_put_int(&query, (int64_t)id);
	query_put_int(&query, event->time_ms);
	query_put_text(&query, tenant);
	query_put_text(&query, or_none(event->kind));
	query_put_text(&query, or_none(event->sandbox));
	query_put_text(&query, or_none(event->session));
	query_put_text(&query, event->fields ? event->fields : "{}");
	query_put_int(&query, (int64_t)own);
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

static struct err *events_query_add(struct db *db, void *arg)
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

	TRY(store_do(store, events_query_add, &adding), "write events down");
	if (out_first)
		*out_first = adding.first;
	return OK;
}

struct paging {
	const struct store_events_ask *ask;
	struct rows rows;
	struct store_events page;
};

static fallible first_of(struct db *db, const struct store_events_ask *ask, uint64_t *out)
{
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db,
		       ask->own	     ? "SELECT coalesce(min(own), 0) FROM events WHERE tenant = $1"
				       " AND own > 0"
		       : ask->tenant ? "SELECT coalesce(min(id), 0) FROM events WHERE tenant = $1"
				     : "SELECT coalesce(min(id), 0) FROM events",
		       &query));
	if (ask->tenant)
		query_put_text(&query, ask->tenant);
	TRY(query_step(&query, &found));
	*out = (uint64_t)query_take_int(&query);
	return OK;
}

static fallible ends(struct db *db, const struct store_events_ask *ask, struct store_events *out)
{
	uint64_t gone = 0;

	TRY(ask->own ? counter_read(db, OWN, ask->tenant, &out->newest)
		     : read_newest(db, &out->newest));
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

// After a restore from a backup new ids are smaller than the requested one.
static uint64_t begin_of(const struct paging *paging)
{
	const struct store_events *page = &paging->page;

	return paging->ask->after > page->newest ? page->newest : paging->ask->after;
}

static struct err *events_query_page(struct db *db, void *arg)
{
	struct paging *paging = arg;
	const struct store_events_ask *ask = paging->ask;
	struct store_events *out = &paging->page;
	auto_query query = {0};
	bool found;

	paging->rows.count = 0;
	TRY(ends(db, ask, out));
	TRY(query_open(db,
		       ask->own	     ? "SELECT own, " WORDS " FROM events WHERE own > $1 AND"
				       " tenant = $2 ORDER BY own LIMIT $3"
		       : ask->tenant ? "SELECT id, " WORDS " FROM events WHERE id > $1 AND"
				       " tenant = $2 ORDER BY id LIMIT $3"
				     : "SELECT id, " WORDS " FROM events WHERE id > $1"
				       " ORDER BY id LIMIT $2",
		       &query));
	out->last = begin_of(paging);
	query_put_int(&query, (int64_t)out->last);
	if (ask->tenant)
		query_put_text(&query, ask->tenant);
	query_put_int(&query, (int64_t)ask->max);
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

static fallible store_events_forget(struct db *db, const struct doomed *doomed)
{
	auto_query query = {0};

	TRY(query_open(db, "DELETE FROM events WHERE id = $1", &query));
	query_put_int(&query, (int64_t)doomed->id);
	TRY(query_run(&query, NULL));
	return counter_raise(db, GONE, doomed->tenant, doomed->id);
}

// Only among the first: times follow ids, as far as the clock was right.
static fallible find_old(struct db *db, const struct pruning *pruning, struct rows *rows,
			 struct doomed **out)
{
	auto_query query = {0};
	bool found;

	TRY(query_open(db, "SELECT id, tenant, time FROM events ORDER BY id LIMIT $1", &query));
	query_put_int(&query, STEP);
	for (;;) {
		struct doomed one;
		void *at = *out;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		one.id = (uint64_t)query_take_int(&query);
		one.tenant = query_take_text(&query, rows->arena);
		if (query_take_int(&query) >= pruning->before_ms)
			continue;
		*(struct doomed *)rows_next(rows, &at, sizeof(one)) = one;
		*out = at;
	}
}

struct tally {
	const char *tenant;
	uint64_t count; // of all that it ever had
};

static fallible count_all(struct db *db, struct rows *rows, struct tally **out)
{
	auto_query query = {0};
	bool found;

	TRY(query_open(db,
		       "SELECT substr(name, length($1) + 1), value FROM counters WHERE"
		       " substr(name, 1, length($1)) = $1",
		       &query));
	query_put_text(&query, OWN "/");
	for (;;) {
		struct tally *one;
		void *at = *out;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		one = rows_next(rows, &at, sizeof(*one));
		*out = at;
		one->tenant = query_take_text(&query, rows->arena);
		one->count = (uint64_t)query_take_int(&query);
	}
}

static fallible find_many(struct db *db, const struct tally *tally, uint64_t keep,
			  struct rows *rows, struct doomed **out)
{
	auto_query query = {0};
	bool found;

	if (tally->count <= keep || rows->count >= STEP)
		return OK;
	TRY(query_open(db,
		       "SELECT id FROM events WHERE tenant = $1 AND own <= $2 ORDER BY own"
		       " LIMIT $3",
		       &query));
	query_put_text(&query, tally->tenant);
	query_put_int(&query, (int64_t)(tally->count - keep));
	query_put_int(&query, (int64_t)(STEP - rows->count));
	for (;;) {
		struct doomed *one;
		void *at = *out;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		one = rows_next(rows, &at, sizeof(*one));
		*out = at;
		one->id = (uint64_t)query_take_int(&query);
		one->tenant = tally->tenant;
	}
}

static struct err *events_query_prune(struct db *db, void *arg)
{
	struct pruning *pruning = arg;
	auto_arena arena = arena_new();
	struct rows found = {.arena = arena}, tenants = {.arena = arena};
	struct doomed *doomed = NULL;
	struct tally *tallies = NULL;

	TRY(find_old(db, pruning, &found, &doomed));
	if (!found.count) {
		TRY(count_all(db, &tenants, &tallies));
		for (size_t i = 0; i < tenants.count; i++)
			TRY(find_many(db, &tallies[i], pruning->keep, &found, &doomed));
	}
	for (size_t i = 0; i < found.count; i++)
		TRY(store_events_forget(db, &doomed[i]));
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
