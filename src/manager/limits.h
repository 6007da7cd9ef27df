// Other limits for an existing sandbox. The wanted limits are durable in its record (`next`) before
// the warden is asked, and those in force before the client is told. What a crash or a lost warden
// leaves open is settled by the next change, or by the janitor.
#pragma once

#include "manager/table.h"

struct sweep_round;

// Reads {memoryMB, cpus, pids, diskMB, ioMBps, outputMB, keptOutputMB, cpuTimeMs, wallTimeMs} and
// puts all of it in force, or nothing. CONFLICT below_use, running; EXHAUSTED quota, host_memory,
// …; INVALID bad_field, unknown_field, no_disk_limit, no_io_limit. Waits; the caller holds a
// reference.
fallible limits_change(struct entry *entry, const struct json *object);
// Settles changes that are open, as a part of the janitor's round. `arg`: struct manager.
fallible limits_sweep(void *arg, struct sweep_round *round);
