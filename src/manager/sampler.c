// Reads the counters of many sandboxes in batches, each on a thread of its own. A batch that has
// not got beyond one sandbox for a second is given up: that sandbox stays with the thread until its
// file is read, the others are read by another one. So a stalled cgroup delays no other sandbox.
//
// A sandbox that runs is due every SAMPLER_EVERY_MS, counted from its own last reading, which
// spreads them; any other one after a minute, for the disk that it keeps; and each after a change
// of its state. The disk is the warden's to measure: one question at a time.
#include "manager/sampler.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "egress/egress.h"
#include "loop/offload.h"
#include "manager/access.h"
#include "manager/metering.h"
#include "manager/usage.h"
#include "store/egress.h"

#define BATCH 32
#define READERS_MAX 2  // batches under way
#define STALLED_MAX 64 // batches that were given up, each with its thread
#define TICK_MS 1000
#define CALM_EVERY_MS 60000 // of a sandbox that does not run
#define CORES_MIN_US 50000  // a shorter interval says nothing about a rate
#define DISK_FIRST_MS 2000
#define ENDING_MS 1000

struct sampled {
	struct sample last;
	enum state state;    // at the last reading
	bool known;	     // nothing of an earlier daemon is missing in `last`
	bool reading;	     // a batch has it
	bool ended;	     // its cgroup is gone, and counted to its end
	int64_t due_ms;	     // loop time
	int64_t disk_due_ms; // likewise
	int64_t ending_ms;   // loop time of the last call of sampler_before_end(); 0: none
	int64_t full_ms;     // loop time of the last full reading; 0: none
	int64_t at_us;	     // monotonic, of the last reading
};

struct slot {
	struct entry *entry; // referenced; NULL: settled
	char id[ID_BOX_LEN + 1];
	bool full, idle; // idle: it has no cgroup to read
	struct counters counters;
	int64_t at_us;
	atomic_bool done;
};

struct batch {
	struct sampler *sampler;
	struct link link;
	size_t count;
	atomic_int at; // the slot that is being read; -1: not begun
	int seen_at;   // at the last tick
	atomic_bool given_up;
	bool is_given_up; // the same, for the loop
	struct slot slots[BATCH];
};

struct sampler {
	struct manager *manager;
	const struct cgroup_files *files;
	const char *boot;
	sampler_read_fn *read;
	struct {
		sampler_fn *fn;
		void *arg;
	} subscribers[SAMPLER_SUBSCRIBERS];
	size_t subscriber_count;
	struct link batches;
	int readers, stalled;
	struct condition ended; // a batch was settled
};

static struct sampled *sampled_of(struct entry *entry)
{
	if (!entry->sampled) {
		entry->sampled = mem_new_of(struct sampled);
		entry->sampled->known = !entry->restored;
		entry->sampled->state = STATE_COUNT;
		entry->sampled->last.counters = counters_unknown();
		entry->sampled->last.disk = COUNTER_UNKNOWN;
		entry->sampled->last.inodes = COUNTER_UNKNOWN;
		entry->sampled->last.inodes_free = COUNTER_UNKNOWN;
		entry->sampled->last.cores = -1;
	}
	return entry->sampled;
}

static bool has_cgroup(const struct entry *entry)
{
	enum state state = entry->record.state;

	return state == STATE_RUNNING || state == STATE_PAUSED || state == STATE_FROZEN ||
	       state == STATE_DELETING || state == STATE_FAILED;
}

// --------------------------------------------------------------------------------- one reading

static void sampler_count_network(const struct entry *entry, struct sample_network *network)
{
	struct egress_counts counts;

	if (!entry->egress)
		return;
	counts = egress_box_counts(entry->egress);
#define LARGEST(field)                                                                             \
	if (counts.field > network->field)                                                         \
	network->field = counts.field
	LARGEST(connections);
	LARGEST(requests);
	LARGEST(bytes_in);
	LARGEST(bytes_out);
	LARGEST(denied);
#undef LARGEST
}

// Full counters of the same epoch outlive a reading without them.
static void keep_full(struct counters *now, const struct counters *before)
{
#define KEEP(field)                                                                                \
	if (now->field == COUNTER_UNKNOWN)                                                         \
	now->field = before->field
	KEEP(cpu_us);
	KEEP(throttled_us);
	KEEP(memory_peak);
	KEEP(oom_kills);
	KEEP(read_bytes);
	KEEP(write_bytes);
#undef KEEP
}

