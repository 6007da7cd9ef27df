// An object has a ring of slots, 27 bytes each: 10 KB for the hour. The interval between two
// samples is spread over the slots that it covers, so that a sample that comes late makes no spike,
// and the sums are exact. Tenants, types and the host get the same parts added.
//
// Points that are complete are written every TIMER_HISTORY_WRITE, each once; a clean end writes the
// incomplete ones, and the next daemon adds its part.
#include "monitor/history.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/window.h"
#include "manager/metering.h"
#include "manager/sampler.h"
#include "store/execution_ends.h"
#include "types/timers.h"

#define GAP_SLOTS 9   // two samples that are further apart leave a gap …
#define GAP_MS 15000  // … unless it is shorter than that
#define SUMS_MAX 64   // tenants, and types
#define BATCH_MAX 256 // rows of a write
#define TYPES_MAX 32  // that have quantiles
#define UNUSUAL_SAMPLES 200
#define UNUSUAL_LEAST (32u << 20) // bytes of memory below which nothing is unusual
#define UNUSUAL_HOLD_MS 30000

struct __attribute__((packed)) history_slot {
	uint32_t cpu_us, memory_kb, disk_kb, net_in, net_out;
	uint16_t pids, requests, denied;
	uint8_t covered; // HISTORY_COVERED: all of it
};
struct history_extra { // of sums
	uint32_t boxes, executions, failures, create_p95_ms;
};

struct history_ring {
	struct link link;
	char key[HISTORY_KEY_MAX + 1];
	int64_t newest;	 // the number of the newest slot that has anything; 0: none
	int64_t written; // points up to this number are on the disk, or were never in this ring
	bool gone;	 // the sandbox was deleted
	struct history_extra *extra; // NULL: a sandbox
	struct history_slot slots[HISTORY_SLOTS];
};

struct history_type {
	char name[64];
	struct window *memory;
	double p99; // of the past day; 0: too few samples
	int64_t fresh_ms;
};

struct history {
	struct history_options options;
	struct store *store;
	struct map *by_key;
	struct link rings;
	struct history_ring *host;
	size_t sums;
	struct history_type types[TYPES_MAX];
	size_t type_count;
	int64_t slot_ms, ticked_ms, written_ms, started_ms;
};

static const struct {
	const char *word, *unit;
} history_metrics[] = {
#define X(name, word, unit, counts) {word, unit},
	HISTORY_METRICS(X)
#undef X
};

bool history_metric_named(struct str word, enum history_metric *out)
{
	for (int i = 0; i < HISTORY_METRIC_COUNT; i++)
		if (str_is(word, history_metrics[i].word)) {
			*out = (enum history_metric)i;
			return true;
		}
	return false;
}

// ------------------------------------------------------------------------------------------- rings

static struct history_ring *history_ring_new(struct history *history, const char *key, bool is_sum)
{
	struct history_ring *ring = mem_new_of(struct history_ring);

	snprintf(ring->key, sizeof(ring->key), "%s", key);
	if (is_sum)
		ring->extra = mem_new(HISTORY_SLOTS * sizeof(*ring->extra));
	// The point that has begun is written from here on; an earlier daemon may have its
	// beginning.
	ring->written = clock_steady_ms() / history->slot_ms / HISTORY_POINT_SLOTS - 1;
	map_put(history->by_key, str_of(ring->key), ring);
	link_add(&history->rings, &ring->link);
	history->sums += is_sum;
	return ring;
}

static void history_ring_free(struct history *history, struct history_ring *ring)
{
	map_take(history->by_key, str_of(ring->key));
	link_drop(&ring->link);
	free(ring->extra);
	free(ring);
}

// NULL: too many.
static struct history_ring *history_ring_of(struct history *history, const char *kind,
					    const char *name, bool is_sum)
{
	char key[HISTORY_KEY_MAX + 1];
	struct history_ring *ring;

	snprintf(key, sizeof(key), "%s:%s", kind, name);
	ring = map_get(history->by_key, str_of(key));
	if (ring || (is_sum && history->sums >= 2 * SUMS_MAX))
		return ring;
	return history_ring_new(history, key, is_sum);
}

