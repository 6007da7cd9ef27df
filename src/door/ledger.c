#include "door/ledger.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "fleet/access.h"
#include "store/audit.h"
#include "wire/json.h"

#define FIELDS_MAX 8192
#define SUMS_MAX 4096
#define ROWS_EACH 16 // of one kind of work in LEDGER_SPAN_MS; more are summed up
#define ACTION_MAX 192
#define LOOK_MS 100 // how often it is seen whether the state can still be written

// One row, held by whoever waits for it and by the store.
struct ledger_row {
	int refs;
	bool done; // it is on disk, or lost
	struct bell settled;
};

// Work of one kind, summed up.
struct sum {
	char *tenant, *who, *name, *action, *target, *outcome;
	char request[17]; // the first
	int64_t first_ms;
	uint64_t count;
	unsigned told; // by rows of their own
};

struct ledger {
	struct loop *loop;
	struct store *store;
	struct map *sums;
	struct timer due;
	bool waiting;
};

static void on_due(struct timer *timer)
{
	ledger_flush(link_of(timer, struct ledger, due));
}

struct ledger *ledger_new(struct loop *loop, struct store *store)
{
	struct ledger *ledger = mem_new_of(struct ledger);

	*ledger = (struct ledger){.loop = loop, .store = store, .sums = map_new()};
	ledger->due.due = on_due;
	return ledger;
}

static void sum_free(struct sum *sum)
{
	free(sum->tenant);
	free(sum->who);
	free(sum->name);
	free(sum->action);
	free(sum->target);
	free(sum->outcome);
	free(sum);
}

static void write_sum(struct ledger *ledger, const struct sum *sum)
{
	auto_buf fields = BUF_INIT(FIELDS_MAX);
	struct json_out out = json_to(&fields);

	if (!sum->count)
		return;
	json_begin(&out, '{');
	json_put_text(&out, "name", sum->name);
	json_put_text(&out, "requestId", sum->request);
	json_put_int(&out, "count", (int64_t)sum->count);
	json_end(&out, '}');
	store_audit_tell(ledger->store,
			 &(struct store_audit){
				 .time_ms = sum->first_ms,
				 .tenant = sum->tenant,
				 .who = sum->who,
				 .action = sum->action,
				 .target = sum->target,
				 .outcome = sum->outcome,
				 .fields = buf_ok(&fields) ? fields.at : "{}",
			 },
			 NULL, NULL);
}

void ledger_flush(struct ledger *ledger)
{
	struct map *sums = ledger->sums;
	struct str key;
	void *value;

	ledger->sums = map_new();
	if (ledger->waiting)
		loop_drop_timer(ledger->loop, &ledger->due);
	ledger->waiting = false;
	for (size_t at = 0; map_next(sums, &at, &key, &value);) {
		write_sum(ledger, value);
		sum_free(value);
	}
	map_free(sums);
}

// -------------------------------------------------------------------------------------- one row

static void row_drop(struct ledger_row *row)
{
	if (row && --row->refs == 0)
		free(row);
}

static void on_disk(void *arg)
{
	struct ledger_row *row = arg;

	row->done = true;
	bell_ring(&row->settled);
	row_drop(row);
}

static struct ledger_row *ledger_add_row(const struct ledger_mark *mark, const struct http *x,
					 const char *action, const char *target,
					 const char *outcome)
{
	const struct who *who = mark->who;
	struct ledger_row *row = mem_new_of(struct ledger_row);
	auto_buf fields = BUF_INIT(FIELDS_MAX);
	struct json_out out = json_to(&fields);

	json_begin(&out, '{');
	json_put_text(&out, "name", who->name);
	json_put_text(&out, "requestId", x->id);
	json_put_str(&out, "traceId", x->trace);
	json_put_str(&out, "peer", x->peer);
	if (x->status)
		json_put_int(&out, "status", x->status);
	json_end(&out, '}');
	row->refs = 2;
	bell_init(&row->settled);
	store_audit_tell(mark->ledger->store,
			 &(struct store_audit){
				 .time_ms = clock_wall_ms(),
				 .tenant = mark->tenant,
				 .who = who->key[0] ? who->key : who->name,
				 .action = action,
				 .target = target,
				 .outcome = outcome,
				 .fields = buf_ok(&fields) ? fields.at : "{}",
			 },
			 on_disk, row);
	return row;
}

// Not for a client that is gone: its row is written all the same.
static void ledger_await(const struct ledger *ledger, struct ledger_row *row)
{
	if (!row->done)
		store_nudge(ledger->store);
	while (!row->done && store_health(ledger->store) == STORE_FINE) {
		auto_err err = bell_wait(&row->settled, loop_now(ledger->loop) + LOOK_MS);

		if (err && err_kind(err) != ERR_TIMEOUT)
			return;
	}
}

// ---------------------------------------------------------------------------------- one request

static bool is_harmless(const struct http *x)
{
	return str_is(x->head.method, "GET") || str_is(x->head.method, "HEAD") ||
	       str_is(x->head.method, "OPTIONS");
}

static bool is_wanted(const struct http *x)
{
	return x->route && (!is_harmless(x) || x->route->flags & ROUTE_TOLD);
}

// What changes the house waits for its row. Work in a sandbox does not: that would cost every
// command a sync of the disk.
static bool is_awaited(const struct http *x)
{
	return x->route->flags & ROUTE_TOLD && !is_harmless(x);
}