static double sampler_cores(const struct sampled *sampled, const struct sample *now, int64_t at_us)
{
	const struct sample *before = &sampled->last;
	uint64_t was = before->counters.cpu_us, is = now->counters.cpu_us;
	int64_t span = at_us - sampled->at_us;

	if (is == COUNTER_UNKNOWN || was == COUNTER_UNKNOWN || before->epoch != now->epoch ||
	    !sampled->at_us)
		return -1;
	if (span < CORES_MIN_US)
		return before->cores;
	return is > was ? (double)(is - was) / (double)span : 0;
}

static void sampler_take(struct sampler *sampler, struct entry *entry, struct sample *now,
			 int64_t at_us)
{
	struct sampled *sampled = sampled_of(entry);
	struct sample before = sampled->last;

	now->time_ms = clock_steady_ms();
	if (now->time_ms < before.time_ms)
		now->time_ms = before.time_ms;
	sampler_count_network(entry, &now->network);
	now->cores = sampler_cores(sampled, now, at_us);
	// A rate over a moment is not taken: the next one begins where the last one did.
	if (!sampled->at_us || at_us - sampled->at_us >= CORES_MIN_US || before.epoch != now->epoch)
		sampled->at_us = at_us;
	else
		now->cores = before.cores;
	sampled->last = *now;
	sampled->state = entry->record.state;
	metering_add(entry, sampler->boot, &before, now);
	if (entry->listed)
		live_log_sample(entry->manager->live_log, &entry->live, &before, now);
	for (size_t i = 0; i < sampler->subscriber_count; i++)
		sampler->subscribers[i].fn(sampler->subscribers[i].arg, entry, &before, now);
}

// A box without a cgroup uses no memory; its CPU time stays.
static void sampler_quiet(struct sample *now)
{
	now->counters.memory_charged = now->counters.memory_working = now->counters.pids = 0;
}

static void sampler_apply(struct sampler *sampler, struct slot *slot)
{
	struct entry *entry = slot->entry;
	struct sampled *sampled = sampled_of(entry);
	struct sample now = sampled->last;

	if (slot->counters.cgroup) {
		if (slot->counters.cgroup != now.counters.cgroup) {
			now.epoch++;
			now.counters = counters_unknown();
			sampled->ended = false;
		}
		keep_full(&slot->counters, &now.counters);
		now.counters = slot->counters;
		if (slot->full)
			sampled->full_ms = loop_now(sampler->manager->loop);
	} else {
		sampler_quiet(&now);
	}
	sampler_take(sampler, entry, &now, slot->at_us);
}

static void slot_settle(struct batch *batch, struct slot *slot)
{
	struct sampler *sampler = batch->sampler;
	struct entry *entry = take_ptr(slot->entry);
	bool runs = entry->record.state == STATE_RUNNING;

	entry->sampled->reading = false;
	entry->sampled->due_ms = loop_now(sampler->manager->loop) +
				 (runs ? SAMPLER_EVERY_MS : CALM_EVERY_MS);
	if (!atomic_load(&slot->done))
		entry->sampled->due_ms = 0; // another batch reads it
	entry_unref(entry);
}

static void batch_settle(struct batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		struct slot *slot = &batch->slots[i];

		if (!slot->entry || (batch->is_given_up && (int)i == atomic_load(&batch->at) &&
				     !atomic_load(&slot->done)))
			continue;
		if (atomic_load(&slot->done) && slot->entry->listed && !slot->entry->sampled->ended)
			sampler_apply(batch->sampler, slot);
		slot_settle(batch, slot);
	}
	condition_signal(&batch->sampler->ended);
}

// -------------------------------------------------------------------------------- many readings

// On a worker.
static void batch_read(void *arg)
{
	struct batch *batch = arg;
	const struct sampler *sampler = batch->sampler;

	for (size_t i = 0; i < batch->count && !atomic_load(&batch->given_up); i++) {
		struct slot *slot = &batch->slots[i];

		atomic_store(&batch->at, (int)i);
		if (slot->idle)
			slot->counters = counters_unknown();
		else
			sampler->read(sampler->files, slot->id, slot->full, &slot->counters);
		slot->at_us = clock_us();
		atomic_store(&slot->done, true);
	}
}

