// Limits of a box. A limit is one row of LIMITS_FIELDS: the struct, the API's decoder and encoder,
// the order to the warden, the stored record, libcove and the command line come from the rows.
#pragma once

#include <stdint.h>

#define TEMPLATE_NAME_MAX 64 // with its NUL
#define LIMITS_MIB (1ull << 20)
#define LIMITS_AGES (1ull << 42)    // ms: larger than any sensible value
#define LIMITS_HOST 0		    // the host or another limit bounds it: limit_max() of spec.c
#define LIMITS_MAX (INT64_MAX >> 1) // of any field

// The API counts in `unit`s of the field; `least` and `most` are in these units. An absent limit
// has its default, and 0 means none. The client's struct cove_box_spec has `client`, the command
// line OPT_`option`, which it reads by body_`reads`() of cli/body.c.
// clang-format off
//	  field         key             unit        least  most         stored       client          option       reads  example
#define LIMITS_FIELDS(F) \
	F(memory,       "memoryMB",     LIMITS_MIB, 16,    LIMITS_HOST, "memory",     memory_mb,      MEMORY,      mib,   "512m") \
	F(cpu_milli,    "cpus",         1,          50,    LIMITS_HOST, "cpu",        cpus,           CPUS,        cpus,  "0.5") \
	F(pids,         "pids",         1,          8,     32768,       "pids",       pids,           PIDS,        count, "256") \
	F(disk,         "diskMB",       LIMITS_MIB, 16,    1 << 24,     "disk",       disk_mb,        DISK,        mib,   "2g") \
	F(inodes,       "inodes",       1,          64,    UINT32_MAX,  "inodes",     inodes,         INODES,      count, "131072") \
	F(output,       "outputMB",     LIMITS_MIB, 1,     LIMITS_HOST, "output",     output_mb,      OUTPUT,      mib,   "64m") \
	F(kept_output,  "keptOutputMB", LIMITS_MIB, 1,     LIMITS_HOST, "keptOutput", kept_output_mb, KEPT_OUTPUT, mib,   "512m") \
	F(io,           "ioMBps",       LIMITS_MIB, 1,     1 << 20,     "io",         io_mbps,        IO,          mib,   "20m") \
	F(cpu_time_ms,  "cpuTimeMs",    1,          1,     LIMITS_AGES, "cpuTime",    cpu_time_ms,    CPU_TIME,    ms,    "30s") \
	F(wall_time_ms, "wallTimeMs",   1,          1,     LIMITS_AGES, "wallTime",   wall_time_ms,   TIMEOUT,     ms,    "30s")
// clang-format on

// memory, disk, output, kept_output: bytes. cpu_milli: 1000 is one core; the API's `cpus` is a
// fraction. output: of one exec, kept_output: of all (0: see limits_kept_output()). io: bytes a
// second read from the disk, and as many written. cpu_time_ms, wall_time_ms: of each exec. disk 0:
// the host cannot limit it. inodes 0: bounded by the disk alone.
struct limits {
#define F(field, ...) uint64_t field;
	LIMITS_FIELDS(F)
#undef F
};

enum limit {
#define F(field, key, unit, least, most, stored, client, option, ...) LIMIT_##option,
	LIMITS_FIELDS(F)
#undef F
		LIMIT_COUNT
};

struct limit_row {
	const char *key, *stored; // in the API, in the store
	uint64_t unit, least, most;
};
extern const struct limit_row limit_rows[LIMIT_COUNT];

uint64_t *limit_at(struct limits *limits, enum limit limit);
uint64_t limit_of(const struct limits *limits, enum limit limit);

#define LIMITS_DEFAULT                                                                             \
	((struct limits){.memory = 512ull << 20,                                                   \
			 .cpu_milli = 1000,                                                        \
			 .pids = 256,                                                              \
			 .disk = 2ull << 30,                                                       \
			 .output = 64ull << 20})

// Bytes of output that a box keeps: what was asked for, else a quarter of its disk, and room for
// one exec at least.
uint64_t limits_kept_output(const struct limits *limits);
