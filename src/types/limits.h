// What a box may use. Zero means "no limit" only for the fields that say so.
#pragma once

#include <stdint.h>

#define TEMPLATE_NAME_MAX 64 // with its NUL

struct limits {
	uint64_t memory;    // bytes
	uint32_t cpu_milli; // 1000 is one core
	uint32_t pids;
	uint64_t disk;	       // bytes; 0: the host cannot bound it, and said so
	uint64_t inodes;       // 0: bounded by the disk alone
	uint64_t output;       // bytes of output kept per exec
	uint64_t kept_output;  // bytes of output kept of all execs; 0: see limits_kept_output()
	uint64_t io;	       // bytes a second read from the disk, and as many written; 0: none
	uint64_t cpu_time_ms;  // per exec; 0: none
	uint64_t wall_time_ms; // per exec; 0: none
};

#define LIMITS_DEFAULT                                                                             \
	((struct limits){.memory = 512ull << 20,                                                   \
			 .cpu_milli = 1000,                                                        \
			 .pids = 256,                                                              \
			 .disk = 2ull << 30,                                                       \
			 .output = 64ull << 20})

// Bytes of output that a box keeps: what was asked for, else a quarter of its disk, and room for
// one exec at least.
static inline uint64_t limits_kept_output(const struct limits *limits)
{
	uint64_t part = limits->disk / 4;

	if (limits->kept_output)
		return limits->kept_output;
	return part > limits->output ? part : limits->output;
}