// The last reading of an earlier daemon, and what the ledger has since recorded.
static fallible sampler_recover(struct sampler *sampler, struct entry *entry)
{
	struct sampled *sampled = sampled_of(entry);
	struct store_egress_sums sums = {0};
	struct sample last;

	if (sampled->known)
		return OK;
	TRY(metering_recover(entry, sampler->boot, &last));
	if (!entry->egress && sampler->manager->store)
		TRY(store_egress_sums(sampler->manager->store, entry->record.id, &sums));
	if (sampled->known) // meanwhile
		return OK;
	sampled->last = last;
	if (sums.requests > last.network.requests || sums.bytes_in > last.network.bytes_in) {
		struct sample now = last;

		now.network = (struct sample_network){sums.connections, sums.requests,
						      sums.bytes_in, sums.bytes_out, sums.denied};
		now.time_ms = clock_steady_ms();
		metering_add(entry, sampler->boot, &last, &now);
		sampled->last = now;
	}
	sampled->known = true;
	return OK;
}

static void sampler_reader(void *arg)
{
	struct batch *batch = arg;
	struct sampler *sampler = batch->sampler;
	int64_t began_us;

	task_shield(true);
	for (size_t i = 0; i < batch->count; i++) {
		struct slot *slot = &batch->slots[i];
		auto_err err = sampler_recover(sampler, slot->entry);

		if (err) {
			slot->entry->sampled->reading = false;
			slot->entry->sampled->due_ms = loop_now(sampler->manager->loop) +
						       CALM_EVERY_MS;
			entry_unref(take_ptr(slot->entry));
			slot->idle = true;
		}
	}
	began_us = clock_us();
	offload_run_apart(batch_read, batch);
	metric_observe(METRIC_SAMPLER, NULL, (double)(clock_us() - began_us) / 1e6);
	*(batch->is_given_up ? &sampler->stalled : &sampler->readers) -= 1;
	batch->is_given_up = false;
	batch_settle(batch);
	link_drop(&batch->link);
	free(batch);
}

static void batch_start(struct batch *batch)
{
	struct sampler *sampler = batch->sampler;

	sampler->readers++;
	link_add(&sampler->batches, &batch->link);
	task_start(sampler->manager->loop, "sampler.read", sampler_reader, batch);
}

static struct batch *batch_new(struct sampler *sampler)
{
	struct batch *batch = mem_new_of(struct batch);

	batch->sampler = sampler;
	batch->seen_at = -1;
	atomic_init(&batch->at, -1);
	return batch;
}

// Takes a reference to the entry.
static void batch_add(struct batch *batch, struct entry *entry, bool full)
{
	struct slot *slot = &batch->slots[batch->count++];

	memcpy(slot->id, entry->record.id, sizeof(slot->id));
	slot->entry = entry;
	slot->full = full;
	slot->idle = !has_cgroup(entry);
	entry_ref(entry);
	sampled_of(entry)->reading = true;
}

static void sampler_give_up_stalled(struct sampler *sampler)
{
	list_each (at, &sampler->batches) {
		struct batch *batch = link_of(at, struct batch, link);
		int now = atomic_load(&batch->at);

		if (batch->is_given_up)
			continue;
		if (now < 0 || now != batch->seen_at) {
			batch->seen_at = now;
			continue;
		}
		log_event(LOG_WARN, "sampler.stalled", "sandbox", batch->slots[now].id, NULL);
		atomic_store(&batch->given_up, true);
		batch->is_given_up = true;
		sampler->stalled++;
		sampler->readers--;
		batch_settle(batch);
	}
}

static bool sampler_is_due(struct entry *entry, int64_t now)
{
	const struct sampled *sampled = sampled_of(entry);

	if (sampled->reading || entry->record.state == STATE_CREATING ||
	    entry->record.state == STATE_DELETING || entry->moving || entry->destroying)
		return false;
	return now >= sampled->due_ms || sampled->state != entry->record.state;
}

static void sampler_round(struct sampler *sampler)
{
	struct manager *manager = sampler->manager;
	int64_t now = loop_now(manager->loop);
	struct batch *batch = NULL;

	list_each (at, &manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);

		if (sampler->readers >= READERS_MAX || sampler->stalled >= STALLED_MAX)
			break;
		if (!sampler_is_due(entry, now))
			continue;
		if (!batch)
			batch = batch_new(sampler);
		batch_add(batch, entry, false);
		if (batch->count == BATCH)
			batch_start(take_ptr(batch));
	}
	if (batch)
		batch_start(batch);
}

