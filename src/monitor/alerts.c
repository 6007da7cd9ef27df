// The evaluation takes a copy of each alert, applies the rule to it, stores the copies that changed
// together with their notices, and only then replaces the alerts. If the state cannot be written
// nothing changes, and the next evaluation tries again; the alert that says so is the exception: it
// is shown at once.
#include "monitor/alerts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "monitor/notices.h"
#include "monitor/rules.h"
#include "types/event.h"
#include "types/timers.h"

#define ALERTS_MAX 512 // about objects; further ones are not kept apart
#define OUTCOME_MAX 15
#define ROW_MAX 4096
#define UNWRITABLE "state_unwritable"
#define MILLI 1000.0

struct alert_entry {
	struct alert alert;
	const struct rule *rule;
	struct {
		char sink[ID_NAME_MAX + 1], outcome[OUTCOME_MAX + 1];
		int64_t time_ms; // wall clock
	} deliveries[SINKS_MAX];
	// Raised by another part: holds until then, in loop time; 0: it does not hold.
	int64_t raised_until;
	double raised_value;
};

struct alerts {
	struct alerts_options options;
	struct notices *notices;
	struct alert_entry **all;
	size_t count;
	struct {
		double threshold;
		int64_t for_ms;
		bool enabled;
	} settings[RULES_MAX];
};

// -------------------------------------------------------------------------------------------- rows

static void alert_put_deliveries(struct json_out *out, const struct alert_entry *entry)
{
	json_begin(out, '[');
	for (int i = 0; i < SINKS_MAX && entry->deliveries[i].sink[0]; i++) {
		json_begin(out, '{');
		json_put_text(out, "sink", entry->deliveries[i].sink);
		json_put_time(out, "time", entry->deliveries[i].time_ms);
		json_put_text(out, "outcome", entry->deliveries[i].outcome);
		json_end(out, '}');
	}
	json_end(out, ']');
}

static const char *alerts_deliveries_text(struct arena *arena, const struct alert_entry *entry)
{
	auto_buf text = BUF_INIT(ROW_MAX);

	for (int i = 0; i < SINKS_MAX && entry->deliveries[i].sink[0]; i++)
		buf_fmt(&text, "%s %s %lld\n", entry->deliveries[i].sink,
			entry->deliveries[i].outcome, (long long)entry->deliveries[i].time_ms);
	return arena_dup(arena, text.at ? text.at : "", text.len);
}

static void alerts_read_deliveries(struct alert_entry *entry, struct str text)
{
	struct str line, sink, outcome;

	for (int i = 0; i < SINKS_MAX && text.len && str_cut(&text, '\n', &line); i++) {
		uint64_t time = 0;

		if (!str_cut(&line, ' ', &sink) || !str_cut(&line, ' ', &outcome) ||
		    !str_to_u64(line, 0, INT64_MAX, &time))
			return;
		snprintf(entry->deliveries[i].sink, sizeof(entry->deliveries[i].sink), STR_FMT,
			 STR_ARG(sink));
		snprintf(entry->deliveries[i].outcome, sizeof(entry->deliveries[i].outcome),
			 STR_FMT, STR_ARG(outcome));
		entry->deliveries[i].time_ms = (int64_t)time;
	}
}

static struct store_alert alerts_row(struct arena *arena, const struct alert_entry *entry,
				     const struct alert *alert)
{
	return (struct store_alert){
		.id = alert->id,
		.rule = alert->rule,
		.object = alert->object,
		.state = alert->state,
		.severity = alert->severity,
		.value_milli = (int64_t)(alert->value * MILLI),
		.since_ms = alert->since_ms,
		.fired_ms = alert->fired_ms,
		.resolved_ms = alert->resolved_ms,
		.last_ms = alert->last_ms,
		.acknowledged_ms = alert->acknowledged_ms,
		.acknowledged_by = alert->acknowledged_by,
		.silenced_ms = alert->silenced_ms,
		.comment = alert->comment,
		.quiet_ms = alert->quiet_ms,
		.owes = alert->owes,
		.held = alert->held,
		.deliveries = alerts_deliveries_text(arena, entry),
	};
}

