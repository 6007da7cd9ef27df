// Each sink has a task that sends its oldest notice that is due. A failed attempt is stored with
// the time of the next one; a delivered notice is removed. A crash between the answer of the sink
// and the commit sends the notice again, under the same id. Alertmanager has no queue: its task
// sends what fires now, every minute and at each change.
#include "monitor/notices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/secret.h"
#include "codec/json.h"
#include "monitor/delivery.h"
#include "types/timers.h"

#define ITEMS_MAX (64 * 1024) // beyond, alerts are only counted
#define BODY_MAX (256 * 1024)
#define NOTICES_MAX 1024 // that wait; the oldest is dropped
#define ID_BYTES 16

struct notice {
	struct link link;
	char id[2 * ID_BYTES + 1];
	const struct sink *sink;
	const struct rule *rule;
	enum alert_notice kind;
	struct buf items;
	int64_t created_ms, due_ms;
	uint64_t attempts;
	struct notice *joins; // of a draft: the one that it replaces
	bool sending;
	bool held; // a draft is about to replace it
};

struct notices_sink {
	struct notices *notices;
	size_t at;
	bool failing;
	struct condition wake;
};

struct notices {
	struct notices_options options;
	struct link waiting;
	size_t count;
	struct notices_sink sinks[SINKS_MAX];
	void (*write)(struct json_out *out, void *arg);
	void *write_arg;
};

struct notices *notices_new(const struct notices_options *options)
{
	struct notices *notices = mem_new_of(struct notices);

	notices->options = *options;
	link_init(&notices->waiting);
	for (size_t i = 0; i < options->sink_count; i++) {
		notices->sinks[i].notices = notices;
		notices->sinks[i].at = i;
		condition_init(&notices->sinks[i].wake);
	}
	return notices;
}

static void notice_free(struct notice *notice)
{
	buf_done(&notice->items);
	free(notice);
}

static void notices_drop(struct notices *notices, struct notice *notice)
{
	link_drop(&notice->link);
	notices->count--;
	notice_free(notice);
}

static void notices_wake(struct notices *notices, const struct sink *sink)
{
	condition_signal(&notices->sinks[sink - notices->options.sinks].wake);
}

static void notices_add(struct notices *notices, struct notice *notice)
{
	link_add(&notices->waiting, &notice->link);
	notices->count++;
	notices_wake(notices, notice->sink);
}

void notices_load(struct notices *notices, const struct store_notice *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct notice *notice = mem_new_of(struct notice);

		snprintf(notice->id, sizeof(notice->id), "%s", rows[i].id);
		for (size_t k = 0; k < notices->options.sink_count; k++)
			if (!strcmp(notices->options.sinks[k].name, rows[i].sink))
				notice->sink = &notices->options.sinks[k];
		notice->rule = rule_named(str_of(rows[i].rule));
		notice->kind = (enum alert_notice)rows[i].kind;
		notice->items = BUF_INIT(ITEMS_MAX);
		buf_text(&notice->items, rows[i].body);
		notice->created_ms = rows[i].created_ms;
		notice->due_ms = rows[i].due_ms;
		notice->attempts = (uint64_t)rows[i].attempts;
		if (notice->sink && notice->rule)
			notices_add(notices, notice);
		else // the sink is no longer configured
			notice_free(notice);
	}
}

// ------------------------------------------------------------------------------------------ drafts

static struct notice *notices_joinable(struct notices *notices, const struct sink *sink,
				       const struct rule *rule, enum alert_notice kind)
{
	list_each (at, &notices->waiting) {
		struct notice *notice = link_of(at, struct notice, link);

		if (notice->sink == sink && notice->rule == rule && notice->kind == kind &&
		    !notice->attempts && !notice->sending && !notice->held)
			return notice;
	}
	return NULL;
}

static struct store_notice notice_row(const struct notice *notice)
{
	return (struct store_notice){
		.id = notice->id,
		.sink = notice->sink->name,
		.rule = notice->rule->name,
		.kind = (int64_t)notice->kind,
		.body = notice->items.at,
		.created_ms = notice->created_ms,
		.due_ms = notice->due_ms,
		.attempts = (int64_t)notice->attempts,
	};
}

