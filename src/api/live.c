// The feed of a page: GET /v1/live. The connection's task receives the client's messages; each
// subscription has a task that sends. A subscription reads what it sends only when it may send:
// what changes twice meanwhile is sent once, readings are left out, events are read from the store
// where the last one ended. So a slow page costs no memory, and delays no other one.
//
// The feed ends with the key or the session of its request (gateway/), and with the daemon.
#include "api/live.h"

#include <stdio.h>

#include "api/box_json.h"
#include "api/events.h"
#include "api/handlers.h"
#include "api/stats.h"
#include "api/ui.h"
#include "base/clock.h"
#include "base/metric.h"
#include "http/upgrade.h"
#include "manager/operations.h"
#include "manager/queue.h"

#define TEXT_MAX (4u << 20)
#define PIECE_BYTES (64 * 1024) // of rows in one message
#define EVENTS_BATCH 200
#define EVENTS_PAUSE_MS 30 // events that come together are read together
#define WATCH_MS 1000	   // age of samples of sandboxes that are watched
#define LOOK_MS 2500

static struct manager *live_manager(const struct live_sub *sub)
{
	return gateway_of(sub->feed->x)->manager;
}

static const struct who *live_who(const struct live_sub *sub)
{
	return gateway_who(sub->feed->x);
}

static int64_t live_now(const struct live_sub *sub)
{
	return loop_now(gateway_of(sub->feed->x)->loop);
}

// A sandbox that the client sees, by id or name; NULL: there is none. Borrowed until the next wait.
static struct entry *live_find_box(const struct live_sub *sub, const char *box)
{
	const struct record *record = NULL;
	auto_err absent = manager_get(live_manager(sub), live_who(sub), str_of(box), &record);

	return absent ? NULL : link_of(record, struct entry, record);
}

// TIMEOUT is not an error where only time was waited for.
static fallible live_unless_late(struct err *err)
{
	if (!err || err_kind(err) != ERR_TIMEOUT)
		return err;
	err_free(err);
	return OK;
}

// ---------------------------------------------------------------------------------------- events

struct live_events {
	struct store_events_ask ask;
	char box[ID_BOX_LEN + 1]; // "": of all
};

static bool live_is_wanted(const struct live_sub *sub, const struct live_events *events,
			   const struct store_event *event)
{
	const struct live_terms *terms = &sub->terms;
	bool matches = !terms->kind_count;

	for (size_t i = 0; i < terms->kind_count && !matches; i++)
		matches = event_matches(event->kind, str_of(terms->kinds[i]));
	return matches && (!terms->box[0] || !strcmp(event->sandbox, events->box)) &&
	       access_sees(live_who(sub), event->tenant, event->sandbox);
}

static fallible live_send_missed(const struct live_sub *sub, uint64_t after, uint64_t oldest)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct json_out out = live_begin(&text, sub);

	json_put_begin(&out, "missed", '{');
	json_put_int(&out, "after", (int64_t)after);
	json_put_int(&out, "oldest", (int64_t)oldest);
	json_end(&out, '}');
	return live_send(sub, &out);
}

// A name or short id becomes the id, if such a sandbox exists now.
static void live_settle_box(const struct live_sub *sub, struct live_events *events)
{
	const struct entry *entry = NULL;

	snprintf(events->box, sizeof(events->box), "%.*s", ID_BOX_LEN, sub->terms.box);
	if (sub->terms.box[0])
		entry = live_find_box(sub, sub->terms.box);
	if (entry)
		memcpy(events->box, entry->record.id, sizeof(events->box));
}

// The place to begin with, and tells it: a client that gets no event can resume, too.
static fallible live_begin_events(const struct live_sub *sub, struct live_events *events)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct json_out out = live_begin(&text, sub);
	struct store *store = live_manager(sub)->store;

	if (!store)
		return err_new(UNAVAILABLE, "state_unwritable", "the state cannot be read");
	live_settle_box(sub, events);
	if (!sub->terms.has_after) {
		auto_arena arena = arena_new();
		struct store_events page;

		TRY(store_flush(store));
		TRY(store_events_page(store, &events->ask, arena, &page));
		events->ask.after = page.newest;
	}
	json_put_int(&out, "after", (int64_t)events->ask.after);
	return live_send(sub, &out);
}