// The slot of that number, emptied if it was of an earlier hour; NULL: it is of an earlier hour
// itself.
static struct history_slot *history_slot_of(struct history_ring *ring, int64_t number)
{
	if (number <= ring->newest - HISTORY_SLOTS)
		return NULL;
	if (ring->newest < number - HISTORY_SLOTS)
		ring->newest = number - HISTORY_SLOTS;
	while (ring->newest < number) {
		ring->newest++;
		ring->slots[ring->newest % HISTORY_SLOTS] = (struct history_slot){0};
		if (ring->extra)
			ring->extra[ring->newest % HISTORY_SLOTS] = (struct history_extra){0};
	}
	return &ring->slots[number % HISTORY_SLOTS];
}

#define ADD(field, amount, most)                                                                   \
	(field) = (__typeof__(field))((uint64_t)(field) + (amount) < (most)                        \
					      ? (uint64_t)(field) + (amount)                       \
					      : (most))

struct history_interval {
	int64_t from_ms, to_ms;
	uint64_t cpu_us, net_in, net_out, requests, denied; // increases
	uint64_t memory, disk, pids;			    // during it
};

// The part of an increase that belongs to a part of the interval: the parts add up.
static uint64_t history_part(const struct history_interval *interval, uint64_t increase,
			     int64_t begin, int64_t end)
{
	double span = (double)(interval->to_ms - interval->from_ms);
	double first = (double)(begin - interval->from_ms) / span;
	double last = (double)(end - interval->from_ms) / span;

	return (uint64_t)((double)increase * last) - (uint64_t)((double)increase * first);
}

static void history_add_part(struct history_slot *slot, const struct history_interval *interval,
			     int64_t begin, int64_t end, int64_t slot_ms, bool covers)
{
	double share = (double)(end - begin) / (double)slot_ms;

	ADD(slot->cpu_us, history_part(interval, interval->cpu_us, begin, end), UINT32_MAX);
	ADD(slot->net_in, history_part(interval, interval->net_in, begin, end), UINT32_MAX);
	ADD(slot->net_out, history_part(interval, interval->net_out, begin, end), UINT32_MAX);
	ADD(slot->requests, history_part(interval, interval->requests, begin, end), UINT16_MAX);
	ADD(slot->denied, history_part(interval, interval->denied, begin, end), UINT16_MAX);
	ADD(slot->memory_kb, (uint64_t)((double)(interval->memory >> 10) * share), UINT32_MAX);
	ADD(slot->disk_kb, (uint64_t)((double)(interval->disk >> 10) * share), UINT32_MAX);
	ADD(slot->pids, (uint64_t)((double)interval->pids * share + 0.5), UINT16_MAX);
	if (covers)
		ADD(slot->covered, (uint64_t)(share * HISTORY_COVERED + 0.5), HISTORY_COVERED);
}

static void history_add(struct history *history, struct history_ring *ring,
			const struct history_interval *interval, bool covers)
{
	int64_t slot_ms = history->slot_ms;
	int64_t last = (interval->to_ms - 1) / slot_ms, number = interval->from_ms / slot_ms;

	if (!ring)
		return;
	if (number < last - HISTORY_SLOTS)
		number = last - HISTORY_SLOTS;
	for (; number <= last; number++) {
		int64_t begin = number * slot_ms, end = begin + slot_ms;
		struct history_slot *slot = history_slot_of(ring, number);

		if (begin < interval->from_ms)
			begin = interval->from_ms;
		if (end > interval->to_ms)
			end = interval->to_ms;
		if (slot && end > begin)
			history_add_part(slot, interval, begin, end, slot_ms, covers);
	}
}

// ----------------------------------------------------------------------------------------- samples