static struct alert_entry *alerts_add(struct alerts *alerts, const struct rule *rule,
				      const char *object)
{
	struct alert_entry *entry = mem_new_of(struct alert_entry);

	entry->rule = rule;
	entry->alert.severity = rule->severity;
	snprintf(entry->alert.rule, sizeof(entry->alert.rule), "%s", rule->name);
	snprintf(entry->alert.object, sizeof(entry->alert.object), "%s", object);
	snprintf(entry->alert.id, sizeof(entry->alert.id), "%s%s%s", rule->name, *object ? "-" : "",
		 object);
	alerts->all = mem_grow(alerts->all, alerts->count + 1, sizeof(struct alert_entry *));
	alerts->all[alerts->count++] = entry;
	return entry;
}

static struct alert_entry *alerts_find(const struct alerts *alerts, const char *rule,
				       const char *object)
{
	for (size_t i = 0; i < alerts->count; i++)
		if (!strcmp(alerts->all[i]->alert.rule, rule) &&
		    !strcmp(alerts->all[i]->alert.object, object))
			return alerts->all[i];
	return NULL;
}

static void alerts_restore(struct alerts *alerts, const struct store_alert *row)
{
	const struct rule *rule = rule_named(str_of(row->rule));
	struct alert_entry *entry;
	struct alert *alert;

	if (!rule || row->state < 0 || row->state >= ALERT_STATE_COUNT)
		return; // of a version that had the rule
	entry = alerts_add(alerts, rule, row->object);
	alert = &entry->alert;
	alert->state = (enum alert_state)row->state;
	alert->value = (double)row->value_milli / MILLI;
	alert->since_ms = row->since_ms;
	alert->fired_ms = row->fired_ms;
	alert->resolved_ms = row->resolved_ms;
	alert->last_ms = row->last_ms;
	alert->acknowledged_ms = row->acknowledged_ms;
	snprintf(alert->acknowledged_by, sizeof(alert->acknowledged_by), "%s",
		 row->acknowledged_by);
	alert->silenced_ms = row->silenced_ms;
	snprintf(alert->comment, sizeof(alert->comment), "%s", row->comment);
	alert->quiet_ms = row->quiet_ms;
	alert->owes = row->owes;
	alert->held = row->held;
	alerts_read_deliveries(entry, str_of(row->deliveries));
}

// ---------------------------------------------------------------------------------------- delivery

static void alerts_note_delivery(struct alert_entry *entry, const char *sink, const char *outcome)
{
	int at = 0;

	while (at < SINKS_MAX - 1 && entry->deliveries[at].sink[0] &&
	       strcmp(entry->deliveries[at].sink, sink) != 0)
		at++;
	snprintf(entry->deliveries[at].sink, sizeof(entry->deliveries[at].sink), "%s", sink);
	snprintf(entry->deliveries[at].outcome, sizeof(entry->deliveries[at].outcome), "%s",
		 outcome);
	entry->deliveries[at].time_ms = clock_wall_ms();
}

static struct alert_entry *alerts_named(const struct alerts *alerts, struct str id)
{
	for (size_t i = 0; i < alerts->count; i++)
		if (str_is(id, alerts->all[i]->alert.id) &&
		    alerts->all[i]->alert.state != ALERT_INACTIVE)
			return alerts->all[i];
	return NULL;
}

// A sink was tried. Its failure is an alert.
static void alerts_on_delivery(void *arg, const char *sink, const char *outcome, struct str items)
{
	struct alerts *alerts = arg;
	auto_json all = NULL;
	auto_err bad = json_read_any(items, &all);

	if (!strcmp(outcome, "sent"))
		alerts_clear(alerts, "sink_failing", sink);
	else
		alerts_raise(alerts, "sink_failing", sink, 1, 0);
	for (size_t i = 0; !bad && i < json_count(all); i++) {
		struct str id = json_chars(json_get(json_at(all, i), "id"));
		struct alert_entry *entry = alerts_named(alerts, id);

		if (entry)
			alerts_note_delivery(entry, sink, outcome);
	}
}