static fallible live_copy_events(const struct live_sub *sub, struct live_events *events,
				 bool *out_more)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	auto_arena arena = arena_new();
	struct store_events page;

	TRY(store_events_page(live_manager(sub)->store, &events->ask, arena, &page));
	if (page.missed)
		TRY(live_send_missed(sub, events->ask.after, page.oldest));
	for (size_t i = 0; i < page.count; i++) {
		struct json_out out;

		if (!live_is_wanted(sub, events, &page.at[i]))
			continue;
		out = live_begin(&text, sub);
		json_key(&out, "event");
		events_write(&out, &page.at[i]);
		TRY(live_send(sub, &out));
	}
	*out_more = page.count == events->ask.max;
	events->ask.after = page.last;
	return OK;
}

static fallible live_run_events(struct live_sub *sub)
{
	const struct who *who = live_who(sub);
	struct manager *manager = live_manager(sub);
	struct live_events events = {
		.ask = {.tenant = who->role == WHO_OPERATOR ? NULL : who->tenant,
			.own = who->role != WHO_OPERATOR,
			.after = sub->terms.after,
			.max = EVENTS_BATCH},
	};

	TRY(live_begin_events(sub, &events));
	for (;;) {
		uint64_t written = manager->events_written;
		bool more = false;

		TRY(live_copy_events(sub, &events, &more));
		if (more)
			continue;
		if (written == manager->events_written)
			TRY(condition_wait(&manager->event_written, CLOCK_NEVER));
		TRY(task_sleep_until(live_now(sub) + EVENTS_PAUSE_MS));
	}
}

// ------------------------------------------------------------------------------------- sandboxes

struct live_rows {
	struct live_sub *sub;
	struct buf text;
	struct json_out out;
	size_t count;
};

static void live_put_row(struct live_rows *rows, struct entry *entry, uint64_t since)
{
	unsigned fields = rows->sub->terms.fields;

	if (entry->live.record <= since)
		fields &= LIVE_FIELDS_SAMPLE;
	queue_show(entry);
	json_begin(&rows->out, '{');
	box_put_row(&rows->out, entry, fields);
	json_put_int(&rows->out, "version", (int64_t)live_mark_version(&entry->live));
	json_end(&rows->out, '}');
	rows->count++;
}

// All sandboxes that the client sees, in pieces: the first has `reset`, all but the last `more`.
// Sandboxes that come and go while the pieces are sent are in the changes that follow.
static fallible live_send_all(struct live_rows *rows)
{
	struct manager *manager = live_manager(rows->sub);
	uint64_t after = 0;
	bool more = true;

	for (bool first = true; more; first = false) {
		rows->out = live_begin(&rows->text, rows->sub);
		if (first)
			json_put_bool(&rows->out, "reset", true);
		json_put_begin(&rows->out, "set", '[');
		more = false;
		list_each (at, &manager->entries) {
			struct entry *entry = link_of(at, struct entry, link);

			if (entry->record.seq <= after ||
			    !access_sees(live_who(rows->sub), entry->record.tenant,
					 entry->record.id))
				continue;
			more = rows->text.len > PIECE_BYTES;
			if (more)
				break;
			after = entry->record.seq;
			json_begin(&rows->out, '{');
			queue_show(entry);
			box_put_row(&rows->out, entry, rows->sub->terms.fields);
			json_put_int(&rows->out, "version",
				     (int64_t)live_mark_version(&entry->live));
			json_end(&rows->out, '}');
		}
		json_end(&rows->out, ']');
		if (more)
			json_put_bool(&rows->out, "more", true);
		TRY(live_send(rows->sub, &rows->out));
	}
	return OK;
}

static void live_put_gone(void *arg, const struct live_gone *gone)
{
	struct live_rows *rows = arg;

	if (!access_sees(live_who(rows->sub), gone->tenant, gone->id))
		return;
	json_add_text(&rows->out, gone->id);
	rows->count++;
}

