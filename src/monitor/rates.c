// One entry for each type: totals, and windows of run times. Failures of the last hour are counted
// in slots of a minute. The times are those of the steady clock, which is the one that is stored,
// so that a restart continues the windows. Cancelled executions are in no rate.
#include "monitor/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/window.h"

#define DAY_MS 86400000ll
#define MINUTE_MS 60000ll
#define MINUTES 60

struct execution_type {
	char name[EXECUTION_TYPE_MAX + 1];
	uint64_t totals[EXECUTION_UNCOUNTED + 1]; // by EXECUTION_…
	uint64_t timeouts;
	uint64_t measured; // ends that the sums below are of
	double run_ms, life_ms;
	uint64_t measured_cpu, measured_memory;
	double cpu_ms, memory;
	struct window *runs;
};

struct rates_minute {
	int64_t minute;
	uint64_t counts[EXECUTION_UNCOUNTED + 1];
};

struct rates {
	struct execution_type types[RATES_TYPES_MAX];
	size_t count;
	struct rates_minute minutes[MINUTES];
};

static struct execution_type *rates_type(struct rates *rates, const char *name)
{
	struct execution_type *type;

	name = *name ? name : "none";
	for (size_t i = 0; i < rates->count; i++)
		if (!strcmp(rates->types[i].name, name))
			return &rates->types[i];
	if (rates->count + 1 == RATES_TYPES_MAX && strcmp(name, METRIC_OTHER) != 0)
		return rates_type(rates, METRIC_OTHER);
	type = &rates->types[rates->count++];
	snprintf(type->name, sizeof(type->name), "%s", name);
	return type;
}

static void rates_count_minute(struct rates *rates, const struct execution_end *end)
{
	int64_t minute = end->ended_ms / MINUTE_MS;
	struct rates_minute *at = &rates->minutes[minute % MINUTES];

	if (end->ended_ms < 0 || at->minute > minute)
		return;
	if (at->minute != minute)
		*at = (struct rates_minute){.minute = minute};
	at->counts[execution_kind(end)]++;
}

// What an end took, for averages and quantiles.
static void rates_measure(struct rates *rates, const struct execution_end *end)
{
	struct execution_type *type = rates_type(rates, end->type);
	int64_t now = clock_steady_ms();

	rates_count_minute(rates, end);
	type->measured++;
	type->run_ms += (double)end->run_ms;
	type->life_ms += (double)(end->provision_ms + end->run_ms + end->cleanup_ms);
	type->measured_cpu += end->cpu_ms >= 0;
	type->cpu_ms += end->cpu_ms >= 0 ? (double)end->cpu_ms : 0;
	type->measured_memory += end->memory_peak >= 0;
	type->memory += end->memory_peak >= 0 ? (double)end->memory_peak : 0;
	if (!type->runs)
		type->runs = window_new();
	window_add(type->runs, now, end->ended_ms < now ? end->ended_ms : now, (double)end->run_ms);
}

static void rates_add_total(struct rates *rates, const char *name, const char *outcome,
			    int64_t kind, uint64_t total)
{
	struct execution_type *type = rates_type(rates, name);

	type->totals[kind >= 0 && kind <= EXECUTION_UNCOUNTED ? kind : EXECUTION_FAILED] += total;
	type->timeouts += strcmp(outcome, "timeout") ? 0 : total;
	metric_add(METRIC_EXECUTIONS, type->name, outcome, (double)total);
}

static void rates_on_end(void *arg, const struct execution_end *end)
{
	struct rates *rates = arg;
	const char *type = rates_type(rates, end->type)->name;

	rates_add_total(rates, end->type, end->outcome, execution_kind(end), 1);
	rates_measure(rates, end);
	metric_observe(METRIC_EXECUTION, type, (double)end->run_ms / 1000);
	metric_observe(METRIC_EXECUTION_QUEUE, type, (double)end->queued_ms / 1000);
}

struct rates *rates_new(struct store *store)
{
	struct rates *rates = mem_new_of(struct rates);
	auto_arena arena = arena_new();
	struct execution_total *totals = NULL;
	struct execution_end *ends = NULL;
	size_t total_count = 0, end_count = 0;
	auto_err err = store_execution_totals_load(store, arena, &totals, &total_count);

	if (!err)
		err = store_execution_ends_load(store, clock_steady_ms() - DAY_MS, arena, &ends,
						&end_count);
	// Without a database cove serves nothing, but says so: what is read is counted from 0.
	if (err)
		log_event(LOG_ERROR, "monitor.unread", "what", "executions", "trail",
			  err_trail(err), NULL);
	for (size_t i = 0; i < total_count; i++)
		rates_add_total(rates, totals[i].type, totals[i].outcome, totals[i].kind,
				(uint64_t)totals[i].total);
	for (size_t i = 0; i < end_count; i++)
		rates_measure(rates, &ends[i]);
	execution_end_subscribe(rates_on_end, rates);
	return rates;
}

// ------------------------------------------------------------------------------------------- rates

static void rates_sum_hour(const struct rates *rates, uint64_t sums[EXECUTION_UNCOUNTED + 1])
{
	int64_t minute = clock_steady_ms() / MINUTE_MS;

	memset(sums, 0, (EXECUTION_UNCOUNTED + 1) * sizeof(*sums));
	for (int i = 0; i < MINUTES; i++)
		for (int kind = 0; kind <= EXECUTION_UNCOUNTED; kind++)
			if (rates->minutes[i].minute <= minute &&
			    minute - rates->minutes[i].minute < MINUTES)
				sums[kind] += rates->minutes[i].counts[kind];
}