static void alerts_put_time(struct json_out *out, const char *key, int64_t steady_ms)
{
	json_key(out, key);
	if (!steady_ms) {
		json_add_null(out);
	} else {
		auto_buf text = BUF_INIT(64);

		clock_iso(clock_bound(steady_ms), &text);
		json_add_str(out, buf_view(&text));
	}
}

// What Alertmanager gets: all that fires and is not silenced, and for a while what has ended.
static void alerts_push_one(struct json_out *out, const struct alerts *alerts,
			    const struct alert_entry *entry)
{
	const struct alert *alert = &entry->alert;
	int64_t ends = alert->state == ALERT_FIRING ? clock_steady_ms() + 4 * TIMER_MINUTE
						    : alert->resolved_ms;
	auto_buf link = BUF_INIT(1024);

	json_begin(out, '{');
	json_put_begin(out, "labels", '{');
	json_put_text(out, "alertname", alert->rule);
	json_put_text(out, "severity", alert_severity_word(alert->severity));
	if (alert->object[0])
		json_put_text(out, "object", alert->object);
	json_end(out, '}');
	json_put_begin(out, "annotations", '{');
	json_put_text(out, "summary", entry->rule->summary);
	json_put_text(out, "description", entry->rule->hint);
	json_end(out, '}');
	alerts_put_time(out, "startsAt", alert->fired_ms);
	alerts_put_time(out, "endsAt", ends);
	buf_fmt(&link, "%s/ui/alerts/%s", alerts->options.link, alert->id);
	json_put_str(out, "generatorURL", buf_view(&link));
	json_end(out, '}');
}

static void alerts_push(struct json_out *out, void *arg)
{
	const struct alerts *alerts = arg;
	int64_t now = clock_steady_ms();

	for (size_t i = 0; i < alerts->count; i++) {
		const struct alert *alert = &alerts->all[i]->alert;
		bool ended = alert->state == ALERT_RESOLVED && alert->fired_ms &&
			     now - alert->resolved_ms < 5 * TIMER_MINUTE;

		if ((alert->state == ALERT_FIRING || ended) && now >= alert->silenced_ms)
			alerts_push_one(out, alerts, alerts->all[i]);
	}
}

struct alerts *alerts_new(const struct alerts_options *options)
{
	struct alerts *alerts = mem_new_of(struct alerts);
	auto_arena arena = arena_new();
	struct store_alerts stored = {0};
	auto_err err = OK;

	alerts->options = *options;
	alerts->notices = notices_new(&(struct notices_options){
		.loop = options->loop,
		.store = options->store,
		.sinks = options->sinks,
		.secrets = options->secrets,
		.sink_count = options->sink_count,
		.trust = options->trust,
		.hosts = options->hosts,
		.link = options->link,
		.delivered = alerts_on_delivery,
		.arg = alerts,
	});
	notices_push(alerts->notices, alerts_push, alerts);
	for (size_t i = 0; i < rules_count(); i++) {
		alerts->settings[i].threshold = rules[i].threshold;
		alerts->settings[i].for_ms = rules[i].for_s * 1000;
		alerts->settings[i].enabled = true;
	}
	err = store_alerts_load(options->store, arena, &stored);
	if (err)
		log_event(LOG_ERROR, "monitor.unread", "what", "alerts", "trail", err_trail(err),
			  NULL);
	for (size_t i = 0; i < stored.alert_count; i++)
		alerts_restore(alerts, &stored.alerts[i]);
	for (size_t i = 0; i < stored.rule_count; i++) {
		const struct rule *rule = rule_named(str_of(stored.rules[i].name));

		if (!rule)
			continue;
		alerts->settings[rule - rules].threshold = (double)stored.rules[i].threshold_milli /
							   MILLI;
		alerts->settings[rule - rules].for_ms = stored.rules[i].wait_ms;
		alerts->settings[rule - rules].enabled = stored.rules[i].enabled;
	}
	notices_load(alerts->notices, stored.notices, stored.notice_count);
	return alerts;
}