static void name_action(const struct http *x, char *out, size_t size)
{
	snprintf(out, size, STR_FMT " %s", STR_ARG(x->head.method), x->route->pattern);
}

static struct sum *sum_of(const struct ledger_mark *mark, const struct http *x, const char *action,
			  const char *outcome)
{
	struct ledger *ledger = mark->ledger;
	const struct who *who = mark->who;
	const char *name = who->key[0] ? who->key : who->name;
	char key[512];
	int len = snprintf(key, sizeof(key), "%s\n%s\n%s\n%s\n%s", mark->tenant, name, action,
			   mark->target, outcome);
	struct str id = {key, len < (int)sizeof(key) ? (size_t)len : sizeof(key) - 1};
	struct sum *sum = map_get(ledger->sums, id);

	if (sum)
		return sum;
	if (map_count(ledger->sums) >= SUMS_MAX)
		ledger_flush(ledger);
	sum = mem_new_of(struct sum);
	*sum = (struct sum){
		.tenant = mem_str(mark->tenant),
		.who = mem_str(name),
		.name = mem_str(who->name),
		.action = mem_str(action),
		.target = mem_str(mark->target),
		.outcome = mem_str(outcome),
		.first_ms = clock_wall_ms(),
	};
	memcpy(sum->request, x->id, sizeof(sum->request));
	map_put(ledger->sums, id, sum);
	if (!ledger->waiting)
		loop_set_timer(ledger->loop, &ledger->due, loop_now(ledger->loop) + LEDGER_SPAN_MS);
	ledger->waiting = true;
	return sum;
}

static void door_ledger_begin(struct ledger_mark *mark, const struct http *x)
{
	char action[ACTION_MAX];

	name_action(x, action, sizeof(action));
	mark->row = ledger_add_row(mark, x, action, mark->target, "begun");
}

static bool may_tell(const struct ledger_mark *mark, const struct http *x)
{
	char action[ACTION_MAX];
	struct sum *sum;

	name_action(x, action, sizeof(action));
	sum = sum_of(mark, x, action, "ok");
	return sum->told < ROWS_EACH && ++sum->told;
}

void ledger_look(struct ledger *ledger, struct http *x, const struct fleet *fleet,
		 const struct who *who, struct ledger_mark *out)
{
	const struct entry *entry = NULL;

	*out = (struct ledger_mark){.ledger = ledger, .who = who};
	out->wanted = ledger && who && is_wanted(x);
	if (!out->wanted)
		return;
	if (strstr(x->route->pattern, "/sandbox") && x->params[0].at)
		entry = access_find(fleet, who, x->params[0]);
	snprintf(out->tenant, sizeof(out->tenant), "%s",
		 entry ? entry->record.tenant : who->tenant);
	if (entry)
		snprintf(out->target, sizeof(out->target), "%s", entry->record.id);
	else if (x->params[0].at)
		snprintf(out->target, sizeof(out->target), STR_FMT, STR_ARG(x->params[0]));
	if (!entry || x->route->flags & ROUTE_MILD)
		return;
	if (x->route->flags & ROUTE_TOLD || may_tell(out, x))
		door_ledger_begin(out, x);
}

void ledger_begin(struct ledger_mark *mark, const struct http *x, const char *target)
{
	if (!mark->wanted || mark->row)
		return;
	snprintf(mark->target, sizeof(mark->target), "%s", target);
	door_ledger_begin(mark, x);
}

// What was made is named by the reply alone.
static void take_location(const struct http *x, char *target, size_t size)
{
	static const char head[] = "Location: ";
	const char *at = x->extra && x->extra->len ? strstr(x->extra->at, head) : NULL;
	const char *end, *name;

	if (!at)
		return;
	at += sizeof(head) - 1;
	end = at + strcspn(at, "\r\n");
	for (name = end; name > at && name[-1] != '/';)
		name--;
	snprintf(target, size, "%.*s", (int)(end - name), name);
}

static void outcome_of(const struct http *x, const struct err *err, char out[48])
{
	if (err)
		snprintf(out, 48, "%s", err_reason(err));
	else if (x->status >= 400)
		snprintf(out, 48, "%d", x->status);
	else
		snprintf(out, 48, "ok");
}

// Of what was made, the answer alone may tell the name.
static struct ledger_row *add_last(struct ledger_mark *mark, const struct http *x,
				   const char *action, const char *outcome)
{
	char target[sizeof(mark->target)];

	memcpy(target, mark->target, sizeof(target));
	if (!target[0])
		take_location(x, target, sizeof(target));
	return ledger_add_row(mark, x, action, target, outcome);
}

void ledger_note(struct ledger_mark *mark, const struct http *x, const struct err *err)
{
	char action[ACTION_MAX], outcome[48];
	struct ledger_row *last = NULL;

	if (!mark->wanted || mark->noted)
		return;
	mark->noted = true;
	name_action(x, action, sizeof(action));
	outcome_of(x, err, outcome);
	if (x->route->flags & ROUTE_TOLD || (mark->row && strcmp(outcome, "ok") != 0))
		last = add_last(mark, x, action, outcome);
	else if (!mark->row)
		sum_of(mark, x, action, outcome)->count++;
	if ((mark->row || last) && is_awaited(x))
		ledger_await(mark->ledger, mark->row ? mark->row : last);
	row_drop(take_ptr(mark->row));
	row_drop(last);
}
