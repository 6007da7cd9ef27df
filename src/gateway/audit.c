// Writes audit rows to the store and sums up frequent ones. A row is referenced by the request that
// waits for it and by the store's callback. Counters are flushed every AUDIT_LOG_SPAN_MS and when
// there are SUMS_MAX of them.
#include "gateway/audit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "codec/json.h"
#include "manager/access.h"
#include "store/audit.h"

#define FIELDS_MAX 8192
#define SUMS_MAX 4096
#define ROWS_EACH 16 // rows of one kind within AUDIT_LOG_SPAN_MS; more are counted
#define ACTION_MAX 192
#define LOOK_MS 100 // interval at which a waiter checks whether the store still works

// One row, referenced by its waiter and by the store.
struct audit_log_row {
	int refs;
	bool done; // it is durable, or lost
	struct condition settled;
};

// A counter of equal requests.
struct sum {
	char *tenant, *who, *name, *action, *target, *outcome;
	char request[17]; // id of the first one
	int64_t first_ms;
	uint64_t count;
	unsigned told; // rows written individually
};

struct audit_log {
	struct loop *loop;
	struct store *store;
	struct map *sums;
	struct timer due;
	bool waiting;
};

static void on_due(struct timer *timer)
{
	audit_log_flush(link_of(timer, struct audit_log, due));
}

struct audit_log *audit_log_new(struct loop *loop, struct store *store)
{
	struct audit_log *audit = mem_new_of(struct audit_log);

