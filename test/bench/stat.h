// Samples, their percentiles, and the verdict on a promise.
#pragma once

#include <stddef.h>

struct samples {
	const char *name;
	double *at;
	size_t count, room;
};

double now_ms(void);
void samples_add(struct samples *s, double value);
double samples_pct(struct samples *s, double pct); // 50, 95
double spawn_ms(char *const argv[]);		   // runs a command to its end; dies if it fails
// The barest way: the C library shares its memory with the child until execve; nothing is opened.
double bare_ms(const char *path);
void row(const char *name, struct samples *s); // name, n, p50, p95

// One line `ok|MISS id value limit`, and the tally for the exit status. `at_most` false: at least.
void promise(const char *id, double value, double limit, int at_most, const char *unit);
int promises_broken(void);
