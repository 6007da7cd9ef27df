// The system calls of a box, by name: what it may call, and what it is refused on purpose.
#pragma once

// NULL-ended. Docker's default list, less what a box is refused.
extern const char *const calls_allowed[];
// NULL-ended. Refused with EPERM, so that a program learns it is forbidden and not missing.
extern const char *const calls_denied[];

// Calls newer than the library that builds the filters; since 2019 their numbers are the same on
// every architecture. Ends with a NULL name.
struct calls_new {
	const char *name;
	int number;
};
extern const struct calls_new calls_new[];