static uint64_t history_known(uint64_t value)
{
	return value == COUNTER_UNKNOWN ? 0 : value;
}

static uint64_t history_grown(uint64_t before, uint64_t now, bool same)
{
	before = same ? history_known(before) : 0;
	now = history_known(now);
	return now > before ? now - before : 0;
}

static const char *history_type_of(const struct entry *entry)
{
	const char *type = env_map_get(&entry->record.labels, STR(CHARGE_TYPE));

	return type && *type ? type : "";
}

// A sandbox that needs more memory than nearly all of its kind did in the last day.
static void history_judge(struct history *history, const struct entry *entry, uint64_t memory)
{
	const char *name = *history_type_of(entry) ? history_type_of(entry)
						   : entry->record.template;
	int64_t now = clock_steady_ms();
	struct history_type *type = NULL;

	for (size_t i = 0; i < history->type_count && !type; i++)
		if (!strncmp(history->types[i].name, name, sizeof(history->types[i].name) - 1))
			type = &history->types[i];
	if (!type && history->type_count == TYPES_MAX)
		return;
	if (!type) {
		type = &history->types[history->type_count++];
		snprintf(type->name, sizeof(type->name), "%s", name);
		type->memory = window_new();
	}
	if (now - type->fresh_ms >= timer_ms(TIMER_SAMPLE)) {
		type->p99 = window_samples(type->memory, WINDOW_DAY, now) < UNUSUAL_SAMPLES
				    ? 0
				    : window_quantile(type->memory, WINDOW_DAY, now, 0.99);
		type->fresh_ms = now;
	}
	if (type->p99 > 0 && memory > UNUSUAL_LEAST && (double)memory > type->p99 * 1.2)
		alerts_raise(history->options.alerts, "usage_unusual", entry->record.id,
			     (double)memory / type->p99, UNUSUAL_HOLD_MS);
	window_add(type->memory, now, now, (double)memory);
}

// NULL: it is younger than the time between two samples. Sandboxes that live for a moment, hundreds
// a second, are in the sums alone.
static struct history_ring *history_ring_of_box(struct history *history, const struct entry *entry)
{
	char key[HISTORY_KEY_MAX + 1];

	if (clock_wall_ms() - entry->record.created_ms >= timer_ms(TIMER_SAMPLE))
		return history_ring_of(history, "sandbox", entry->record.id, false);
	snprintf(key, sizeof(key), "sandbox:%s", entry->record.id);
	return map_get(history->by_key, str_of(key));
}

static void history_on_sample(void *arg, const struct entry *entry, const struct sample *before,
			      const struct sample *now)
{
	struct history *history = arg;
	bool same = before->time_ms && before->epoch == now->epoch;
	struct history_interval interval = {
		.from_ms = before->time_ms,
		.to_ms = now->time_ms,
		.cpu_us = history_grown(before->counters.cpu_us, now->counters.cpu_us, same),
		.net_in = history_grown(before->network.bytes_in, now->network.bytes_in, true),
		.net_out = history_grown(before->network.bytes_out, now->network.bytes_out, true),
		.requests = history_grown(before->network.requests, now->network.requests, true),
		.denied = history_grown(before->network.denied, now->network.denied, true),
		.memory = history_known(now->counters.memory_working),
		.disk = history_known(now->disk),
		.pids = history_known(now->counters.pids),
	};
	int64_t gap = GAP_SLOTS * history->slot_ms;

	if (gap < GAP_MS)
		gap = GAP_MS;
	metric_add(METRIC_BOX_CPU, NULL, NULL, (double)interval.cpu_us / 1e6);
	if (interval.memory)
		history_judge(history, entry, interval.memory);
	if (!before->time_ms || interval.to_ms - interval.from_ms > gap)
		interval.from_ms = now->time_ms - history->slot_ms; // nothing is known before
	if (interval.from_ms >= interval.to_ms || interval.from_ms < 0)
		return;
	history_add(history, history_ring_of_box(history, entry), &interval, true);
	history_add(history, history->host, &interval, false);
	if (entry->record.tenant[0])
		history_add(history, history_ring_of(history, "tenant", entry->record.tenant, true),
			    &interval, false);
	if (*history_type_of(entry))
		history_add(history, history_ring_of(history, "type", history_type_of(entry), true),
			    &interval, false);
}

