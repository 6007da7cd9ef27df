// The monitor's task evaluates the rules of alerts every TIMER_ALERTS. Alerts that other parts of
// the daemon raise and clear (manager/publish) are passed on to the rules of that name.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/publish.h"
#include "monitor/monitor.h"
#include "monitor/private.h"
#include "store/alerts.h"
#include "types/timers.h"

#define EVALUATE_LEAST_MS 20 // whatever the time scale
#define PRUNE_MS (3600 * 1000)

void monitor_look(struct monitor *monitor, struct view *out)
{
	struct loop *loop = monitor->options.loop;
	bool is_there = ask_host(monitor->options.manager->ask) != NULL;

	if (is_there)
		monitor->warden_since = 0;
	else if (!monitor->warden_since)
		monitor->warden_since = loop_now(loop);
	view_read(&(struct view_source){.manager = monitor->options.manager,
					.agents = monitor->options.agents,
					.sweep = monitor->options.sweep,
					.store = monitor->options.store,
					.rates = monitor->rates},
		  monitor->warden_since, out);
	out->sinks_failing = (double)alerts_count(monitor->alerts).sinks_failing;
}

// A condition without an end of its own holds until the janitor has had two rounds to find it
// again.
static void monitor_on_alert(void *arg, const char *alert, const char *what, const char *box,
			     bool raised)
{
	struct monitor *monitor = arg;
	const char *object = box && *box ? box : what;

	if (raised)
		alerts_raise(monitor->alerts, alert, object, 1, 2 * timer_ms(TIMER_SWEEP) + 1000);
	else
		alerts_clear(monitor->alerts, alert, object);
}

fallible monitor_new(const struct monitor_options *options, struct monitor **out)
{
	struct monitor *monitor = mem_new_of(struct monitor);

	monitor->options = *options;
	monitor->started_wall_ms = clock_wall_ms();
	*out = monitor;
	monitor->rates = rates_new(options->store);
	monitor->alerts = alerts_new(&(struct alerts_options){
		.loop = options->loop,
		.store = options->store,
		.sinks = options->sinks->at,
		.secrets = options->sinks->secrets,
		.sink_count = options->sinks->count,
		.trust = options->trust,
		.hosts = options->hosts,
		.link = options->link,
	});
	alert_subscribe(monitor_on_alert, monitor);
	return history_new(
		&(struct history_options){
			.loop = options->loop,
			.manager = options->manager,
			.alerts = monitor->alerts,
			.dir = options->dir,
			.bytes_max = options->history_max,
		},
		&monitor->history);
}

struct alerts *monitor_alerts(struct monitor *monitor)
{
	return monitor->alerts;
}

struct history *monitor_history(struct monitor *monitor)
{
	return monitor->history;
}

void monitor_stop(struct monitor *monitor)
{
	history_stop(monitor->history);
}

static void monitor_prune(struct monitor *monitor)
{
	int64_t now = clock_steady_ms();

	err_free(store_alerts_prune(monitor->options.store, now - timer_ms(TIMER_EVENTS)));
	err_free(store_execution_ends_prune(monitor->options.store, now - timer_ms(TIMER_EVENTS)));
}

static void monitor_task(void *arg)
{
	struct monitor *monitor = arg;
	struct loop *loop = monitor->options.loop;
	int64_t prune_at = loop_now(loop);
	auto_err err = NULL;

	while (!err) {
		int64_t pause = timer_ms(TIMER_ALERTS);
		auto_free struct view *view = mem_new_of(struct view);

		monitor_look(monitor, view);
		if (view->is_ready || monitor->options.manager->settled) // else little is known
			alerts_evaluate(monitor->alerts, view);
		if (loop_now(loop) >= prune_at) {
			monitor_prune(monitor);
			prune_at = loop_now(loop) + PRUNE_MS;
		}
		err = task_sleep_until(loop_now(loop) +
				       (pause > EVALUATE_LEAST_MS ? pause : EVALUATE_LEAST_MS));
	}
}

void monitor_start(struct monitor *monitor)
{
	alerts_start(monitor->alerts);
	history_start(monitor->history);
	task_start(monitor->options.loop, "monitor", monitor_task, monitor);
}
