// Samples of all sandboxes: the kernel's counters of each running one every SAMPLER_EVERY_MS,
// spread evenly, and at each change of state; network counts and disk beside them. A reading wakes
// no sandbox, asks nothing inside it and is no activity.
#pragma once

#include "box/cgroup_files.h"
#include "manager/table.h"

#define SAMPLER_EVERY_MS 10000
#define SAMPLER_DISK_MS 60000

// Called on the loop's thread after each reading; must not wait. `before->time_ms` 0: the first.
typedef void sampler_fn(void *arg, const struct entry *entry, const struct sample *before,
			const struct sample *now);

// Replaces cgroup_files_read() in tests: it blocks, in a worker thread.
typedef void sampler_read_fn(const struct cgroup_files *files, const char *box, bool full,
			     struct counters *out);
struct sampler_options {
	struct manager *manager;
	const struct cgroup_files *files; // borrowed
	const char *boot;		  // the host's boot id: cgroups of another boot are others
	sampler_read_fn *read;		  // NULL: cgroup_files_read()
};
// Starts sampling, after the store is open and before boxes are loaded.
void sampler_open(const struct sampler_options *options);
#define SAMPLER_SUBSCRIBERS 8
void sampler_subscribe(struct manager *manager, sampler_fn *fn, void *arg);

// The last sample; NULL: none yet. Borrowed until the caller's next wait.
const struct sample *sampler_last(const struct entry *entry);
// Reads the counters of a sandbox now, unless the last full sample is younger than `age_ms`. Waits,
// SAMPLER_WAIT_MS at most: then the last sample stays.
#define SAMPLER_WAIT_MS 2000
void sampler_refresh(struct entry *entry, int64_t age_ms);
// Reads all sandboxes whose last sample is older than `age_ms`. Waits, SAMPLER_WAIT_MS at most.
void sampler_catch_up(struct manager *manager, int64_t age_ms);
// Queues for the store what all sandboxes have used until their last sample.
void sampler_settle_all(struct manager *manager);
// Its labels are about to change: what was used until now is charged to the old ones.
void sampler_settle(struct entry *entry);
// The processes of a sandbox are about to be ended: reads once more, and queues for the store what
// was used until now. Waits like sampler_refresh().
void sampler_before_end(struct entry *entry);
// They have ended. `cpu_us`: what the cgroup had used in all, by the warden; 0: not known.
void sampler_ended(struct entry *entry, uint64_t cpu_us);
void sampler_started(struct entry *entry); // in a new cgroup

// Sums over the sandboxes that `who` sees; a counter that is unknown adds nothing.
struct sampler_sums {
	uint64_t states[STATE_COUNT];
	double cores;
	uint64_t memory, pids, disk; // memory: working sets
	struct sample_network network;
};
struct sampler_sums sampler_sum(const struct manager *manager, const struct who *who);