void alerts_start(struct alerts *alerts)
{
	notices_start(alerts->notices);
}

// -------------------------------------------------------------------------------------- evaluation

struct alerts_pass {
	struct alerts *alerts;
	struct arena *arena;
	struct alert_entry **entries; // those that change
	struct alert *copies;	      // what they become
	enum alert_notice *notices;
	struct store_alert *rows;
	size_t count;
	struct notices_drafts drafts;
};

static struct alert_seen alerts_look(const struct alerts *alerts, const struct alert_entry *entry,
				     const struct view *view)
{
	size_t at = (size_t)(entry->rule - rules);
	double threshold = alerts->settings[at].threshold;
	bool holds;

	if (!alerts->settings[at].enabled)
		return (struct alert_seen){.known = true};
	if (entry->rule->at != RULE_RAISED)
		return rule_look(entry->rule, view, threshold);
	holds = entry->raised_until > loop_now(alerts->options.loop) &&
		entry->raised_value > threshold;
	return (struct alert_seen){.known = true, .holds = holds, .value = entry->raised_value};
}

static void alerts_step(struct alerts_pass *pass, struct alert_entry *entry,
			const struct view *view)
{
	struct alert copy = entry->alert;
	struct alert_seen seen = alerts_look(pass->alerts, entry, view);
	enum alert_notice notice;
	size_t at = (size_t)(entry->rule - rules);

	if (!alert_step(&copy, &seen, pass->alerts->settings[at].for_ms,
			timer_ms(TIMER_ALERT_QUIET), clock_steady_ms(), &notice)) {
		entry->alert = copy; // the value, and how often the condition did not hold
		return;
	}
	pass->entries[pass->count] = entry;
	pass->copies[pass->count] = copy;
	pass->notices[pass->count++] = notice;
}

static void alerts_put_item(struct buf *out, const struct alerts *alerts,
			    const struct alert_entry *entry, const struct alert *alert)
{
	struct json_out json = json_to(out);

	json_begin(&json, '{');
	json_put_text(&json, "id", alert->id);
	json_put_text(&json, "sandbox", alert->object[0] ? alert->object : NULL);
	json_key(&json, "value");
	json_add_double(&json, alert->value);
	json_key(&json, "threshold");
	json_add_double(&json, alerts->settings[entry->rule - rules].threshold);
	alerts_put_time(&json, "since", alert->since_ms);
	alerts_put_time(&json, "firedAt", alert->fired_ms);
	alerts_put_time(&json, "resolvedAt", alert->resolved_ms);
	json_end(&json, '}');
}

// One notice for all alerts of a rule that have the same to say.
static void alerts_draft(struct alerts_pass *pass, const struct rule *rule, enum alert_notice kind)
{
	auto_buf items = BUF_INIT(60 * 1024);
	bool has_objects = rule->at == RULE_RAISED;

	for (size_t i = 0; i < pass->count; i++) {
		size_t len = items.len;

		if (pass->entries[i]->rule != rule || pass->notices[i] != kind)
			continue;
		if (items.len)
			buf_char(&items, ',');
		alerts_put_item(&items, pass->alerts, pass->entries[i], &pass->copies[i]);
		if (!buf_ok(&items)) { // those before say enough
			items.failed = false;
			items.len = len;
			items.at[len] = '\0';
			break;
		}
	}
	if (items.len)
		notices_draft(pass->alerts->notices, rule, kind, has_objects, buf_view(&items),
			      &pass->drafts);
}

