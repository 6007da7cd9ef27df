// The kernel's counters of one sandbox, the parser of the cgroup files that have them, and a sample
// of them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define COUNTER_UNKNOWN UINT64_MAX

struct counters {
	uint64_t cgroup; // identity of the cgroup, unique since the boot; 0: there is none
	uint64_t cpu_us;
	uint64_t memory_charged, memory_working; // bytes; working: less inactive pages of files
	uint64_t pids;
	// Only in a full reading, else unknown.
	uint64_t throttled_us;
	uint64_t memory_peak, oom_kills;
	uint64_t read_bytes, write_bytes;
};

// Every counter unknown, no cgroup.
struct counters counters_unknown(void);

// "LABEL 123" on a line of its own; a text without label begins with the number. False: absent,
// malformed or out of range.
bool counters_number(struct str text, const char *label, uint64_t *out);
// Lines "8:0 rbytes=1 wbytes=2 …" of io.stat: the sums over all disks.
void counters_io(struct str text, uint64_t *out_read, uint64_t *out_written);
// Charged memory less the inactive pages of files, never below 0.
uint64_t counters_working(uint64_t charged, uint64_t inactive);

struct sample_network {
	uint64_t connections, requests, bytes_in, bytes_out, denied; // since the sandbox was made
};

struct sample {
	int64_t time_ms; // steady clock; 0: there is none yet
	// Counts the cgroups that the sandbox has had: the counters of another epoch begin at 0.
	uint64_t epoch;
	struct counters
		counters; // of a sandbox that does not run: the last ones, memory and pids 0
	struct sample_network network;
	uint64_t disk;		      // bytes; COUNTER_UNKNOWN
	uint64_t inodes, inodes_free; // of its disk; COUNTER_UNKNOWN: without a fixed number
	double cores;		      // CPUs in use over the last interval; negative: unknown
};
