// Faults on demand, for tests: refused without --dev. A fault waits at a point for a session (or
// for any), so many times.
#pragma once

#include "base/err.h"
#include "codec/json.h"
#include "loop/task.h"

// clang-format off
#define FAULT_POINTS(X) \
	X(OBSERVE, "observe") X(STOP, "stop") X(LAUNCH, "launch") X(PERSIST, "persist") \
	X(CAPACITY, "capacity")
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

void faults_open(struct loop *loop); // they may be set from now on
bool faults_are_open(void);
// {point, session?, mode, count?}; count 0 clears. INVALID bad_field.
fallible faults_set(const struct json *object);
void faults_write(struct json_out *out); // those that wait, as an array
void faults_clear(void);		 // and whoever hangs goes on

// At a point: passes, or fails with what was set. A hang lasts until it is cleared, or the task is
// cancelled. INTERNAL fault, NO_SPACE no_space.
fallible faults_meet(enum fault_point point, const char *session);
// The same with a bound: TIMEOUT.
fallible faults_meet_until(enum fault_point point, const char *session, int64_t deadline);