static void alerts_publish(const struct alert *alert, enum alert_state before)
{
	char value[32];

	if (alert->state == before)
		return;
	snprintf(value, sizeof(value), "%g", alert->value);
	if (alert->state == ALERT_FIRING)
		event_publish(EVENT_ALERT_FIRING, "alert", alert->id, "rule", alert->rule,
			      "severity", alert_severity_word(alert->severity), "value", value,
			      "object", alert->object[0] ? alert->object : NULL, NULL);
	else if (alert->state == ALERT_RESOLVED && before == ALERT_FIRING)
		event_publish(EVENT_ALERT_ENDED, "alert", alert->id, "rule", alert->rule,
			      "severity", alert_severity_word(alert->severity), "object",
			      alert->object[0] ? alert->object : NULL, NULL);
}

static void alerts_take_over(struct alerts_pass *pass)
{
	for (size_t i = 0; i < pass->count; i++) {
		enum alert_state before = pass->entries[i]->alert.state;
		const struct alert *alert = &pass->copies[i];

		pass->entries[i]->alert = *alert;
		if (alert->state != before && alert->state != ALERT_PENDING)
			log_event(alert->state == ALERT_FIRING ? LOG_WARN : LOG_INFO,
				  "alert.changed", "alert", alert->id, "state",
				  alert_state_word(alert->state), "severity",
				  alert_severity_word(alert->severity), NULL);
	}
}

// Without a state that can be written only the alert about that is shown.
static void alerts_keep_unwritable(struct alerts_pass *pass)
{
	for (size_t i = 0; i < pass->count; i++)
		if (!strcmp(pass->copies[i].rule, UNWRITABLE))
			pass->entries[i]->alert = pass->copies[i];
}

static void alerts_commit(struct alerts_pass *pass)
{
	struct alerts *alerts = pass->alerts;
	struct store_alerts_change change = {.alerts = pass->rows};
	struct err *err;

	for (const struct rule *rule = rules; rule->name; rule++) {
		alerts_draft(pass, rule, ALERT_SEND_FIRING);
		alerts_draft(pass, rule, ALERT_SEND_RESOLVED);
	}
	for (size_t i = 0; i < pass->count; i++) {
		pass->rows[i] = alerts_row(pass->arena, pass->entries[i], &pass->copies[i]);
		alerts_publish(&pass->copies[i], pass->entries[i]->alert.state);
	}
	change.alert_count = pass->count;
	change.notices = pass->drafts.rows;
	change.notice_count = pass->drafts.count;
	err = store_alerts_apply(alerts->options.store, &change);
	if (err) {
		notices_discard(&pass->drafts);
		alerts_keep_unwritable(pass);
		err_free(err);
		return;
	}
	alerts_take_over(pass);
	notices_accept(alerts->notices, &pass->drafts);
	notices_poke(alerts->notices);
}

void alerts_evaluate(struct alerts *alerts, const struct view *view)
{
	auto_arena arena = arena_new();
	struct alerts_pass *pass = arena_take(arena, sizeof(*pass));
	size_t room;

	for (const struct rule *rule = rules; rule->name; rule++)
		if (rule->at != RULE_RAISED && !alerts_find(alerts, rule->name, ""))
			alerts_add(alerts, rule, "");
	room = alerts->count;
	*pass = (struct alerts_pass){
		.alerts = alerts,
		.arena = arena,
		.entries = arena_take(arena, room * sizeof(struct alert_entry *)),
		.copies = arena_take(arena, room * sizeof(struct alert)),
		.notices = arena_take(arena, room * sizeof(enum alert_notice)),
		.rows = arena_take(arena, room * sizeof(struct store_alert)),
	};
	for (size_t i = 0; i < room; i++)
		alerts_step(pass, alerts->all[i], view);
	if (pass->count)
		alerts_commit(pass);
}

