// Metrics for Prometheus, and the same state as JSON. Gauges are set when they are asked for;
// counters and histograms are kept by those who count (base/metric.h).
//
// syscalls: getrusage
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "manager/queue.h"
#include "monitor/private.h"

static void metrics_set_process(const struct view *view)
{
	struct rusage usage = {0};

	getrusage(RUSAGE_SELF, &usage);
	metric_set(METRIC_CPU_SECONDS, NULL, NULL,
		   (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
			   (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6);
	metric_set(METRIC_RESIDENT, NULL, NULL, (double)usage.ru_maxrss * 1024);
	metric_set(METRIC_OPEN_FDS, NULL, NULL, (double)view->room.files);
}

static void metrics_set_rate(const char *kind, double rate)
{
	if (!isnan(rate))
		metric_set(METRIC_FAILURE_RATIO, kind, NULL, rate);
}

static void metrics_set(struct monitor *monitor, const struct view *view)
{
	metric_set(METRIC_BUILD_INFO, monitor->options.version, NULL, 1);
	metric_set(METRIC_START_TIME, NULL, NULL, (double)monitor->started_wall_ms / 1000);
	for (int i = 0; i < STATE_COUNT; i++)
		metric_set(METRIC_BOXES, state_word((enum state)i), NULL, (double)view->states[i]);
	for (int i = 0; i < LEASE_STATE_COUNT; i++)
		metric_set(METRIC_LEASES, lease_state_word((enum lease_state)i), NULL,
			   (double)view->agents.leases[i]);
	metric_set(METRIC_BOXES_STUCK, NULL, NULL, view->stuck);
	metric_set(METRIC_BOXES_ORPHANED, NULL, NULL, view->orphaned);
	metric_set(METRIC_BOX_MEMORY, "limit", NULL, (double)view->memory_limit);
	metric_set(METRIC_BOX_MEMORY, "working_set", NULL, (double)view->memory_working);
	metric_set(METRIC_BOX_MEMORY, "charged", NULL, (double)view->memory_charged);
	metric_set(METRIC_DISK, "sandboxes", NULL, (double)view->disk_used);
	metric_set(METRIC_DISK, "templates", NULL, (double)view->templates);
	metric_set(METRIC_DISK, "output", NULL, (double)view->output);
	metric_set(METRIC_DISK, "database", NULL,
		   (double)store_stats(monitor->options.store).bytes);
	if (!view->room.disk_unknown)
		metric_set(METRIC_DISK_FREE, NULL, NULL, (double)view->room.disk_free);
	metric_set(METRIC_QUEUE_WAITING, NULL, NULL,
		   (double)queue_look(monitor->options.manager).waiting);
	metric_clear(METRIC_FAILURE_RATIO);
	metrics_set_rate("total", view->failure_total);
	metrics_set_rate("infrastructure", view->failure_infrastructure);
	alerts_set_metrics(monitor->alerts);
	metrics_set_process(view);
}

void monitor_write_metrics(struct monitor *monitor, struct buf *out)
{
	auto_free struct view *view = mem_new_of(struct view);

	monitor_look(monitor, view);
	metrics_set(monitor, view);
	metric_write(out);
}

// -------------------------------------------------------------------------------------------- JSON

// {average, peak} of the last hour; null: nothing was sampled.
static void metrics_put_hour(struct json_out *out, const char *key, const struct history *history,
			     enum history_metric metric)
{
	double average = NAN, peak = NAN;

	history_hour(history, metric, &average, &peak);
	json_put_begin(out, key, '{');
	json_key(out, "average");
	json_add_double(out, average);
	json_key(out, "peak");
	json_add_double(out, peak);
	json_end(out, '}');
}

static void metrics_put_resources(struct json_out *out, const struct monitor *monitor,
				  const struct view *view)
{
	json_put_begin(out, "resources", '{');
	json_key(out, "cpuSeconds");
	json_add_double(out, metric_sum(METRIC_BOX_CPU));
	metrics_put_hour(out, "cpuCores", monitor->history, HISTORY_CPU);
	json_put_int(out, "memoryBytes", (int64_t)view->memory_working);
	metrics_put_hour(out, "memoryHour", monitor->history, HISTORY_MEMORY);
	json_put_int(out, "memoryLimitBytes", (int64_t)view->memory_limit);
	json_put_int(out, "storageBytes", (int64_t)view->disk_used);
	json_put_int(out, "networkRequests", (int64_t)metric_sum(METRIC_EGRESS_REQUESTS));
	json_put_int(out, "networkBytesIn", (int64_t)metric_value(METRIC_EGRESS_BYTES, "in", NULL));
	json_put_int(out, "networkBytesOut",
		     (int64_t)metric_value(METRIC_EGRESS_BYTES, "out", NULL));
	json_end(out, '}');
}

void monitor_put_latency(struct json_out *out, enum metric metric, enum window_span span)
{
	static const struct {
		const char *key;
		double quantile;
	} keys[] = {{"p50Ms", 0.5}, {"p95Ms", 0.95}, {"p99Ms", 0.99}};
	uint64_t count = 0;

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		double value = metric_quantile(metric, span, keys[i].quantile, &count);

		json_key(out, keys[i].key);
		json_add_double(out, count ? value : NAN);
	}
	json_put_int(out, "count", (int64_t)count);
}

static void metrics_put_latencies(struct json_out *out, const char *key, enum metric metric)
{
	json_put_begin(out, key, '{');
	for (int span = 0; span < WINDOW_COUNT; span++) {
		json_put_begin(out, window_word((enum window_span)span), '{');
		monitor_put_latency(out, metric, (enum window_span)span);
		json_end(out, '}');
	}
	json_end(out, '}');
}

static void metrics_put_leases(struct json_out *out, const struct agents_view *agents)
{
	json_put_begin(out, "leases", '{');
	json_put_begin(out, "states", '{');
	for (int i = 0; i < LEASE_STATE_COUNT; i++)
		json_put_int(out, lease_state_word((enum lease_state)i),
			     (int64_t)agents->leases[i]);
	json_end(out, '}');
	json_put_int(out, "attempts", (int64_t)agents->attempts);
	json_put_int(out, "quarantined", (int64_t)agents->leases[LEASE_QUARANTINED]);
	json_key(out, "oldestStopNeededMs");
	if (agents->leases[LEASE_STOP_NEEDED])
		json_add_int(out, agents->oldest_stop_ms);
	else
		json_add_null(out);
	json_end(out, '}');
}

static void metrics_put_capacity(struct json_out *out, const struct view *view)
{
	json_put_begin(out, "capacity", '{');
	json_put_int(out, "rejected", (int64_t)view->agents.rejected);
	json_put_int(out, "cleaned", (int64_t)view->agents.cleaned);
	json_put_int(out, "skipped", (int64_t)view->agents.skipped);
	json_key(out, "freeMB");
	if (view->room.disk_unknown)
		json_add_null(out);
	else
		json_add_int(out, (int64_t)(view->room.disk_free >> 20));
	json_put_int(out, "refusals", (int64_t)metric_sum(METRIC_REFUSALS));
	json_end(out, '}');
}

void monitor_put_overview(struct json_out *out, struct monitor *monitor)
{
	auto_free struct view *view = mem_new_of(struct view);

	monitor_look(monitor, view);
	json_put_begin(out, "overview", '{');
	json_put_int(out, "active", (int64_t)view->active);
	json_put_int(out, "sandboxes", (int64_t)view->boxes);
	rates_put_overview(out, monitor->rates);
	json_end(out, '}');
	json_key(out, "byType");
	rates_put_types(out, monitor->rates);
	metrics_put_resources(out, monitor, view);
	json_put_begin(out, "latency", '{');
	metrics_put_latencies(out, "create", METRIC_BOX_CREATE);
	metrics_put_latencies(out, "exec", METRIC_EXEC_START);
	json_end(out, '}');
	json_put_begin(out, "cleanup", '{');
	sweep_put(out, monitor->options.sweep);
	json_end(out, '}');
	metrics_put_leases(out, &view->agents);
	metrics_put_capacity(out, view);
}

struct monitor_failures monitor_failures(struct monitor *monitor)
{
	struct monitor_failures out = {
		.total = rates_failure_rate(monitor->rates, RATES_TOTAL),
		.infrastructure = rates_failure_rate(monitor->rates, RATES_OF_HOST)};
	uint64_t failed;

	rates_hour(monitor->rates, &out.samples, &failed);
	return out;
}