static struct notice *notice_draft(struct notices *notices, const struct sink *sink,
				   const struct rule *rule, enum alert_notice kind,
				   bool has_objects, struct str items)
{
	struct notice *notice = mem_new_of(struct notice);
	int64_t now = clock_steady_ms();

	secret_hex(notice->id, ID_BYTES);
	*notice = (struct notice){
		.sink = sink,
		.rule = rule,
		.kind = kind,
		.items = BUF_INIT(ITEMS_MAX),
		.created_ms = now,
		.due_ms = now + (has_objects ? timer_ms(TIMER_NOTICE_JOIN) : 0),
		.joins = has_objects ? notices_joinable(notices, sink, rule, kind) : NULL,
	};
	secret_hex(notice->id, ID_BYTES);
	if (notice->joins) {
		memcpy(notice->id, notice->joins->id, sizeof(notice->id));
		notice->joins->held = true;
		notice->created_ms = notice->joins->created_ms;
		notice->due_ms = notice->joins->due_ms;
		buf_str(&notice->items, buf_view(&notice->joins->items));
		buf_char(&notice->items, ',');
	}
	if (notice->items.len + items.len < ITEMS_MAX)
		buf_str(&notice->items, items);
	else if (notice->items.len) // too many: those before say enough
		notice->items.at[--notice->items.len] = '\0';
	return notice;
}

void notices_draft(struct notices *notices, const struct rule *rule, enum alert_notice kind,
		   bool has_objects, struct str items, struct notices_drafts *drafts)
{
	for (size_t i = 0; i < notices->options.sink_count; i++) {
		const struct sink *sink = &notices->options.sinks[i];
		bool wanted = rule->severity == ALERT_CRITICAL ? sink->criticals : sink->warnings;
		struct notice *notice;

		if (sink->kind == SINK_ALERTMANAGER || !wanted ||
		    drafts->count == NOTICES_DRAFTS_MAX)
			continue;
		notice = notice_draft(notices, sink, rule, kind, has_objects, items);
		drafts->rows[drafts->count] = notice_row(notice);
		drafts->at[drafts->count++] = notice;
	}
}

void notices_accept(struct notices *notices, struct notices_drafts *drafts)
{
	for (size_t i = 0; i < drafts->count; i++) {
		struct notice *notice = drafts->at[i];

		if (notice->joins)
			notices_drop(notices, notice->joins);
		notice->joins = NULL;
		notices_add(notices, notice);
	}
	drafts->count = 0;
}

void notices_discard(struct notices_drafts *drafts)
{
	for (size_t i = 0; i < drafts->count; i++) {
		if (drafts->at[i]->joins)
			drafts->at[i]->joins->held = false;
		notice_free(drafts->at[i]);
	}
	drafts->count = 0;
}

uint64_t notices_failing(const struct notices *notices)
{
	uint64_t count = 0;

	for (size_t i = 0; i < notices->options.sink_count; i++)
		count += notices->sinks[i].failing;
	return count;
}

// ---------------------------------------------------------------------------------------- contents

struct notice_text {
	const char *kind; // "firing", "resolved", "test"
	const struct rule *rule;
	const char *id, *link;
	struct str items;
	size_t count;
};

static void notice_put_title(struct buf *out, const struct notice_text *text)
{
	buf_fmt(out, "[cove] %s: %s", text->kind, text->rule->summary);
	if (text->count > 1)
		buf_fmt(out, " (%zu)", text->count);
}

static void notice_put_json(struct buf *out, const struct notice_text *text)
{
	struct json_out json = json_to(out);

	json_begin(&json, '{');
	json_put_text(&json, "id", text->id);
	json_put_text(&json, "kind", text->kind);
	json_put_text(&json, "rule", text->rule->name);
	json_put_text(&json, "severity", alert_severity_word(text->rule->severity));
	json_put_text(&json, "summary", text->rule->summary);
	json_put_text(&json, "hint", text->rule->hint);
	json_put_text(&json, "unit", text->rule->unit);
	json_put_text(&json, "link", text->link);
	json_put_time(&json, "time", clock_wall_ms());
	json_put_begin(&json, "alerts", '[');
	json_add_raw(&json, text->items);
	json_end(&json, ']');
	json_end(&json, '}');
}

// One line for each alert: the object, value and threshold, since when.
static void notice_put_lines(struct buf *out, const struct notice_text *text)
{
	auto_buf array = BUF_INIT(ITEMS_MAX + 2);
	auto_json all = NULL;
	auto_err bad = NULL;

	buf_fmt(&array, "[" STR_FMT "]", STR_ARG(text->items));
	bad = json_read_any(buf_view(&array), &all);
	for (size_t i = 0; !bad && i < json_count(all); i++) {
		const struct json *item = json_at(all, i);
		double value = 0, threshold = 0;

		err_free(json_double(json_get(item, "value"), "value", -1e300, 1e300, &value));
		err_free(json_double(json_get(item, "threshold"), "threshold", -1e300, 1e300,
				     &threshold));
		buf_fmt(out, "%.*s: %g (threshold %g %s) since %.*s\n",
			STR_ARG(json_chars(json_get(item, "id"))), value, threshold,
			text->rule->unit, STR_ARG(json_chars(json_get(item, "since"))));
	}
	buf_fmt(out, "What helps: %s\n%s\n", text->rule->hint, text->link);
}

