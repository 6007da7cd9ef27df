// Profiles of executions: limits of the whole execution with the operator's ceilings, and what runs
// by default. An agent type is the profile of that name. Five are built in, and `default`, which
// executions without a profile have. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"
#include "types/env_map.h"
#include "types/limits.h"

#define PROFILE_NAME_MAX 63
#define PROFILE_DEFAULT "default"

// A limit is one row. The request counts in units of `unit`, the configuration of `setting_unit`.
// 0: not limited.
// clang-format off
//	  field             key                unit        setting             unit        least  most         default           what
#define PROFILE_LIMITS(F) \
	F(memory,           "memoryMB",        LIMITS_MIB, "memory_mb",        LIMITS_MIB, 16,    1 << 22,     512 * LIMITS_MIB, "MiB of memory") \
	F(cpu_time_ms,      "cpuTimeMs",       1,          "cpu_time_s",       1000,       1,     LIMITS_AGES, 60000,            "seconds of CPU time of everything in it") \
	F(wall_time_ms,     "wallTimeMs",      1,          "wall_time_s",      1000,       1,     LIMITS_AGES, 600000,           "seconds from the first `ready` to the end, retries included") \
	F(network_requests, "networkRequests", 1,          "network_requests", 1,          0,     1ull << 40,  20,               "requests to other hosts") \
	F(storage,          "storageMB",       LIMITS_MIB, "storage_mb",       LIMITS_MIB, 16,    1 << 24,     200 * LIMITS_MIB, "MiB of its disk, and of artifacts") \
	F(cpu_milli,        "cpus",            1000,       "cpus",             1000,       1,     4096,        1000,             "CPUs, a fraction too") \
	F(pids,             "pids",            1,          "pids",             1,          8,     32768,       256,              "processes and threads")
// clang-format on
struct profile_limits {
#define F(field, ...) uint64_t field;
	PROFILE_LIMITS(F)
#undef F
};

struct profile {
	char name[PROFILE_NAME_MAX + 1];
	struct profile_limits limits;
	struct profile_limits max;	  // what a request may ask for; 0: the profile's own value
	bool open;			  // a request may ask for what the host has
	char template[TEMPLATE_NAME_MAX]; // "": the tenant's default
	char *image;			  // pulled by name, instead of a template; NULL: none
	char **argv;			  // NULL: none; NULL-ended, as the lists below
	char **secrets, **allow, **artifacts;
};

struct profiles {
	struct profile *at;
	size_t count;
};

// The built-in ones, changed and joined by the sections "[profile NAME]" of `sections`, a text of
// lines "[SECTION]" and "KEY = VALUE"; other sections are left out. INVALID bad_config. The caller
// owns *out.
fallible profiles_read(struct str sections, struct profiles *out);
void profiles_done(struct profiles *profiles);
#define auto_profiles on_exit_call(profiles_done) struct profiles
const struct profile *profiles_find(const struct profiles *profiles, struct str name); // NULL: none

// The settings of a section with a limit, for the document; false: no more.
bool profile_setting(size_t at, const char **out_name, const char **out_what);

// Reads the `limits` of a request into *out, which begins as the profile's. INVALID bad_field,
// unknown_field, above_ceiling.
fallible profile_read_limits(const struct profile *profile, const struct json *object,
			     struct profile_limits *out);
// {memoryMB, cpuTimeMs, …}
void profile_write_limits(struct json_out *out, const struct profile_limits *limits);
// What profile_write_limits() has written. False: malformed.
bool profile_load_limits(const struct json *object, struct profile_limits *out);