static void history_count_end(struct history *history, struct history_ring *ring,
			      const struct execution_end *end)
{
	int64_t number = clock_steady_ms() / history->slot_ms;
	int64_t kind = execution_kind(end);
	struct history_extra *extra;

	if (!ring || !history_slot_of(ring, number))
		return;
	extra = &ring->extra[number % HISTORY_SLOTS];
	extra->executions++;
	extra->failures += kind == EXECUTION_FAILED || kind == EXECUTION_INFRASTRUCTURE;
}

// The ends of executions are counted where sandboxes are: by the host, the tenant and the type.
static void history_on_end(void *arg, const struct execution_end *end)
{
	struct history *history = arg;

	history_count_end(history, history->host, end);
	if (end->tenant[0])
		history_count_end(history, history_ring_of(history, "tenant", end->tenant, true),
				  end);
	if (end->type[0])
		history_count_end(history, history_ring_of(history, "type", end->type, true), end);
}

// The sums are observed as long as the daemon runs. The host has further gauges.
static void history_tick(struct history *history)
{
	int64_t now = clock_steady_ms();
	struct history_interval none = {.from_ms = history->ticked_ms, .to_ms = now};
	struct history_extra *extra;
	uint64_t samples;
	double p95;

	if (now - history->ticked_ms > GAP_MS &&
	    now - history->ticked_ms > GAP_SLOTS * history->slot_ms)
		none.from_ms = now - history->slot_ms;
	history->ticked_ms = now;
	if (none.from_ms >= now)
		return;
	list_each (at, &history->rings) {
		struct history_ring *ring = link_of(at, struct history_ring, link);

		if (ring->extra)
			history_add(history, ring, &none, true);
	}
	extra = &history->host->extra[history->host->newest % HISTORY_SLOTS];
	p95 = metric_quantile(METRIC_BOX_CREATE, WINDOW_MINUTES, 0.95, &samples);
	extra->boxes = (uint32_t)map_count(history->options.manager->by_id);
	extra->create_p95_ms = p95 > 0 ? (uint32_t)p95 : 0;
}

// ------------------------------------------------------------------------------------------ points

static bool history_has(const struct history_ring *ring, int64_t number)
{
	return ring->newest && number <= ring->newest && number > ring->newest - HISTORY_SLOTS;
}

// One slot as a point.
static void history_read_slot(const struct history_ring *ring, int64_t number,
			      struct history_point *out)
{
	const struct history_slot *slot = &ring->slots[number % HISTORY_SLOTS];
	double whole = slot->covered ? (double)HISTORY_COVERED / slot->covered : 0;

	*out = (struct history_point){.covered = slot->covered};
	if (!slot->covered)
		return;
	out->value[HISTORY_CPU] = slot->cpu_us;
	out->value[HISTORY_MEMORY] = (uint64_t)((double)slot->memory_kb * (ring->extra ? 1 : whole))
				     << 10;
	out->value[HISTORY_PIDS] = (uint64_t)((double)slot->pids * (ring->extra ? 1 : whole));
	out->value[HISTORY_DISK] = (uint64_t)((double)slot->disk_kb * (ring->extra ? 1 : whole))
				   << 10;
	out->value[HISTORY_NET_IN] = slot->net_in;
	out->value[HISTORY_NET_OUT] = slot->net_out;
	out->value[HISTORY_REQUESTS] = slot->requests;
	out->value[HISTORY_DENIED] = slot->denied;
	if (ring->extra) {
		const struct history_extra *extra = &ring->extra[number % HISTORY_SLOTS];

		out->value[HISTORY_BOXES] = extra->boxes;
		out->value[HISTORY_EXECUTIONS] = extra->executions;
		out->value[HISTORY_FAILURES] = extra->failures;
		out->value[HISTORY_CREATE_P95] = extra->create_p95_ms;
	}
	memcpy(out->max, out->value, sizeof(out->max));
}

