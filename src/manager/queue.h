// Who may build next. Builds are few at a time and only while the host has room; those who wait
// stand in a line of their tenant's, and the lines take turns: however many one tenant asks for,
// another's first request is at most one turn away.
#pragma once

#include "manager/table.h"

#define QUEUE_BUILDS 32	     // at a time
#define QUEUE_TENANT_MAX 256 // waiting

struct queue *queue_new(struct manager *manager, int64_t wait_ms);
void queue_set_wait(struct queue *queue, int64_t wait_ms); // for who comes from now on
void queue_free(struct queue *queue);

// Waits for a turn; queue_leave() must follow. The entry is held by the caller. When the time is
// over: EXHAUSTED with the reason that it waited for (host_memory, host_pids, host_loops,
// daemon_files, builds_busy), NO_SPACE host_disk, UNAVAILABLE capacity_unknown, with the position;
// EXHAUSTED queue_full at once when the line is too long.
fallible queue_enter(struct manager *manager, struct entry *entry);
void queue_leave(struct manager *manager);
// Room may have come: look again.
void queue_stir(struct manager *manager);
// What the warden is short of (no_ids, no_loop, host_full, prebuilt_lost) and was waited for in
// vain, said again with the place in the line.
fallible queue_explain(const struct entry *entry, struct err *shortage);
// Brings record.wait up to date.
void queue_show(struct entry *entry);

struct queue_view {
	uint32_t building, waiting;
	uint64_t waited, refused; // since the start
};
struct queue_view queue_look(const struct manager *manager);