// Sends the changes since *seen, as one message at most; *seen is then what it covers.
static fallible live_send_changes(struct live_rows *rows, uint64_t *seen)
{
	const struct live_log *log = live_manager(rows->sub)->live_log;
	uint64_t since = *seen;
	struct live_mark *mark = live_log_first(log, since);

	rows->count = 0;
	rows->out = live_begin(&rows->text, rows->sub);
	json_put_begin(&rows->out, "set", '[');
	for (; mark && rows->text.len <= PIECE_BYTES; mark = live_log_next(log, mark)) {
		struct entry *entry = link_of(mark, struct entry, live);

		*seen = live_mark_version(mark);
		if (access_sees(live_who(rows->sub), entry->record.tenant, entry->record.id))
			live_put_row(rows, entry, since);
	}
	if (!mark)
		*seen = live_log_version(log);
	json_end(&rows->out, ']');
	json_put_begin(&rows->out, "gone", '[');
	live_log_gone(log, since, *seen, live_put_gone, rows);
	json_end(&rows->out, ']');
	return rows->count ? live_send(rows->sub, &rows->out) : OK;
}

// Samples of what the page shows are taken oftener. Each reading waits: it is the sandbox's alone.
static fallible live_watch(struct live_sub *sub, int64_t *due_ms)
{
	uint32_t terms = sub->terms_count;

	if (live_now(sub) < *due_ms)
		return OK;
	for (size_t i = 0; i < sub->terms.box_count && terms == sub->terms_count; i++) {
		struct entry *found = live_find_box(sub, sub->terms.boxes[i]);

		if (!found || !entry_is_alive(found))
			continue;
		entry_ref(found);
		auto_entry entry = found;

		sampler_refresh(entry, WATCH_MS / 2);
	}
	*due_ms = live_now(sub) + WATCH_MS;
	return OK;
}

static fallible live_follow_boxes(struct live_rows *rows)
{
	struct live_sub *sub = rows->sub;
	struct live_log *log = live_manager(sub)->live_log;
	unsigned fields = 0; // none were sent yet
	int64_t watch_ms = 0;
	uint64_t seen = 0;

	for (;;) {
		int64_t next_ms = live_now(sub) + LIVE_TICK_MS;

		if (fields != sub->terms.fields || !live_log_is_whole(log, seen)) {
			fields = sub->terms.fields;
			seen = live_log_version(log);
			TRY(live_send_all(rows));
		} else {
			TRY(live_send_changes(rows, &seen));
		}
		TRY(live_watch(sub, &watch_ms));
		TRY(task_sleep_until(next_ms));
		TRY(live_unless_late(live_log_await(log, seen, next_ms + WATCH_MS)));
	}
}

static fallible live_run_boxes(struct live_sub *sub)
{
	struct live_rows rows = {.sub = sub, .text = BUF_INIT(TEXT_MAX)};
	struct err *err = live_follow_boxes(&rows);

	buf_done(&rows.text);
	return err;
}

// ------------------------------------------------------------------------------- stats and host

// Waits for the next reading, or for other terms. A reading whose time has passed is left out.
static fallible live_pause(struct live_sub *sub, int64_t *next_ms)
{
	uint32_t terms = sub->terms_count;
	int64_t late;

	*next_ms += sub->terms.every_ms;
	late = live_now(sub) - *next_ms;
	if (late > 0) {
		int64_t dropped = late / sub->terms.every_ms + 1;

		metric_add(METRIC_LIVE_DROPPED, live_topic_word(sub->topic), NULL, (double)dropped);
		*next_ms = live_now(sub);
	}
	while (terms == sub->terms_count && live_now(sub) < *next_ms)
		TRY(live_unless_late(condition_wait(&sub->changed, *next_ms)));
	if (terms != sub->terms_count)
		*next_ms = live_now(sub);
	return OK;
}

static void live_put_stats(struct live_sub *sub, const char *box, struct sample *was,
			   struct json_out *out)
{
	struct entry *found = live_find_box(sub, box);