void history_hour(const struct history *history, enum history_metric metric, double *average,
		  double *peak)
{
	const struct history_ring *host = history->host;
	double sum = 0, most = 0, covered = 0;

	for (int64_t number = host->newest - HISTORY_SLOTS + 1; number <= host->newest; number++) {
		struct history_point slot;
		double part, value;

		if (number <= 0)
			continue;
		history_read_slot(host, number, &slot);
		if (!slot.covered)
			continue;
		part = (double)slot.covered / HISTORY_COVERED;
		value = (double)slot.value[metric];
		if (metric == HISTORY_CPU) // us of a slot
			value /= (double)history->slot_ms * 1000;
		sum += value;
		covered += part;
		if (value / part > most && slot.covered == HISTORY_COVERED)
			most = value / part;
	}
	if (!(covered > 0))
		return;
	*average = sum / covered;
	*peak = most > *average ? most : *average;
}

static void history_read_point(const struct history_ring *ring, int64_t point,
			       struct history_point *out)
{
	*out = (struct history_point){0};
	for (int64_t number = point * HISTORY_POINT_SLOTS;
	     number < (point + 1) * HISTORY_POINT_SLOTS; number++) {
		struct history_point slot;

		if (!history_has(ring, number))
			continue;
		history_read_slot(ring, number, &slot);
		history_point_add(out, &slot);
	}
}

static struct history_write *history_write_of(struct history_batch *batch, const char *key,
					      int64_t hour)
{
	struct history_write *next = batch->writes + batch->count;

	if (batch->count && next[-1].hour == hour && !strcmp(next[-1].key, key))
		return next - 1;
	if (batch->count == BATCH_MAX)
		return NULL;
	batch->count++;
	*next = (struct history_write){.hour = hour};
	snprintf(next->key, sizeof(next->key), "%s", key);
	return next;
}

// The points of a ring that are complete; `all`: also those that are not.
static bool history_gather(struct history_ring *ring, bool all, struct history_batch *batch)
{
	int64_t last = ring->newest / HISTORY_POINT_SLOTS - (all || ring->gone ? 0 : 1);

	for (int64_t point = ring->written + 1; point <= last; point++) {
		struct history_write *write;
		struct history_point read;

		history_read_point(ring, point, &read);
		if (read.covered) {
			write = history_write_of(batch, ring->key, point / HISTORY_POINTS);
			if (!write)
				return false;
			write->at[point % HISTORY_POINTS] = read;
			write->points |= 1u << point % HISTORY_POINTS;
		}
		ring->written = point;
	}
	return true;
}

static int64_t history_hour_ms(const struct history *history)
{
	return history->slot_ms * HISTORY_SLOTS;
}

// What could not be written is lost: a gap.
static void history_write(struct history *history, bool all)
{
	auto_free struct history_write *writes = mem_new(BATCH_MAX * sizeof(*writes));
	struct link *at = history->rings.next;
	bool more = true;

	while (more) {
		struct history_batch batch = {
			.writes = writes,
			.oldest_hour = (clock_steady_ms() - timer_ms(TIMER_HISTORY)) /
				       history_hour_ms(history),
			.bytes_max = history->options.bytes_max,
		};

		more = false;
		for (; at != &history->rings && !more; at = more ? at : at->next)
			more = !history_gather(link_of(at, struct history_ring, link), all, &batch);
		err_free(store_history_write(history->store, &batch));
		at = more ? history->rings.next : at; // the rings may have changed
	}
}