static void notice_put_slack(struct buf *out, const struct notice_text *text)
{
	auto_buf title = BUF_INIT(1024), lines = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(out);

	notice_put_title(&title, text);
	notice_put_lines(&lines, text);
	json_begin(&json, '{');
	json_put_str(&json, "text", buf_view(&title));
	json_put_begin(&json, "attachments", '[');
	json_begin(&json, '{');
	json_put_text(&json, "color",
		      !strcmp(text->kind, "resolved")	       ? "good"
		      : text->rule->severity == ALERT_CRITICAL ? "danger"
							       : "warning");
	json_put_str(&json, "fallback", buf_view(&title));
	json_put_str(&json, "text", buf_view(&lines));
	json_end(&json, '}');
	json_end(&json, ']');
	json_end(&json, '}');
}

static fallible notices_deliver(struct notices *notices, const struct sink *sink,
				const struct notice_text *text)
{
	auto_buf body = BUF_INIT(BODY_MAX), title = BUF_INIT(1024);
	struct delivery delivery = {
		.loop = notices->options.loop,
		.trust = notices->options.trust,
		.hosts = notices->options.hosts,
		.sink = sink,
		.id = text->id,
		.secret = notices->options.secrets[sink - notices->options.sinks],
	};

	notice_put_title(&title, text);
	if (sink->kind == SINK_EMAIL) {
		buf_fmt(&body, STR_FMT "\n\n", STR_ARG(buf_view(&title)));
		notice_put_lines(&body, text);
	} else if (sink->kind == SINK_SLACK) {
		notice_put_slack(&body, text);
	} else {
		notice_put_json(&body, text);
	}
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "too_large", "the notice is too long");
	delivery.subject = title.at;
	delivery.body = buf_view(&body);
	return sink->kind == SINK_EMAIL ? delivery_mail(&delivery) : delivery_post(&delivery);
}

// ----------------------------------------------------------------------------------------- sending

static size_t notice_count_items(struct str items)
{
	auto_buf array = BUF_INIT(ITEMS_MAX + 2);
	auto_json all = NULL;
	auto_err bad = NULL;

	buf_fmt(&array, "[" STR_FMT "]", STR_ARG(items));
	bad = json_read_any(buf_view(&array), &all);
	return bad ? 1 : json_count(all);
}

static fallible notices_send(struct notices *notices, const struct notice *notice)
{
	auto_buf link = BUF_INIT(1024);
	struct notice_text text = {
		.kind = notice->kind == ALERT_SEND_RESOLVED ? "resolved" : "firing",
		.rule = notice->rule,
		.id = notice->id,
		.items = buf_view(&notice->items),
		.count = notice_count_items(buf_view(&notice->items)),
	};

	buf_fmt(&link, "%s/ui/alerts", notices->options.link);
	text.link = link.at;
	return notices_deliver(notices, notice->sink, &text);
}

static int64_t notices_pause(uint64_t attempts)
{
	static const enum timer_name steps[] = {TIMER_NOTICE_RETRY_1, TIMER_NOTICE_RETRY_2,
						TIMER_NOTICE_RETRY_3};

	return timer_ms(attempts <= 3 ? steps[attempts - 1] : TIMER_NOTICE_RETRY);
}

static void notices_report(struct notices_sink *task, const char *outcome, struct str items,
			   const struct err *err)
{
	struct notices *notices = task->notices;
	const struct sink *sink = &notices->options.sinks[task->at];
	auto_buf array = BUF_INIT(ITEMS_MAX + 2);

	task->failing = err != NULL;
	metric_add(METRIC_NOTIFICATIONS, sink_kind_word(sink->kind), outcome, 1);
	log_event(err ? LOG_WARN : LOG_INFO, "alert.notice", "sink", sink->name, "outcome", outcome,
		  "reason", err ? err_reason(err) : NULL, "trail", err ? err_trail(err) : NULL,
		  NULL);
	buf_fmt(&array, "[" STR_FMT "]", STR_ARG(items));
	if (notices->options.delivered)
		notices->options.delivered(notices->options.arg, sink->name, outcome,
					   buf_view(&array));
}

