// Fault injection for tests: refused without --dev. A fault is set for a point and a session (or
// any), a number of times.
#pragma once

#include "base/err.h"
#include "codec/json.h"
#include "loop/task.h"

// clang-format off
#define FAULT_POINTS(X) \
	X(OBSERVE, "observe") X(STOP, "stop") X(LAUNCH, "launch") X(PERSIST, "persist") \
	X(CAPACITY, "capacity") X(PROBE, "probe")
#define FAULT_MODES(X) X(FAIL, "fail") X(HANG, "hang") X(ENOSPC, "enospc")
// clang-format on
enum fault_point {
#define X(name, word) FAULT_##name,
	FAULT_POINTS(X)
#undef X
		FAULT_POINT_COUNT
};
enum fault_mode {
	FAULT_MODE_NONE,
#define X(name, word) FAULT_MODE_##name,
	FAULT_MODES(X)
#undef X
		FAULT_MODE_COUNT
};

void faults_open(struct loop *loop); // faults can be set from now on
bool faults_are_open(void);
// {point, session?, mode, count?}; count 0 clears. INVALID bad_field.
fallible faults_set(const struct json *object);
void faults_write(struct json_out *out); // pending faults, as an array
void faults_clear(void);		 // hanging tasks continue

// A fault point: returns OK, or the fault that was set. A hang lasts until it is cleared or the
// task is cancelled. INTERNAL fault, NO_SPACE no_space.
fallible faults_meet(enum fault_point point, const char *session);
// The same with a deadline: TIMEOUT.
fallible faults_meet_until(enum fault_point point, const char *session, int64_t deadline);