void rates_hour(struct rates *rates, uint64_t *out_count, uint64_t *out_failed)
{
	uint64_t sums[EXECUTION_UNCOUNTED + 1];

	rates_sum_hour(rates, sums);
	*out_failed = sums[EXECUTION_FAILED] + sums[EXECUTION_INFRASTRUCTURE];
	*out_count = *out_failed + sums[EXECUTION_COMPLETED];
}

double rates_failure_rate(struct rates *rates, enum rates_of rate)
{
	uint64_t sums[EXECUTION_UNCOUNTED + 1], all, failed;

	rates_sum_hour(rates, sums);
	rates_hour(rates, &all, &failed);
	if (rate == RATES_OF_HOST)
		failed = sums[EXECUTION_INFRASTRUCTURE];
	return all < RATES_SAMPLES ? NAN : (double)failed / (double)all;
}

static uint64_t rates_sum(const struct rates *rates, unsigned kinds)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < rates->count; i++)
		for (unsigned kind = 0; kind <= EXECUTION_UNCOUNTED; kind++)
			sum += kinds & (1u << kind) ? rates->types[i].totals[kind] : 0;
	return sum;
}

#define KINDS_FAILED ((1u << EXECUTION_FAILED) | (1u << EXECUTION_INFRASTRUCTURE))
#define KINDS_COUNTED (KINDS_FAILED | (1u << EXECUTION_COMPLETED))
#define KINDS_ALL (KINDS_COUNTED | (1u << EXECUTION_UNCOUNTED))

static uint64_t rates_failed_ever(const struct rates *rates)
{
	return rates_sum(rates, KINDS_FAILED);
}

static uint64_t rates_ended_ever(const struct rates *rates)
{
	return rates_sum(rates, KINDS_ALL);
}

// -------------------------------------------------------------------------------------------- JSON

// null: too few samples, or none.
static void rates_put_ratio(struct json_out *out, const char *key, double part, double whole,
			    uint64_t least)
{
	json_key(out, key);
	if (whole < (double)least || whole <= 0)
		json_add_null(out);
	else
		json_add_double(out, part / whole);
}

void rates_put_overview(struct json_out *out, struct rates *rates)
{
	double life_ms = 0, timeouts = 0;
	uint64_t measured = 0, all, failed;

	for (size_t i = 0; i < rates->count; i++) {
		life_ms += rates->types[i].life_ms;
		measured += rates->types[i].measured;
		timeouts += (double)rates->types[i].timeouts;
	}
	rates_hour(rates, &all, &failed);
	json_put_int(out, "total", (int64_t)rates_ended_ever(rates));
	json_put_int(out, "completed", (int64_t)rates_sum(rates, 1u << EXECUTION_COMPLETED));
	json_put_int(out, "failed", (int64_t)rates_failed_ever(rates));
	rates_put_ratio(out, "averageLifetimeMs", life_ms, (double)measured, 1);
	rates_put_ratio(out, "failureRate", (double)failed, (double)all, RATES_SAMPLES);
	rates_put_ratio(out, "timeoutRate", timeouts, (double)rates_sum(rates, KINDS_COUNTED),
			RATES_SAMPLES);
}

static void rates_put_windows(struct json_out *out, struct window *runs)
{
	static const struct {
		const char *key;
		double quantile;
	} keys[] = {{"p50Ms", 0.5}, {"p95Ms", 0.95}, {"p99Ms", 0.99}};
	int64_t now = clock_steady_ms();

	json_put_begin(out, "windows", '{');
	for (int span = 0; span < WINDOW_COUNT; span++) {
		uint64_t count = runs ? window_samples(runs, (enum window_span)span, now) : 0;

		json_put_begin(out, window_word((enum window_span)span), '{');
		json_put_int(out, "count", (int64_t)count);
		for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
			json_key(out, keys[i].key);
			if (count)
				json_add_double(out, window_quantile(runs, (enum window_span)span,
								     now, keys[i].quantile));
			else
				json_add_null(out);
		}
		json_end(out, '}');
	}
	json_end(out, '}');
}

static void rates_put_type(struct json_out *out, const struct execution_type *type)
{
	uint64_t failed = type->totals[EXECUTION_FAILED] + type->totals[EXECUTION_INFRASTRUCTURE];
	double counted = (double)(failed + type->totals[EXECUTION_COMPLETED]);

	json_put_begin(out, type->name, '{');
	json_put_int(out, "executions",
		     (int64_t)(counted + (double)type->totals[EXECUTION_UNCOUNTED]));
	json_put_int(out, "failedByInfrastructure",
		     (int64_t)type->totals[EXECUTION_INFRASTRUCTURE]);
	rates_put_ratio(out, "successRate", (double)type->totals[EXECUTION_COMPLETED], counted,
			RATES_SAMPLES);
	rates_put_ratio(out, "failureRate", (double)failed, counted, RATES_SAMPLES);
	rates_put_ratio(out, "averageExecutionMs", type->run_ms, (double)type->measured, 1);
	rates_put_ratio(out, "averageCpuMs", type->cpu_ms, (double)type->measured_cpu, 1);
	rates_put_ratio(out, "averageMemoryBytes", type->memory, (double)type->measured_memory, 1);
	rates_put_windows(out, type->runs);
	json_end(out, '}');
}

void rates_put_types(struct json_out *out, struct rates *rates)
{
	json_begin(out, '{');
	for (size_t i = 0; i < rates->count; i++)
		rates_put_type(out, &rates->types[i]);
	json_end(out, '}');
}
