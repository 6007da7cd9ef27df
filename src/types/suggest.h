// Limits that past use suggests. No I/O.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SUGGEST_SAMPLES_MIN 20 // fewer say nothing

// What executions of one kind used of one resource.
struct suggest_use {
	uint64_t p50, p95, p99, peak;
};
// Sorts the samples; by nearest rank. `count` is at least 1.
struct suggest_use suggest_look(uint64_t *samples, size_t count);
// A limit above that use: a quarter more than p99, not below the peak, in steps, from `least` to
// `most` (0: no ceiling).
uint64_t suggest_limit(const struct suggest_use *use, uint64_t step, uint64_t least, uint64_t most);
