// Health, from the view and the alerts that fire. Unhealthy is what keeps sandboxes from being made
// or kept: a state that cannot be written, no warden for half a minute, a full disk. All else
// degrades.
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "monitor/private.h"

#define WARDEN_GONE_S 30

static void health_add(struct monitor_health *health, const char *code, const char *hint,
		       enum alert_severity severity, int64_t since_ms)
{
	if (health->count == MONITOR_REASONS_MAX)
		return;
	snprintf(health->reasons[health->count].code, sizeof(health->reasons[0].code), "%s", code);
	health->reasons[health->count].hint = hint;
	health->reasons[health->count].severity = severity;
	health->reasons[health->count++].since_ms = since_ms;
}

static void health_add_alert(void *arg, const struct alert *alert, const char *hint)
{
	health_add(arg, alert->id, hint, alert->severity, alert->since_ms);
}

void monitor_health(struct monitor *monitor, struct monitor_health *out)
{
	auto_free struct view *view = mem_new_of(struct view);
	struct alerts_counts counts = alerts_count(monitor->alerts);

	monitor_look(monitor, view);

	const struct {
		bool holds;
		const char *code, *hint;
	} ends[] = {
		{view->store == STORE_UNWRITABLE, "state_unwritable",
		 "make room on the disk of the data directory; service resumes by itself"},
		{view->store == STORE_CORRUPT, "state_corrupt", "restore the database"},
		{view->warden_gone >= WARDEN_GONE_S, "no_warden",
		 "see the last lines of the warden in the log"},
		{!view->room.disk_unknown && view->room.disk_mark &&
			 view->room.disk_free < view->room.disk_mark,
		 "host_disk", "make room on the disk of the data directory"},
	};

	*out = (struct monitor_health){
		.is_ready = view->is_ready,
		.active = (uint64_t)view->active,
		.stuck = (uint64_t)view->stuck,
		.orphaned = (uint64_t)view->orphaned,
		.criticals = counts.criticals,
		.warnings = counts.warnings,
		.failure_rate = view->failure_total,
	};
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (ends[i].holds) {
			health_add(out, ends[i].code, ends[i].hint, ALERT_CRITICAL, 0);
			out->is_unhealthy = true;
		}
	alerts_each_firing(monitor->alerts, health_add_alert, out);
}

const char *monitor_health_word(const struct monitor_health *health)
{
	if (health->is_unhealthy)
		return "unhealthy";
	if (!health->is_ready)
		return "starting";
	return health->count ? "degraded" : "ok";
}

void monitor_put_reasons(struct json_out *out, const struct monitor_health *health)
{
	json_put_begin(out, "reasons", '[');
	for (size_t i = 0; i < health->count; i++) {
		json_begin(out, '{');
		json_put_text(out, "code", health->reasons[i].code);
		json_put_text(out, "severity", alert_severity_word(health->reasons[i].severity));
		if (health->reasons[i].since_ms)
			json_put_time(out, "since", health->reasons[i].since_ms);
		else
			json_put_text(out, "since", NULL);
		json_put_text(out, "hint", health->reasons[i].hint);
		json_end(out, '}');
	}
	json_end(out, ']');
}

void monitor_put_health(struct json_out *out, const struct monitor_health *health)
{
	monitor_put_reasons(out, health);
	json_put_int(out, "active", (int64_t)health->active);
	json_put_int(out, "stuck", (int64_t)health->stuck);
	json_put_int(out, "orphaned", (int64_t)health->orphaned);
	json_key(out, "failureRate");
	json_add_double(out, health->failure_rate);
	json_put_begin(out, "alerts", '{');
	json_put_int(out, "critical", (int64_t)health->criticals);
	json_put_int(out, "warning", (int64_t)health->warnings);
	json_end(out, '}');
}