static void history_drop_gone(struct history *history)
{
	list_each (at, &history->rings) {
		struct history_ring *ring = link_of(at, struct history_ring, link);
		struct str id = str_skip(str_of(ring->key), strlen("sandbox:"));

		if (ring->extra)
			continue;
		if (ring->gone)
			history_ring_free(history, ring);
		else
			ring->gone = !map_get(history->options.manager->by_id, id);
	}
}

static void history_task(void *arg)
{
	struct history *history = arg;
	struct loop *loop = history->options.loop;
	auto_err err = NULL;

	while (!err) {
		history_tick(history);
		if (clock_steady_ms() - history->written_ms >= timer_ms(TIMER_HISTORY_WRITE)) {
			history->written_ms = clock_steady_ms();
			history_write(history, false);
			history_drop_gone(history);
		}
		err = task_sleep_until(loop_now(loop) + history->slot_ms);
	}
}

fallible history_new(const struct history_options *options, struct history **out)
{
	struct history *history = mem_new_of(struct history);

	history->options = *options;
	history->by_key = map_new();
	link_init(&history->rings);
	history->slot_ms = timer_ms(TIMER_SAMPLE);
	history->started_ms = history->ticked_ms = history->written_ms = clock_steady_ms();
	history->host = history_ring_new(history, "host", true);
	*out = history;
	TRY(store_history_open(options->loop, options->dir, &history->store));
	sampler_subscribe(options->manager, history_on_sample, history);
	execution_end_subscribe(history_on_end, history);
	return OK;
}

void history_start(struct history *history)
{
	task_start(history->options.loop, "history", history_task, history);
}

void history_stop(struct history *history)
{
	history_write(history, true);
	store_close(history->store);
}

// ----------------------------------------------------------------------------------------- answers

struct history_answer {
	struct history *history;
	const struct history_query *query;
	struct history_ring *ring; // NULL: only on the disk
	int64_t step;		   // slots of a point of the answer
	int64_t first;		   // the number of its first slot
	size_t count;
	struct history_point *points;
};

static void history_collect(struct history_answer *answer, int64_t slot,
			    const struct history_point *point)
{
	int64_t at = (slot - answer->first) / answer->step;

	if (slot < answer->first || at >= (int64_t)answer->count || !point->covered)
		return;
	history_point_add(&answer->points[at], point);
}

static fallible history_collect_rows(struct history_answer *answer)
{
	int64_t last = answer->first + answer->step * (int64_t)answer->count - 1;
	auto_arena arena = arena_new();
	struct history_row *rows = NULL;
	size_t count = 0;

	TRY(store_history_load(answer->history->store, answer->query->key,
			       answer->first / HISTORY_SLOTS, last / HISTORY_SLOTS, arena, &rows,
			       &count));
	for (size_t i = 0; i < count; i++) {
		auto_free struct history_point *points = mem_new(HISTORY_POINTS *
								 sizeof(struct history_point));

		if (!history_row_read(rows[i].body, points))
			continue;
		for (int k = 0; k < HISTORY_POINTS; k++)
			history_collect(answer,
					rows[i].hour * HISTORY_SLOTS + k * HISTORY_POINT_SLOTS,
					&points[k]);
	}
	return OK;
}

// What is not written yet.
static void history_collect_ring(struct history_answer *answer, bool fine)
{
	const struct history_ring *ring = answer->ring;
	int64_t slot = fine ? ring->newest - HISTORY_SLOTS + 1
			    : (ring->written + 1) * HISTORY_POINT_SLOTS;
	struct history_point point;

	for (; slot <= ring->newest; slot++) {
		if (!history_has(ring, slot))
			continue;
		history_read_slot(ring, slot, &point);
		history_collect(answer, slot, &point);
	}
}

static void history_put_value(struct json_out *out, const struct history_answer *answer,
			      const struct history_point *point, enum history_metric metric,
			      bool max)
{
	double slot_s = (double)answer->history->slot_ms / 1000;
	double seconds = (double)point->covered / HISTORY_COVERED * slot_s;
	double value = (double)(max ? point->max[metric] : point->value[metric]);

	if (!point->covered) {
		json_add_null(out);
		return;
	}
	if (history_counts(metric))
		value /= max ? slot_s : seconds;
	if (metric == HISTORY_CPU)
		value /= 1e6;
	json_add_double(out, value);
}

