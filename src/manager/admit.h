// Host capacity: is there room for one more box? Limits are ceilings, not reservations: the check
// uses what the host has free, less a small reserve for each box under construction.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct admit;

// Opens the files of /proc and reads the host's size. Call it before the process is confined.
fallible admit_open(struct admit **out);
void admit_close(struct admit *admit);

uint64_t admit_memory(const struct admit *admit); // bytes of the host
uint32_t admit_cpu_milli(const struct admit *admit);
uint64_t admit_disk(const struct admit *admit); // bytes, used or not; 0: not known

// Includes the file system of `dir` in the checks from now on. Borrowed.
void admit_watch_disk(struct admit *admit, int dir);

// EXHAUSTED host_memory, host_pids, host_files, daemon_files; NO_SPACE host_disk. UNAVAILABLE
// capacity_unknown: the disk could not be measured. Does not wait.
fallible admit_ask(struct admit *admit, int64_t now_ms);

// The same for one more command in a box that already runs `own`: EXHAUSTED daemon_files. A box may
// have a quarter as many commands as there is room for, and always EXECS_FREE. Does not wait.
fallible admit_exec(struct admit *admit, int64_t now_ms, uint32_t own);

// The same for a running box that is to be adopted. Adoption needs less than a create, so that
// every admitted box can be adopted. `owed`: descriptors that adopted boxes have yet to open.
// EXHAUSTED daemon_files. Does not wait.
fallible admit_adopt(struct admit *admit, int64_t now_ms, uint64_t owed);

// Descriptors were closed: the next check counts them again.
void admit_recount(struct admit *admit);

// Free capacity of the host, for GET /v1/health.
struct admit_view {
	uint64_t memory_free, memory_mark; // bytes; creates are refused below the mark
	uint64_t tasks, tasks_max;
	uint64_t files, files_max;
	uint64_t host_files, host_files_max; // fs.file-nr, fs.file-max; 0, 0: not known
	uint64_t disk_free, disk_mark;	     // bytes
	uint64_t inodes_free, inodes_mark;   // 0, 0: the file system has no inode limit
	bool disk_unknown;		     // the disk could not be measured
};
struct admit_view admit_look(struct admit *admit, int64_t now_ms);
