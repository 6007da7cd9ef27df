// The system calls of a box, by name: allowed ones, and those that are denied on purpose.
#pragma once

// NULL-terminated. Docker's default list, less what a box is denied.
extern const char *const calls_allowed[];
// NULL-terminated. Denied with EPERM, so that a program sees a refusal and not a missing call.
extern const char *const calls_denied[];

// Calls newer than the library that builds the filters; since 2019 numbers are the same on every
// architecture. Ends with a NULL name.
struct calls_new {
	const char *name;
	int number;
};
extern const struct calls_new calls_new[];