	if (!found) {
		json_begin(out, '{');
		json_put_text(out, "sandbox", box);
		json_put_text(out, "state", NULL);
		json_end(out, '}');
		return;
	}
	entry_ref(found);
	auto_entry entry = found;

	sampler_refresh(entry, (int64_t)sub->terms.every_ms / 2);
	stats_put_box(out, entry, was);
}

static fallible live_follow_stats(struct live_sub *sub, struct sample *was, struct buf *text)
{
	int64_t next_ms = live_now(sub);
	uint32_t terms = sub->terms_count;

	for (;;) {
		struct json_out out = live_begin(text, sub);

		if (terms != sub->terms_count)
			memset(was, 0, LIVE_BOXES_MAX * sizeof(*was));
		terms = sub->terms_count;
		json_put_begin(&out, "stats", '[');
		for (size_t i = 0; i < sub->terms.box_count && terms == sub->terms_count; i++)
			live_put_stats(sub, sub->terms.boxes[i], &was[i], &out);
		json_end(&out, ']');
		TRY(live_send(sub, &out));
		TRY(live_pause(sub, &next_ms));
	}
}

static fallible live_run_stats(struct live_sub *sub)
{
	auto_free struct sample *was = mem_grow(NULL, LIVE_BOXES_MAX, sizeof(*was));
	auto_buf text = BUF_INIT(TEXT_MAX);

	memset(was, 0, LIVE_BOXES_MAX * sizeof(*was));
	return live_follow_stats(sub, was, &text);
}

static fallible live_run_host(struct live_sub *sub)
{
	int64_t next_ms = live_now(sub);

	for (;;) {
		auto_buf text = BUF_INIT(TEXT_MAX);
		struct json_out out = live_begin(&text, sub);

		json_key(&out, "host");
		stats_put_host(&out, gateway_of(sub->feed->x), live_who(sub));
		TRY(live_send(sub, &out));
		TRY(live_pause(sub, &next_ms));
	}
}

// ------------------------------------------------------------------------------------ operations

// The first that has changed after the version, in the order of changes; NULL: none.
static struct operation *live_operation_after(const struct live_sub *sub, int64_t version)
{
	struct operation *operation, *found = NULL;

	for (size_t at = 0; operations_next(live_manager(sub), &at, &operation);)
		if ((int64_t)operation->changed_at > version &&
		    operations_sees(live_who(sub), operation) &&
		    (!found || operation->changed_at < found->changed_at))
			found = operation;
	return found;
}

static fallible live_send_operation(struct live_sub *sub, const struct operation *operation)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct json_out out = live_begin(&text, sub);

	json_key(&out, "operation");
	operation_write(&out, operation);
	return live_send(sub, &out);
}

// Operations that an earlier daemon has ended do not change: they are sent once, at first.
static fallible live_send_operations(struct live_sub *sub)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct json_out out = live_begin(&text, sub);
	struct operation *operation;

	json_put_begin(&out, "operations", '[');
	for (size_t at = 0; operations_next(live_manager(sub), &at, &operation);)
		if (operations_sees(live_who(sub), operation) && text.len < TEXT_MAX / 2)
			operation_write(&out, operation);
	json_end(&out, ']');
	return live_send(sub, &out);
}

static fallible live_run_operations(struct live_sub *sub)
{
	struct manager *manager = live_manager(sub);
	int64_t seen = (int64_t)manager->operation_changes;

	TRY(live_send_operations(sub));
	for (;;) {
		int64_t until = (int64_t)manager->operation_changes;
		struct operation *operation;

		while ((operation = live_operation_after(sub, seen))) {
			seen = (int64_t)operation->changed_at;
			TRY(live_send_operation(sub, operation));
		}
		seen = seen > until ? seen : until; // of other tenants
		if (seen == (int64_t)manager->operation_changes)
			TRY(condition_wait(&manager->operation_changed, CLOCK_NEVER));
		TRY(task_sleep_until(live_now(sub) + LIVE_TICK_MS));
	}
}

