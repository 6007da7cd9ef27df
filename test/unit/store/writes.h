// Writes and questions that the daemon only makes inside a deed of its own, as calls that wait.
#pragma once

#include "store/audit.h"
#include "store/egress.h"
#include "store/events.h"

struct adding {
	const struct store_event *events;
	const struct store_audit *row;
	size_t count;
	uint64_t first;
};

static struct err *add_events_in(struct db *db, void *arg)
{
	struct adding *adding = arg;

	for (size_t i = 0; i < adding->count; i++)
		TRY(store_events_add_in(db, &adding->events[i], i ? NULL : &adding->first));
	return OK;
}

__attribute__((unused)) static struct err *add_events(struct store *store,
						      const struct store_event *events,
						      size_t count, uint64_t *out_first)
{
	struct adding adding = {.events = events, .count = count};

	TRY(store_do(store, add_events_in, &adding));
	if (out_first)
		*out_first = adding.first;
	return OK;
}

static struct err *add_audit_in(struct db *db, void *arg)
{
	struct adding *adding = arg;

	return store_audit_add_in(db, adding->row, &adding->first);
}

__attribute__((unused)) static struct err *add_audit(struct store *store,
						     const struct store_audit *row,
						     uint64_t *out_id)
{
	struct adding adding = {.row = row};

	TRY(store_do(store, add_audit_in, &adding));
	if (out_id)
		*out_id = adding.first;
	return OK;
}

struct session_use {
	const char *id;
	uint64_t count;
};

static struct err *count_session_ids(struct db *db, void *arg)
{
	struct session_use *use = arg;

	return db_number(db, "SELECT count(*) FROM session_ids WHERE id = $1",
			 DB_WITH(db_text(use->id)), &use->count);
}

__attribute__((unused)) static bool is_session_used(struct store *store, const char *id)
{
	struct session_use use = {.id = id, .count = 99};

	err_free(store_ask(store, count_session_ids, &use));
	return use.count == 1;
}

static struct err *forget_egress_in(struct db *db, void *arg)
{
	return store_egress_forget_in(db, arg);
}

__attribute__((unused)) static struct err *forget_egress(struct store *store, const char *box)
{
	return store_do_last(store, forget_egress_in, (void *)box);
}