	*audit = (struct audit_log){.loop = loop, .store = store, .sums = map_new()};
	audit->due.due = on_due;
	return audit;
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

static void write_sum(struct audit_log *audit, const struct sum *sum)
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
	store_audit_queue(audit->store,
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

void audit_log_flush(struct audit_log *audit)
{
	struct map *sums = audit ? audit->sums : NULL;
	struct str key;
	void *value;

	if (!audit)
		return;
	audit->sums = map_new();
	if (audit->waiting)
		loop_drop_timer(audit->loop, &audit->due);
	audit->waiting = false;
	for (size_t at = 0; map_next(sums, &at, &key, &value);) {
		write_sum(audit, value);
		sum_free(value);
	}
	map_free(sums);
}

// -------------------------------------------------------------------------------------- one row

static void row_drop(struct audit_log_row *row)
{
	if (row && --row->refs == 0)
		free(row);
}

static void on_disk(void *arg)
{
	struct audit_log_row *row = arg;

	row->done = true;
	condition_signal(&row->settled);
	row_drop(row);
}

static struct audit_log_row *audit_log_add_row(const struct audit_log_mark *mark,
					       const struct http *x, const char *action,
					       const char *target, const char *outcome)
{
	const struct who *who = mark->who;
	struct audit_log_row *row = mem_new_of(struct audit_log_row);
	auto_buf fields = BUF_INIT(FIELDS_MAX);
	struct json_out out = json_to(&fields);

	json_begin(&out, '{');
	json_put_text(&out, "name", who->name);
	if (who->web[0])
		json_put_text(&out, "via", who->web);
	json_put_text(&out, "requestId", x->id);
	json_put_str(&out, "traceId", x->trace);
	json_put_str(&out, "peer", x->peer);
	if (x->status)
		json_put_int(&out, "status", x->status);
	json_end(&out, '}');
	row->refs = 2;
	condition_init(&row->settled);
	store_audit_queue(mark->audit->store,
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

// A disconnected client cancels the wait, not the row.
static void audit_log_await(const struct audit_log *audit, struct audit_log_row *row)
{
	if (!row->done)
		store_nudge(audit->store);
	while (!row->done && store_health(audit->store) == STORE_FINE) {
		auto_err err = condition_wait(&row->settled, loop_now(audit->loop) + LOOK_MS);

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

static void name_action(const struct http *x, char *out, size_t size)
{
	snprintf(out, size, STR_FMT " %s", STR_ARG(x->head.method), x->route->pattern);
}

static struct sum *sum_of(const struct audit_log_mark *mark, const struct http *x,
			  const char *action, const char *outcome)
{
	struct audit_log *audit = mark->audit;
	const struct who *who = mark->who;
	const char *name = who->key[0] ? who->key : who->name;
	char key[512];
	int len = snprintf(key, sizeof(key), "%s\n%s\n%s\n%s\n%s", mark->tenant, name, action,
			   mark->target, outcome);
	struct str id = {key, len < (int)sizeof(key) ? (size_t)len : sizeof(key) - 1};
	struct sum *sum = map_get(audit->sums, id);

	if (sum)
		return sum;
	if (map_count(audit->sums) >= SUMS_MAX)
		audit_log_flush(audit);
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
	map_put(audit->sums, id, sum);
	if (!audit->waiting)
		loop_set_timer(audit->loop, &audit->due, loop_now(audit->loop) + AUDIT_LOG_SPAN_MS);
	audit->waiting = true;
	return sum;
}

static void gateway_audit_log_begin(struct audit_log_mark *mark, const struct http *x)
{
	char action[ACTION_MAX];

	name_action(x, action, sizeof(action));
	mark->row = audit_log_add_row(mark, x, action, mark->target, "begun");
}

static bool may_record(const struct audit_log_mark *mark, const struct http *x)
{
	char action[ACTION_MAX];
	struct sum *sum;

	name_action(x, action, sizeof(action));
	sum = sum_of(mark, x, action, "ok");
	return sum->told < ROWS_EACH && ++sum->told;
}

void audit_log_look(struct audit_log *audit, struct http *x, const struct manager *manager,
		    const struct who *who, struct audit_log_mark *out)
{
	const struct entry *entry = NULL;

	*out = (struct audit_log_mark){.audit = audit, .who = who};
	out->wanted = audit && who && x->route &&
		      (!is_harmless(x) || x->route->flags & ROUTE_AUDITED);
	if (!out->wanted)
		return;
	if ((strstr(x->route->pattern, "/sandbox") || strstr(x->route->pattern, "/toolbox/")) &&
	    x->params[0].at)
		entry = access_find(manager, who, x->params[0]);
	snprintf(out->tenant, sizeof(out->tenant), "%s",
		 entry ? entry->record.tenant : who->tenant);
	if (entry)
		snprintf(out->target, sizeof(out->target), "%s", entry->record.id);
	else if (x->params[0].at)
		snprintf(out->target, sizeof(out->target), STR_FMT, STR_ARG(x->params[0]));
	if (!entry || x->route->flags & ROUTE_READONLY)
		return;
	if (x->route->flags & ROUTE_AUDITED || may_record(out, x))
		gateway_audit_log_begin(out, x);
}

void audit_log_begin(struct audit_log_mark *mark, const struct http *x, const char *target)
{
	if (!mark->wanted || mark->row)
		return;
	snprintf(mark->target, sizeof(mark->target), "%s", target);
	gateway_audit_log_begin(mark, x);
}

// Takes the name of a new object from the Location header of the reply.
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

// Adds the row with the outcome. The name of a new object may be known from the reply only.
static struct audit_log_row *add_last(struct audit_log_mark *mark, const struct http *x,
				      const char *action, const char *outcome)
{
	char target[sizeof(mark->target)];

	memcpy(target, mark->target, sizeof(target));
	if (!target[0])
		take_location(x, target, sizeof(target));
	return audit_log_add_row(mark, x, action, target, outcome);
}

void audit_log_note(struct audit_log_mark *mark, const struct http *x, const struct err *err)
{
	char action[ACTION_MAX], outcome[48];
	struct audit_log_row *last = NULL;

	if (!mark->wanted || mark->noted)
		return;
	mark->noted = true;
	name_action(x, action, sizeof(action));
	outcome_of(x, err, outcome);
	if (x->route->flags & ROUTE_AUDITED || (mark->row && strcmp(outcome, "ok") != 0))
		last = add_last(mark, x, action, outcome);
	else if (!mark->row)
		sum_of(mark, x, action, outcome)->count++;
	// A ROUTE_AUDITED request waits for its row. Work in a sandbox does not: that would cost
	// every command a disk sync.
	if ((mark->row || last) && x->route->flags & ROUTE_AUDITED && !is_harmless(x))
		audit_log_await(mark->audit, mark->row ? mark->row : last);
	row_drop(take_ptr(mark->row));
	row_drop(last);
}