// ---------------------------------------------------------------------------------- subscriptions

typedef fallible live_run_fn(struct live_sub *sub);
static live_run_fn *const live_runs[LIVE_TOPIC_COUNT] = {
	[LIVE_EVENTS] = live_run_events,	 [LIVE_BOXES] = live_run_boxes,
	[LIVE_STATS] = live_run_stats,		 [LIVE_HOST] = live_run_host,
	[LIVE_OPERATIONS] = live_run_operations, [LIVE_LOG] = live_run_log,
};

static void live_leave(struct live_feed *feed)
{
	feed->tasks--;
	condition_signal(&feed->left);
}

static void live_sub_task(void *arg)
{
	struct live_sub *sub = arg;
	struct live_feed *feed = sub->feed;
	auto_err err = live_runs[sub->topic](sub);

	if (err && err_kind(err) != ERR_CANCELLED)
		err_free(live_send_error(feed, sub->id, err));
	link_drop(&sub->link);
	feed->sub_count--;
	free(sub);
	live_leave(feed);
}

static void live_ping_task(void *arg)
{
	struct live_feed *feed = arg;
	struct loop *loop = gateway_of(feed->x)->loop;
	auto_err err = OK;

	while (!err) {
		auto_buf text = BUF_INIT(256);
		struct json_out out = json_to(&text);

		err = task_sleep_until(loop_now(loop) + LIVE_PING_MS);
		json_begin(&out, '{');
		json_put_text(&out, "op", "ping");
		json_put_time(&out, "time", clock_wall_ms());
		json_end(&out, '}');
		if (!err)
			err = live_write(feed, &text);
	}
	feed->ping = NULL;
	live_leave(feed);
}

static struct live_sub *live_find_sub(const struct live_feed *feed, const char *id)
{
	list_each (at, &feed->subs) {
		struct live_sub *sub = link_of(at, struct live_sub, link);

		if (!strcmp(sub->id, id))
			return sub;
	}
	return NULL;
}

static enum live_topic live_topic_of(void *arg, const char *id)
{
	const struct live_sub *sub = live_find_sub(arg, id);

	return sub ? sub->topic : LIVE_TOPIC_COUNT;
}

// The name is free at once; the task ends at its next wait.
static void live_unsub(struct live_sub *sub)
{
	link_drop(&sub->link);
	task_cancel(sub->task);
}

static bool live_is_same_client(const struct who *a, const struct who *b)
{
	return a->role == b->role && !strcmp(a->web, b->web) && !strcmp(a->key, b->key) &&
	       !strcmp(a->tenant, b->tenant) && !strcmp(a->name, b->name);
}

// The feeds of the client of `x`, and their subscriptions.
static uint32_t live_count(const struct http *x, uint32_t *out_subs)
{
	uint32_t feeds = 0;

	*out_subs = 0;
	list_each (at, &gateway_of(x)->feeds) {
		const struct live_feed *feed = link_of(at, struct live_feed, link);

		if (!live_is_same_client(gateway_who(feed->x), gateway_who(x)))
			continue;
		feeds++;
		*out_subs += feed->sub_count;
	}
	return feeds;
}

static fallible live_add(struct live_feed *feed, const struct live_message *message)
{
	uint32_t subs;
	struct live_sub *sub;

	if (live_find_sub(feed, message->id))
		return err_new(CONFLICT, "subscription_taken",
			       "this feed has a subscription of that id");
	live_count(feed->x, &subs);
	if (subs >= LIVE_SUBS_MAX)
		return err_hint(err_new(EXHAUSTED, "too_many_subscriptions",
					"a client may have %d subscriptions", LIVE_SUBS_MAX),
				"end others with {op:\"unsub\"}");
	TRY(access_ask(gateway_who(feed->x),
		       message->topic == LIVE_LOG ? ACCESS_USE : ACCESS_READ));
	sub = mem_new_of(struct live_sub);
	sub->feed = feed;
	memcpy(sub->id, message->id, sizeof(sub->id));
	sub->topic = message->topic;
	sub->terms = message->terms;
	condition_init(&sub->changed);
	link_add(&feed->subs, &sub->link);
	feed->sub_count++;
	feed->tasks++;
	sub->task = task_start(task_loop(), "live.sub", live_sub_task, sub);
	return OK;
}