// The entry of an alert that is over, for another object; NULL: there is none.
static struct alert_entry *alerts_room(struct alerts *alerts, const struct rule *rule,
				       const char *object)
{
	struct alert_entry *oldest = NULL;

	if (alerts->count < ALERTS_MAX)
		return alerts_add(alerts, rule, object);
	for (size_t i = 0; i < alerts->count; i++) {
		struct alert_entry *entry = alerts->all[i];

		if (entry->rule->at == RULE_RAISED && !entry->raised_until &&
		    (entry->alert.state == ALERT_RESOLVED ||
		     entry->alert.state == ALERT_INACTIVE) &&
		    (!oldest || entry->alert.last_ms < oldest->alert.last_ms))
			oldest = entry;
	}
	if (!oldest)
		return NULL;
	*oldest = (struct alert_entry){.rule = rule, .alert.severity = rule->severity};
	snprintf(oldest->alert.rule, sizeof(oldest->alert.rule), "%s", rule->name);
	snprintf(oldest->alert.object, sizeof(oldest->alert.object), "%s", object);
	snprintf(oldest->alert.id, sizeof(oldest->alert.id), "%s-%s", rule->name, object);
	return oldest;
}

void alerts_raise(struct alerts *alerts, const char *rule_name, const char *object, double value,
		  int64_t hold_ms)
{
	const struct rule *rule = rule_named(str_of(rule_name));
	struct alert_entry *entry;

	if (!rule || rule->at != RULE_RAISED)
		return;
	entry = alerts_find(alerts, rule_name, object);
	if (!entry)
		entry = alerts_room(alerts, rule, object);
	if (!entry)
		return;
	entry->raised_value = value;
	entry->raised_until = hold_ms ? loop_now(alerts->options.loop) + hold_ms : CLOCK_NEVER;
}

void alerts_clear(struct alerts *alerts, const char *rule_name, const char *object)
{
	struct alert_entry *entry = alerts_find(alerts, rule_name, object);

	if (entry)
		entry->raised_until = 0;
}

// ------------------------------------------------------------------------------------------- views

struct alerts_counts alerts_count(const struct alerts *alerts)
{
	struct alerts_counts counts = {.sinks_failing = notices_failing(alerts->notices)};

	for (size_t i = 0; i < alerts->count; i++) {
		const struct alert *alert = &alerts->all[i]->alert;

		if (alert->state != ALERT_FIRING)
			continue;
		counts.criticals += alert->severity == ALERT_CRITICAL;
		counts.warnings += alert->severity == ALERT_WARNING;
	}
	return counts;
}

void alerts_each_firing(const struct alerts *alerts,
			void (*each)(void *arg, const struct alert *alert, const char *hint),
			void *arg)
{
	for (size_t i = 0; i < alerts->count; i++)
		if (alerts->all[i]->alert.state == ALERT_FIRING)
			each(arg, &alerts->all[i]->alert, alerts->all[i]->rule->hint);
}

void alerts_set_metrics(const struct alerts *alerts)
{
	static const enum alert_severity severities[] = {ALERT_WARNING, ALERT_CRITICAL};

	for (int at = 0; at < 2; at++)
		for (int state = ALERT_PENDING; state <= ALERT_FIRING; state++) {
			double count = 0;

			for (size_t i = 0; i < alerts->count; i++)
				count += alerts->all[i]->alert.severity == severities[at] &&
					 alerts->all[i]->alert.state == (enum alert_state)state;
			metric_set(METRIC_ALERTS, alert_severity_word(severities[at]),
				   alert_state_word((enum alert_state)state), count);
		}
}

