// The queue of builds. Few builds run at a time, and only while the host has room. Waiting builds
// are in one line per tenant, and the lines take turns: however many builds one tenant requests,
// another tenant's first request waits at most one turn.
#pragma once

#include "manager/table.h"

#define QUEUE_BUILDS 32	     // at a time
#define QUEUE_TENANT_MAX 256 // waiting

struct queue *queue_new(struct manager *manager, int64_t wait_ms);
void queue_set_wait(struct queue *queue, int64_t wait_ms); // for builds queued from now on
void queue_free(struct queue *queue);

// Waits for a turn; queue_leave() must follow. The caller holds the entry. After the time limit:
// EXHAUSTED with the reason (host_memory, host_pids, host_loops, daemon_files, builds_busy),
// NO_SPACE host_disk, UNAVAILABLE capacity_unknown, with the position; EXHAUSTED queue_full at once
// when the line is too long.
fallible queue_enter(struct manager *manager, struct entry *entry);
void queue_leave(struct manager *manager);
// Capacity may have been freed: check again.
void queue_stir(struct manager *manager);
// The warden's shortage (no_ids, no_loop, host_full, prebuilt_lost) after retries failed, as an
// error with the position in the line.
fallible queue_explain(const struct entry *entry, struct err *shortage);
// Updates record.wait.
void queue_show(struct entry *entry);

struct queue_view {
	uint32_t building, waiting;
	uint64_t waited, refused; // since the start
};
struct queue_view queue_look(const struct manager *manager);