static void history_put_series(struct json_out *out, const struct history_answer *answer,
			       enum history_metric metric)
{
	static const char *const keys[] = {"avg", "max"};

	json_begin(out, '{');
	json_put_text(out, "metric", history_metrics[metric].word);
	json_put_text(out, "unit", history_metrics[metric].unit);
	for (int max = 0; max < 2; max++) {
		json_put_begin(out, keys[max], '[');
		for (size_t i = 0; i < answer->count; i++)
			history_put_value(out, answer, &answer->points[i], metric, max);
		json_end(out, ']');
	}
	json_put_begin(out, "covered", '[');
	for (size_t i = 0; i < answer->count; i++) {
		double part = answer->points[i].covered / (double)(answer->step * HISTORY_COVERED);

		json_add_double(out, part > 1 ? 1 : (double)(int)(part * 1000) / 1000);
	}
	json_end(out, ']');
	json_end(out, '}');
}

// The step in slots: what was asked for, rounded up to what is stored.
static int64_t history_step(const struct history *history, const struct history_query *query,
			    bool *out_fine)
{
	int64_t asked = query->step_ms ? query->step_ms : (query->to_ms - query->from_ms) / 600;
	int64_t step = (asked + history->slot_ms - 1) / history->slot_ms;

	*out_fine = clock_steady_ms() - query->from_ms <
		    history_hour_ms(history) - history->slot_ms;
	if (step < 1)
		step = 1;
	if (*out_fine)
		return step;
	return (step + HISTORY_POINT_SLOTS - 1) / HISTORY_POINT_SLOTS * HISTORY_POINT_SLOTS;
}

static void history_put_marks(struct json_out *out, const struct history *history,
			      const struct history_query *query)
{
	json_put_begin(out, "marks", '[');
	if (history->started_ms >= query->from_ms && history->started_ms <= query->to_ms) {
		json_begin(out, '{');
		json_put_time(out, "time", history->started_ms);
		json_put_text(out, "kind", "start");
		json_end(out, '}');
	}
	json_end(out, ']');
}

fallible history_put_answer(struct history *history, const struct history_query *query,
			    struct json_out *out)
{
	struct history_answer answer = {.history = history, .query = query};
	auto_free struct history_point *points = NULL;
	bool fine;
	int64_t count;

	answer.step = history_step(history, query, &fine);
	answer.first = query->from_ms / history->slot_ms / answer.step * answer.step;
	count = (query->to_ms / history->slot_ms - answer.first) / answer.step + 1;
	if (count > HISTORY_ANSWER_MAX)
		return err_hint(err_new(INVALID, "too_many_points",
					"that are %lld points, and %d is the most",
					(long long)count, HISTORY_ANSWER_MAX),
				"ask for a longer step or a shorter time");
	points = mem_new((size_t)count * sizeof(*points));
	answer.points = points;
	answer.count = (size_t)count;
	if (!fine)
		TRY(history_collect_rows(&answer));
	answer.ring = map_get(history->by_key, str_of(query->key));
	if (answer.ring)
		history_collect_ring(&answer, fine);
	json_put_time(out, "from", answer.first * history->slot_ms);
	json_put_time(out, "to", (answer.first + count * answer.step) * history->slot_ms);
	json_put_int(out, "stepMs", answer.step * history->slot_ms);
	json_put_text(out, "scope", query->key);
	json_put_begin(out, "series", '[');
	for (int i = 0; i < HISTORY_METRIC_COUNT; i++)
		if (!query->metrics || query->metrics >> i & 1)
			history_put_series(out, &answer, (enum history_metric)i);
	json_end(out, ']');
	history_put_marks(out, history, query);
	return OK;
}
