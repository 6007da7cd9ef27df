// Room for one more box? Limits are ceilings, not reservations: what counts is what the host has
// left, less a small reserve for each box that is on its way.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct admit;

// Opens the kernel's accounts and reads the host's size. Call it before the process is confined.
fallible admit_open(struct admit **out);
void admit_close(struct admit *admit);

uint64_t admit_memory(const struct admit *admit); // bytes of the host
uint32_t admit_cpu_milli(const struct admit *admit);
uint64_t admit_disk(const struct admit *admit); // bytes, used or not; 0: not known

// Its file system is counted too, from then on. Borrowed.
void admit_watch_disk(struct admit *admit, int dir);

// EXHAUSTED host_memory, host_pids, host_files, daemon_files; NO_SPACE host_disk: with what is
// short. UNAVAILABLE capacity_unknown: the disk could not be measured, which proves nothing. Does
// not wait.
fallible admit_ask(struct admit *admit, int64_t now_ms);

// The same for one more command in a box that runs `own` already: EXHAUSTED daemon_files. A box may
// have a quarter as much as is left for all, and always a few. Does not wait.
fallible admit_exec(struct admit *admit, int64_t now_ms, uint32_t own);

// The same for a box that runs and is to be taken up: it needs less, so that whatever was admitted
// can be. EXHAUSTED daemon_files. Does not wait.
fallible admit_adopt(struct admit *admit, int64_t now_ms);

// Descriptors were closed: the next question counts them anew.
void admit_recount(struct admit *admit);

// What the host has left, for GET /v1/health.
struct admit_view {
	uint64_t memory_free, memory_mark; // bytes; creates are refused below the mark
	uint64_t tasks, tasks_max;
	uint64_t files, files_max;
	uint64_t host_files, host_files_max; // fs.file-nr, fs.file-max; 0, 0: not known
	uint64_t disk_free, disk_mark;	     // bytes
	uint64_t inodes_free, inodes_mark;   // 0, 0: the file system has no such bound
	bool disk_unknown;		     // it could not be measured
};
struct admit_view admit_look(struct admit *admit, int64_t now_ms);
