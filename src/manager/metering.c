// Differences of counters become amounts: CPU time and network counts are the kernel's and the
// ledger's own, memory and disk are levels times the seconds between two samples. Counters of
// another epoch begin at 0. The time in which no daemon ran counts with the levels before it.
#include "manager/metering.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/metric.h"
#include "codec/json.h"

#define LABELS_MAX (256 * 1024)
#define KIB 1024
#define GAP_MAX_MS (366ll * 24 * 3600 * 1000) // a longer time between two samples is not believed

struct meter {
	struct usage used;		     // not written yet
	uint64_t memory_kib_ms, disk_kib_ms; // less than a second's worth
	int64_t written_ms;		     // steady clock
};

static struct meter *meter_of(struct entry *entry)
{
	if (!entry->meter)
		entry->meter = mem_new_of(struct meter);
	return entry->meter;
}

fallible metering_recover(const struct entry *entry, const char *boot, struct sample *out)
{
	auto_arena arena = arena_new();
	struct store_meter row;
	bool found = false;

	*out = (struct sample){.disk = COUNTER_UNKNOWN,
			       .inodes = COUNTER_UNKNOWN,
			       .inodes_free = COUNTER_UNKNOWN,
			       .cores = -1};
	out->counters = counters_unknown();
	if (!entry->manager->store)
		return OK;
	TRY(store_usage_meter(entry->manager->store, entry->record.id, arena, &row, &found));
	if (!found)
		return OK;
	out->time_ms = row.time_ms;
	out->epoch = row.epoch;
	out->counters.cgroup = strcmp(row.boot, boot) ? 0 : row.cgroup;
	out->counters.cpu_us = row.cpu_us;
	out->counters.memory_working = row.memory;
	out->network = (struct sample_network){row.connections, row.requests, row.bytes_in,
					       row.bytes_out, row.denied};
	out->disk = row.disk < 0 ? COUNTER_UNKNOWN : (uint64_t)row.disk;
	return OK;
}

static uint64_t metering_grown(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

// The level times the time, in KiB-seconds; the rest of a second stays in *rest.
static uint64_t metering_level(uint64_t bytes, uint64_t span_ms, uint64_t *rest)
{
	uint64_t whole;

	if (bytes == COUNTER_UNKNOWN)
		return 0;
	*rest += bytes / KIB * span_ms;
	whole = *rest / 1000;
	*rest %= 1000;
	return whole;
}

static uint64_t metering_cpu(const struct sample *before, const struct sample *now)
{
	uint64_t base = before->epoch == now->epoch ? before->counters.cpu_us : 0;

	if (now->counters.cpu_us == COUNTER_UNKNOWN)
		return 0;
	return metering_grown(base == COUNTER_UNKNOWN ? 0 : base, now->counters.cpu_us);
}

// Prices are millionths of a millionth for a second of CPU, a GiB-second, a GiB-hour, a request.
static void metering_count_cost(const struct usage *used, const struct prices *prices)
{
	const struct {
		const char *kind;
		uint64_t price;
		double units;
	} rows[] = {
		{"cpu", prices->cpu_second, (double)used->cpu_us / 1e6},
		{"memory", prices->gib_second, (double)used->memory_kib_s / (1 << 20)},
		{"disk", prices->gib_hour, (double)used->disk_kib_s / (1 << 20) / 3600},
		{"requests", prices->request, (double)used->requests},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].price)
			metric_add(METRIC_COST, rows[i].kind, NULL,
				   rows[i].units * ((double)rows[i].price / 1e12));
}

void metering_add(struct entry *entry, const char *boot, const struct sample *before,
		  const struct sample *now)
{
	struct meter *meter = meter_of(entry);
	struct manager *manager = entry->manager;
	int64_t span = before->time_ms ? now->time_ms - before->time_ms : 0;
	uint64_t span_ms = span > 0 && span < GAP_MAX_MS ? (uint64_t)span : 0;
	struct usage more = {
		.cpu_us = metering_cpu(before, now),
		.memory_kib_s = metering_level(before->counters.memory_working, span_ms,
					       &meter->memory_kib_ms),
		.disk_kib_s = metering_level(before->disk, span_ms, &meter->disk_kib_ms),
		.requests = metering_grown(before->network.requests, now->network.requests),
		.bytes_in = metering_grown(before->network.bytes_in, now->network.bytes_in),
		.bytes_out = metering_grown(before->network.bytes_out, now->network.bytes_out),
	};

	usage_add(&meter->used, &more);
	metering_count_cost(&more, &manager->prices);
	if (manager->metered)
		manager->metered(manager->metered_arg, entry, &more);
	if (!meter->written_ms)
		meter->written_ms = now->time_ms;
	if (now->time_ms - meter->written_ms >= METERING_WRITE_MS ||
	    now->time_ms < meter->written_ms || before->epoch != now->epoch ||
	    now->time_ms / USAGE_HOUR_MS != meter->written_ms / USAGE_HOUR_MS)
		metering_write(entry, boot, now);
}

static const char *metering_label(const struct record *record, const char *key)
{
	const char *value = env_map_get(&record->labels, str_of(key));

	return value ? value : "";
}

void metering_write(struct entry *entry, const char *boot, const struct sample *now)
{
	const struct record *record = &entry->record;
	struct meter *meter = meter_of(entry);
	auto_buf labels = BUF_INIT(LABELS_MAX);
	struct json_out out = json_to(&labels);
	struct store_charge charge = {
		.sandbox = record->id,
		.tenant = record->tenant,
		.name = record->name,
		.type = metering_label(record, CHARGE_TYPE),
		.owner = metering_label(record, CHARGE_OWNER),
		.execution = metering_label(record, CHARGE_EXECUTION),
		.session = metering_label(record, CHARGE_SESSION),
	};
	struct store_meter row = {
		.sandbox = record->id,
		.epoch = now->epoch,
		.cgroup = now->counters.cgroup,
		.boot = boot,
		.cpu_us = now->counters.cpu_us == COUNTER_UNKNOWN ? 0 : now->counters.cpu_us,
		.connections = now->network.connections,
		.requests = now->network.requests,
		.bytes_in = now->network.bytes_in,
		.bytes_out = now->network.bytes_out,
		.denied = now->network.denied,
		.disk = now->disk == COUNTER_UNKNOWN ? -1 : (int64_t)now->disk,
		.memory = now->counters.memory_working == COUNTER_UNKNOWN
				  ? 0
				  : now->counters.memory_working,
		.time_ms = now->time_ms,
	};

	if (!now->time_ms || !entry->manager->store)
		return;
	env_map_write(&out, &record->labels);
	charge.labels = buf_ok(&labels) ? labels.at : "{}";
	store_usage_queue(entry->manager->store, &charge, now->time_ms, &meter->used, &row);
	meter->used = (struct usage){0};
	meter->written_ms = now->time_ms;
}

void metering_settle(struct entry *entry, const char *boot, const struct sample *now)
{
	if (entry->meter && !usage_is_none(&entry->meter->used))
		metering_write(entry, boot, now);
}

void metering_subscribe(struct manager *manager, metering_fn *fn, void *arg)
{
	manager->metered = fn;
	manager->metered_arg = arg;
}