static void sampler_watch(void *arg)
{
	struct sampler *sampler = arg;
	struct loop *loop = sampler->manager->loop;
	int64_t tick = loop_now(loop) + TICK_MS;
	auto_err err = NULL;

	while (!err || err_kind(err) == ERR_TIMEOUT) {
		sampler_round(sampler);
		// More is due than fits into the readers: go on as soon as one has ended.
		err_free(take_ptr(err));
		err = sampler->readers >= READERS_MAX ? condition_wait(&sampler->ended, tick)
						      : task_sleep_until(tick);
		if (loop_now(loop) >= tick) {
			sampler_give_up_stalled(sampler);
			tick = loop_now(loop) + TICK_MS;
		}
	}
}

// ------------------------------------------------------------------------------------------ disk

static struct entry *sampler_disk_due(struct manager *manager)
{
	int64_t now = loop_now(manager->loop);

	list_each (at, &manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);
		struct sampled *sampled = sampled_of(entry);
		enum state state = entry->record.state;

		if (!sampled->disk_due_ms)
			sampled->disk_due_ms = now + DISK_FIRST_MS;
		if (now >= sampled->disk_due_ms && !entry->destroying && sampled->known &&
		    state != STATE_CREATING && state != STATE_DELETING)
			return entry;
	}
	return NULL;
}

static void sampler_measure_disks(void *arg)
{
	struct sampler *sampler = arg;
	struct manager *manager = sampler->manager;
	auto_err err = NULL;

	while (!err) {
		struct entry *entry = ask_host(manager->ask) ? sampler_disk_due(manager) : NULL;
		struct order_usage usage;

		if (!entry) {
			err = task_sleep_until(loop_now(manager->loop) + TICK_MS);
			continue;
		}
		entry_ref(entry);
		entry->sampled->disk_due_ms = loop_now(manager->loop) + SAMPLER_DISK_MS;
		usage_ask(manager, entry->record.id, &usage);
		entry->sampled->last.inodes = usage.inodes;
		entry->sampled->last.inodes_free = usage.inodes_free;
		if (usage.disk != ORDER_USAGE_UNKNOWN) {
			struct sample before = entry->sampled->last;

			entry->sampled->last.disk = usage.disk;
			if (entry->listed)
				live_log_sample(manager->live_log, &entry->live, &before,
						&entry->sampled->last);
		}
		entry_unref(entry);
	}
}

// ------------------------------------------------------------------------------------ interface

void sampler_open(const struct sampler_options *options)
{
	struct sampler *sampler = mem_new_of(struct sampler);
	struct loop *loop = options->manager->loop;

	sampler->manager = options->manager;
	sampler->files = options->files;
	sampler->boot = options->boot;
	sampler->read = options->read ? options->read : cgroup_files_read;
	link_init(&sampler->batches);
	condition_init(&sampler->ended);
	options->manager->sampler = sampler;
	task_start(loop, "sampler", sampler_watch, sampler);
	task_start(loop, "sampler.disk", sampler_measure_disks, sampler);
}

void sampler_subscribe(struct manager *manager, sampler_fn *fn, void *arg)
{
	struct sampler *sampler = manager->sampler;

	if (!sampler || sampler->subscriber_count == SAMPLER_SUBSCRIBERS)
		return;
	sampler->subscribers[sampler->subscriber_count].fn = fn;
	sampler->subscribers[sampler->subscriber_count++].arg = arg;
}

const struct sample *sampler_last(const struct entry *entry)
{
	return entry->sampled && entry->sampled->last.time_ms ? &entry->sampled->last : NULL;
}

static void sampler_refresh_as(struct entry *entry, bool full)
{
	struct sampler *sampler = entry->manager->sampler;
	struct sampled *sampled = sampled_of(entry);
	int64_t deadline = loop_now(entry->manager->loop) + SAMPLER_WAIT_MS;
	auto_err err = NULL;
	struct batch *batch;

	while (!err && sampled->reading)
		err = condition_wait(&sampler->ended, deadline);
	if (err || !entry->listed || sampler->stalled >= STALLED_MAX)
		return;
	batch = batch_new(sampler);
	batch_add(batch, entry, full);
	batch_start(batch);
	while (!err && sampled->reading)
		err = condition_wait(&sampler->ended, deadline);
}

