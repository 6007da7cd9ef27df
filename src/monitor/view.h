// What the monitor sees: the numbers that metrics, health and rules are made of, read at one time.
// Unknown is NAN, and never 0.
#pragma once

#include "agent/session.h"
#include "manager/manager.h"
#include "manager/sweep.h"

struct rates;

struct view_source {
	struct manager *manager;
	struct agent_sessions *agents; // may be NULL
	struct sweep *sweep;
	struct store *store;
	struct rates *rates;
};

// Fields that rules of alerts compare.
struct view {
	double failure_total, failure_infrastructure; // 0 to 1
	double active, stuck, orphaned, sweep_seconds;
	double quarantined, unreadable, overdue_stops;
	double unwritable;  // 1: the state cannot be written or read
	double disk_ratio;  // free space, in multiples of what creates need
	double warden_gone; // seconds without a warden
	double sinks_failing;
	uint64_t states[STATE_COUNT];
	uint64_t boxes, memory_limit;
	uint64_t memory_working, memory_charged, disk_used; // of sandboxes, as sampled
	uint64_t templates,
		output; // bytes on disk, with layers of images; with contents of results
	uint64_t disk_free, disk_mark;
	bool room_unknown;
	struct agents_view agents;
	struct sweep_view sweep;
	enum store_health store;
	bool is_ready;
	struct admit_view room;
};

// `warden_since` is when the warden was lost, loop time; 0: it is there.
void view_read(const struct view_source *source, int64_t warden_since, struct view *out);
