// A row of the history: the points of one hour of one object, packed for the disk. Counters have
// their increase in each point, gauges their mean; both have a maximum, and each point says how
// much of its time was observed. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

// clang-format off
//	  HISTORY_     word          unit       counts
#define HISTORY_METRICS(X) \
	X(CPU,         "cpu",        "cores",   true) \
	X(MEMORY,      "memory",     "bytes",   false) \
	X(PIDS,        "pids",       "processes", false) \
	X(DISK,        "disk",       "bytes",   false) \
	X(NET_IN,      "netIn",      "bytes/s", true) \
	X(NET_OUT,     "netOut",     "bytes/s", true) \
	X(REQUESTS,    "requests",   "1/s",     true) \
	X(DENIED,      "denied",     "1/s",     true) \
	X(BOXES,       "sandboxes",  "sandboxes", false) \
	X(EXECUTIONS,  "executions", "1/s",     true) \
	X(FAILURES,    "failures",   "1/s",     true) \
	X(CREATE_P95,  "createP95",  "ms",      false)
// clang-format on
enum history_metric {
#define X(name, word, unit, counts) HISTORY_##name,
	HISTORY_METRICS(X)
#undef X
		HISTORY_METRIC_COUNT
};

#define HISTORY_SLOTS 360      // of an hour: a sample each
#define HISTORY_POINT_SLOTS 30 // of a point
#define HISTORY_POINTS (HISTORY_SLOTS / HISTORY_POINT_SLOTS)
#define HISTORY_COVERED 100 // of a slot that was observed from begin to end

struct history_point {
	uint32_t covered;		      // sum over the slots; 0: nothing is known
	uint64_t value[HISTORY_METRIC_COUNT]; // increase, or the mean
	uint64_t max[HISTORY_METRIC_COUNT];   // of a slot
};

// Adds what another daemon has observed of the same point, or the next point of a longer one.
void history_point_add(struct history_point *point, const struct history_point *other);
bool history_counts(enum history_metric metric); // a counter, not a gauge

void history_row_write(const struct history_point points[HISTORY_POINTS], struct buf *out);
// False: malformed; then *points is unspecified.
bool history_row_read(struct str bytes, struct history_point points[HISTORY_POINTS]);
