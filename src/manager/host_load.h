// The load of the host and of this process: CPU time in use, load average, memory of the daemon.
#pragma once

#include "base/err.h"

struct host_load;

// Opens the files of /proc: call it before the process is confined.
fallible host_load_open(struct host_load **out);

struct host_load_view {
	double cores_used, cores_daemon; // over the last interval; negative: unknown
	double load1;
	uint64_t daemon_memory; // bytes, resident
};
// Rates are those of the last interval of HOST_LOAD_MS or more. Does not wait.
#define HOST_LOAD_MS 1000
struct host_load_view host_load_look(struct host_load *load, int64_t now_us);