static void alerts_put_one(struct json_out *out, const struct alerts *alerts,
			   const struct alert_entry *entry)
{
	const struct alert *alert = &entry->alert;
	int64_t now = clock_steady_ms();

	json_begin(out, '{');
	json_put_text(out, "id", alert->id);
	json_put_text(out, "rule", alert->rule);
	json_put_text(out, "severity", alert_severity_word(alert->severity));
	json_put_text(out, "state", alert_state_word(alert->state));
	json_key(out, "value");
	json_add_double(out, alert->value);
	json_key(out, "threshold");
	json_add_double(out, alerts->settings[entry->rule - rules].threshold);
	json_put_text(out, "unit", entry->rule->unit);
	json_put_text(out, "summary", entry->rule->summary);
	json_put_text(out, "hint", entry->rule->hint);
	json_put_text(out, "object", alert->object[0] ? alert->object : NULL);
	json_put_text(out, "sandbox", id_is_box(str_of(alert->object)) ? alert->object : NULL);
	alerts_put_time(out, "since", alert->since_ms);
	alerts_put_time(out, "firedAt", alert->fired_ms);
	alerts_put_time(out, "resolvedAt", alert->resolved_ms);
	alerts_put_time(out, "lastAt", alert->last_ms);
	alerts_put_time(out, "acknowledgedAt", alert->acknowledged_ms);
	json_put_text(out, "acknowledgedBy",
		      alert->acknowledged_ms ? alert->acknowledged_by : NULL);
	alerts_put_time(out, "silencedUntil", alert->silenced_ms > now ? alert->silenced_ms : 0);
	json_put_text(out, "comment", alert->silenced_ms > now ? alert->comment : NULL);
	alerts_put_time(out, "quietUntil", alert->quiet_ms > now ? alert->quiet_ms : 0);
	json_key(out, "deliveries");
	alert_put_deliveries(out, entry);
	json_end(out, '}');
}

static void alerts_put_rule(struct json_out *out, const struct alerts *alerts, size_t at)
{
	json_begin(out, '{');
	json_put_text(out, "name", rules[at].name);
	json_put_text(out, "severity", alert_severity_word(rules[at].severity));
	json_key(out, "threshold");
	json_add_double(out, alerts->settings[at].threshold);
	json_put_bool(out, "below", rules[at].below);
	json_put_text(out, "unit", rules[at].unit);
	json_put_int(out, "forSeconds", alerts->settings[at].for_ms / 1000);
	json_put_bool(out, "enabled", alerts->settings[at].enabled);
	json_put_text(out, "summary", rules[at].summary);
	json_put_text(out, "hint", rules[at].hint);
	json_end(out, '}');
}

void alerts_put_rules(struct json_out *out, const struct alerts *alerts)
{
	json_begin(out, '[');
	for (size_t i = 0; i < rules_count(); i++)
		alerts_put_rule(out, alerts, i);
	json_end(out, ']');
}

fallible alerts_put(struct json_out *out, const struct alerts *alerts, struct str state)
{
	bool known = !state.len;

	for (int i = ALERT_PENDING; i < ALERT_STATE_COUNT; i++)
		known |= str_is(state, alert_state_word((enum alert_state)i));
	if (!known)
		return err_hint(err_new(INVALID, "bad_field", "'state' is no state of an alert"),
				"pending, firing or resolved");
	json_put_begin(out, "items", '[');
	for (size_t i = 0; i < alerts->count; i++) {
		enum alert_state now = alerts->all[i]->alert.state;

		if (now != ALERT_INACTIVE && (!state.len || str_is(state, alert_state_word(now))))
			alerts_put_one(out, alerts, alerts->all[i]);
	}
	json_end(out, ']');
	json_key(out, "rules");
	alerts_put_rules(out, alerts);
	return OK;
}

// ----------------------------------------------------------------------------------------- changes

static fallible alerts_get(const struct alerts *alerts, struct str id, struct alert_entry **out)
{
	*out = alerts_named(alerts, id);
	if (*out)
		return OK;
	return err_hint(err_absent("no_alert", "alert", id),
			"GET /v1/alerts lists those there are");
}