static fallible live_handle(struct live_feed *feed, const struct live_message *message)
{
	struct live_sub *sub = live_find_sub(feed, message->id);

	if (message->op == LIVE_SUB)
		return live_add(feed, message);
	if (!sub)
		return message->op == LIVE_SET ? err_absent("no_subscription", "subscription",
							    str_of(message->id))
					       : OK; // it has just ended
	switch (message->op) {
	case LIVE_SET:
		sub->terms = message->terms;
		sub->terms_count++;
		break;
	case LIVE_ACK:
		sub->acked = message->bytes < sub->sent - sub->acked ? sub->acked + message->bytes
								     : sub->sent;
		break;
	default:
		live_unsub(sub);
		return OK;
	}
	condition_signal(&sub->changed);
	return OK;
}

static fallible live_receive(struct live_feed *feed)
{
	auto_free struct live_message *message = mem_new_of(struct live_message);
	struct loop *loop = gateway_of(feed->x)->loop;

	for (;;) {
		struct wsock_message got;
		struct err *err = wsock_recv(feed->ws, loop_now(loop) + LOOK_MS, &got);

		if (err && err_kind(err) != ERR_TIMEOUT)
			return err;
		if (!feed->is_slow && feed->sending &&
		    loop_now(loop) - feed->moved_ms > LIVE_SLOW_MS) {
			feed->is_slow = true;
			wsock_shut(feed->ws, LIVE_CODE_SLOW, "the reader is too slow");
		}
		if (err) {
			err_free(err);
			continue;
		}
		if (got.kind == WSOCK_CLOSED)
			return OK;
		err = live_message_read(got.body, live_topic_of, feed, message);
		if (!err)
			err = live_handle(feed, message);
		if (err) {
			struct err *lost = live_send_error(feed, message->id, err);

			err_free(err);
			err_free(lost); // the next wsock_recv() says so, too
		}
	}
}

static fallible live_greet(struct live_feed *feed)
{
	auto_buf text = BUF_INIT(1024);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_text(&out, "op", "hello");
	json_put_str(&out, "build", ui_build());
	json_put_text(&out, "version", gateway_of(feed->x)->version);
	json_put_time(&out, "time", clock_wall_ms());
	json_end(&out, '}');
	return live_write(feed, &text);
}

static fallible live_talk(struct http *x, struct wsock *ws, void *arg)
{
	struct live_feed feed = {.x = x, .ws = ws};
	struct err *err;

	(void)arg;
	link_init(&feed.subs);
	condition_init(&feed.left);
	link_add(&gateway_of(x)->feeds, &feed.link);
	err = live_greet(&feed);
	feed.tasks++;
	feed.ping = task_start(task_loop(), "live.ping", live_ping_task, &feed);
	if (!err)
		err = live_receive(&feed);
	if (feed.ping)
		task_cancel(feed.ping);
	list_each (at, &feed.subs)
		live_unsub(link_of(at, struct live_sub, link));
	wsock_end(ws); // who waits for a slow reader does so no longer
	while (feed.tasks)
		condition_await(&feed.left);
	link_drop(&feed.link);
	return err;
}

fallible api_live(struct http *x)
{
	struct wsock_options options = {.max = LIVE_MESSAGE_MAX, .speaks_first = true};
	uint32_t subs;

	TRY(upgrade_check(x));
	TRY(access_ask(gateway_who(x), ACCESS_READ));
	if (live_count(x, &subs) >= LIVE_FEEDS_MAX)
		return err_hint(err_new(EXHAUSTED, "too_many_feeds", "a client may have %d feeds",
					LIVE_FEEDS_MAX),
				"close other tabs, or subscribe to several topics on one feed");
	x->feed = true;
	return upgrade_run(x, &options, live_talk, NULL);
}