static void notices_attempt(struct notices_sink *task, struct notice *notice)
{
	struct notices *notices = task->notices;
	struct store_alerts_change change = {0};
	struct store_notice row;
	auto_err err = NULL;
	bool late;

	notice->sending = true;
	err = notices_send(notices, notice);
	notice->sending = false;
	notice->attempts++;
	late = err && clock_steady_ms() - notice->created_ms >= timer_ms(TIMER_NOTICE_END);
	notices_report(task,
		       !err   ? "sent"
		       : late ? "dropped"
			      : "failed",
		       buf_view(&notice->items), err);
	notice->due_ms = clock_steady_ms() + notices_pause(notice->attempts);
	row = notice_row(notice);
	if (!err || late) {
		change.dropped = notice->id;
	} else {
		change.notices = &row;
		change.notice_count = 1;
	}
	// What could not be stored is sent again after a restart.
	err_free(store_alerts_apply(notices->options.store, &change));
	if (!err || late)
		notices_drop(notices, notice);
}

static struct notice *notices_next(struct notices *notices, const struct sink *sink)
{
	struct notice *first = NULL;

	list_each (at, &notices->waiting) {
		struct notice *notice = link_of(at, struct notice, link);

		if (notice->sink == sink && !notice->held &&
		    (!first || notice->due_ms < first->due_ms))
			first = notice;
	}
	return first;
}

static void notices_task(void *arg)
{
	struct notices_sink *task = arg;
	struct notices *notices = task->notices;
	const struct sink *sink = &notices->options.sinks[task->at];

	for (;;) {
		struct notice *notice = notices_next(notices, sink);
		int64_t left = notice ? notice->due_ms - clock_steady_ms() : CLOCK_NEVER;
		auto_err woken = NULL;

		if (notice && left <= 0) {
			notices_attempt(task, notice);
			continue;
		}
		woken = condition_wait(&task->wake, notice ? loop_now(notices->options.loop) + left
							   : CLOCK_NEVER);
		if (woken && err_kind(woken) == ERR_CANCELLED)
			return;
	}
}

// ------------------------------------------------------------------------------------ Alertmanager

static fallible notices_push_now(struct notices_sink *task)
{
	struct notices *notices = task->notices;
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	char id[2 * ID_BYTES + 1];
	struct delivery delivery = {
		.loop = notices->options.loop,
		.trust = notices->options.trust,
		.hosts = notices->options.hosts,
		.sink = &notices->options.sinks[task->at],
		.id = id,
		.subject = "",
	};

	secret_hex(id, ID_BYTES);
	json_begin(&out, '[');
	notices->write(&out, notices->write_arg);
	json_end(&out, ']');
	if (body.len <= 2)
		return OK;
	delivery.body = buf_view(&body);
	return delivery_post(&delivery);
}

static void notices_push_task(void *arg)
{
	struct notices_sink *task = arg;
	uint64_t attempts = 0;

	for (;;) {
		auto_err err = notices_push_now(task);
		auto_err woken = NULL;
		int64_t pause = timer_ms(TIMER_ALERTMANAGER);

		if (err || task->failing)
			notices_report(task, err ? "failed" : "sent", (struct str){0}, err);
		attempts = err ? attempts + 1 : 0;
		if (attempts && notices_pause(attempts) < pause)
			pause = notices_pause(attempts);
		woken = condition_wait(&task->wake, loop_now(task->notices->options.loop) + pause);
		if (woken && err_kind(woken) == ERR_CANCELLED)
			return;
	}
}

void notices_push(struct notices *notices, void (*write)(struct json_out *out, void *arg),
		  void *arg)
{
	notices->write = write;
	notices->write_arg = arg;
}

void notices_poke(struct notices *notices)
{
	for (size_t i = 0; i < notices->options.sink_count; i++)
		if (notices->options.sinks[i].kind == SINK_ALERTMANAGER)
			condition_signal(&notices->sinks[i].wake);
}

void notices_start(struct notices *notices)
{
	for (size_t i = 0; i < notices->options.sink_count; i++)
		task_start(notices->options.loop, "alert.sink",
			   notices->options.sinks[i].kind == SINK_ALERTMANAGER ? notices_push_task
									       : notices_task,
			   &notices->sinks[i]);
}

fallible notices_test(struct notices *notices, const struct sink *sink)
{
	static const struct rule rule = {
		.name = "test",
		.severity = ALERT_WARNING,
		.unit = "",
		.summary = "this is a test",
		.hint = "nothing has to be done",
	};
	char id[2 * ID_BYTES + 1];
	struct notice_text text = {.kind = "test",
				   .rule = &rule,
				   .id = id,
				   .link = notices->options.link,
				   .items = STR("")};

	secret_hex(id, ID_BYTES);
	if (sink->kind == SINK_ALERTMANAGER)
		return notices_push_now(&notices->sinks[sink - notices->options.sinks]);
	return notices_deliver(notices, sink, &text);
}