// Stores the changed alert, then shows it. An evaluation in between keeps its own changes.
static fallible alerts_store_one(struct alerts *alerts, struct alert_entry *entry,
				 const struct alert *changed)
{
	auto_arena arena = arena_new();
	struct store_alert row = alerts_row(arena, entry, changed);

	return store_alerts_apply(alerts->options.store,
				  &(struct store_alerts_change){.alerts = &row, .alert_count = 1});
}

fallible alerts_acknowledge(struct alerts *alerts, struct str id, const struct who *who,
			    struct json_out *out)
{
	struct alert_entry *entry;
	struct alert changed;

	TRY(alerts_get(alerts, id, &entry));
	changed = entry->alert;
	if (!changed.acknowledged_ms) {
		changed.acknowledged_ms = clock_steady_ms();
		snprintf(changed.acknowledged_by, sizeof(changed.acknowledged_by), "%s", who->name);
		TRY(alerts_store_one(alerts, entry, &changed));
		entry->alert.acknowledged_ms = changed.acknowledged_ms;
		memcpy(entry->alert.acknowledged_by, changed.acknowledged_by,
		       sizeof(changed.acknowledged_by));
	}
	alerts_put_one(out, alerts, entry);
	return OK;
}

fallible alerts_silence(struct alerts *alerts, struct str id, int64_t for_ms, struct str comment,
			struct json_out *out)
{
	struct alert_entry *entry;
	struct alert changed;

	TRY(alerts_get(alerts, id, &entry));
	changed = entry->alert;
	changed.silenced_ms = for_ms ? clock_steady_ms() + for_ms : 0;
	snprintf(changed.comment, sizeof(changed.comment), STR_FMT, STR_ARG(comment));
	TRY(alerts_store_one(alerts, entry, &changed));
	entry->alert.silenced_ms = changed.silenced_ms;
	memcpy(entry->alert.comment, changed.comment, sizeof(changed.comment));
	alerts_put_one(out, alerts, entry);
	return OK;
}

#define THRESHOLD_MAX 1e12
#define FOR_MAX_S (30 * 86400)

fallible alerts_set_rule(struct alerts *alerts, struct str name, const struct json *body,
			 struct json_out *out)
{
	static const char *const known[] = {"threshold", "forSeconds", "enabled", NULL};
	const struct rule *rule = rule_named(name);
	struct store_alert_rule row;
	uint64_t seconds;
	double threshold;
	bool enabled;
	size_t at;

	if (!rule)
		return err_hint(err_absent("no_rule", "rule", name),
				"GET /v1/alerts lists the rules");
	at = (size_t)(rule - rules);
	threshold = alerts->settings[at].threshold;
	seconds = (uint64_t)alerts->settings[at].for_ms / 1000;
	enabled = alerts->settings[at].enabled;
	TRY(json_only(body, known));
	TRY(json_double(json_get(body, "threshold"), "threshold", 0, THRESHOLD_MAX, &threshold));
	TRY(json_u64(json_get(body, "forSeconds"), "forSeconds", 0, FOR_MAX_S, &seconds));
	TRY(json_bool(json_get(body, "enabled"), "enabled", &enabled));
	row = (struct store_alert_rule){
		.name = rule->name,
		.threshold_milli = (int64_t)(threshold * MILLI + 0.5),
		.wait_ms = (int64_t)seconds * 1000,
		.enabled = enabled,
	};
	TRY(store_alert_rule_put(alerts->options.store, &row));
	alerts->settings[at].threshold = (double)row.threshold_milli / MILLI;
	alerts->settings[at].for_ms = row.wait_ms;
	alerts->settings[at].enabled = enabled;
	alerts_put_rule(out, alerts, at);
	return OK;
}

fallible alerts_test(struct alerts *alerts, struct str sink)
{
	for (size_t i = 0; i < alerts->options.sink_count; i++)
		if (str_is(sink, alerts->options.sinks[i].name))
			return notices_test(alerts->notices, &alerts->options.sinks[i]);
	return err_hint(err_absent("no_sink", "sink", sink),
			"sinks are sections [alert.KIND NAME] of the configuration");
}