void sampler_refresh(struct entry *entry, int64_t age_ms)
{
	int64_t now = loop_now(entry->manager->loop);
	const struct sampled *sampled = sampled_of(entry);

	if (!entry->manager->sampler || (sampled->full_ms && now - sampled->full_ms < age_ms))
		return;
	entry_ref(entry);
	sampler_refresh_as(entry, true);
	entry_unref(entry);
}

void sampler_settle(struct entry *entry)
{
	if (entry->manager->sampler)
		metering_settle(entry, entry->manager->sampler->boot, &sampled_of(entry)->last);
}

// True: a sandbox is due, or is being read.
static bool sampler_is_behind(const struct sampler *sampler, int64_t now)
{
	list_each (at, &sampler->manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);

		if (sampled_of(entry)->reading || sampler_is_due(entry, now))
			return true;
	}
	return false;
}

void sampler_catch_up(struct manager *manager, int64_t age_ms)
{
	struct sampler *sampler = manager->sampler;
	int64_t now = loop_now(manager->loop), deadline = now + SAMPLER_WAIT_MS;
	auto_err err = NULL;

	if (!sampler)
		return;
	list_each (at, &manager->entries) {
		struct sampled *sampled = sampled_of(link_of(at, struct entry, link));

		if (clock_steady_ms() - sampled->last.time_ms >= age_ms)
			sampled->due_ms = 0;
	}
	while (!err && sampler->stalled < STALLED_MAX && sampler_is_behind(sampler, now)) {
		sampler_round(sampler);
		err = condition_wait(&sampler->ended, deadline);
	}
}

void sampler_settle_all(struct manager *manager)
{
	list_each (at, &manager->entries)
		sampler_settle(link_of(at, struct entry, link));
}

void sampler_before_end(struct entry *entry)
{
	const struct sampler *sampler = entry->manager->sampler;
	struct sampled *sampled = sampled_of(entry);
	int64_t now = loop_now(entry->manager->loop);

	if (!sampler || sampled->ended || state_is_stopped(entry->record.state))
		return;
	// The record of a delete and the delete itself follow each other.
	if (sampled->ending_ms && now - sampled->ending_ms < ENDING_MS)
		return;
	sampled->ending_ms = now;
	entry_ref(entry);
	sampler_refresh_as(entry, false);
	metering_write(entry, sampler->boot, &entry->sampled->last);
	entry_unref(entry);
}

void sampler_ended(struct entry *entry, uint64_t cpu_us)
{
	struct sampler *sampler = entry->manager->sampler;
	struct sampled *sampled = sampled_of(entry);
	struct sample now = sampled->last;

	// Without the last reading of an earlier daemon a difference would count twice.
	if (!sampler || sampled->ended || !sampled->known)
		return;
	if (cpu_us && !now.counters.cgroup) { // ended before it was read once
		now.epoch++;
		now.counters = counters_unknown();
	}
	if (cpu_us && (now.counters.cpu_us == COUNTER_UNKNOWN || cpu_us > now.counters.cpu_us))
		now.counters.cpu_us = cpu_us;
	sampler_quiet(&now);
	now.counters.cgroup = 0;
	sampler_take(sampler, entry, &now, clock_us());
	sampled->ended = true;
	sampled->last.cores = 0;
	metering_write(entry, sampler->boot, &sampled->last);
}

void sampler_started(struct entry *entry)
{
	struct sampled *sampled = sampled_of(entry);

	sampled->ended = false;
	sampled->due_ms = 0;
}

struct sampler_sums sampler_sum(const struct manager *manager, const struct who *who)
{
	struct sampler_sums sums = {0};

	list_each (at, &manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);
		const struct sample *sample = sampler_last(entry);

		if (!access_sees(who, entry->record.tenant, entry->record.id))
			continue;
		sums.states[entry->record.state]++;
		if (!sample)
			continue;
		sums.cores += sample->cores > 0 ? sample->cores : 0;
#define ADD(to, value) sums.to += (value) == COUNTER_UNKNOWN ? 0 : (value)
		ADD(memory, sample->counters.memory_working);
		ADD(pids, sample->counters.pids);
		ADD(disk, sample->disk);
#undef ADD
		sums.network.connections += sample->network.connections;
		sums.network.requests += sample->network.requests;
		sums.network.bytes_in += sample->network.bytes_in;
		sums.network.bytes_out += sample->network.bytes_out;
		sums.network.denied += sample->network.denied;
	}
	return sums;
}
