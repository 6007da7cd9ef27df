// The process that syncs the files of boxes every DISK_SYNC_MS. After a power cut everything older
// is there (docs/SPECIFICATION.md, "After a power cut").
#pragma once

#include "base/err.h"

#define DISK_SYNC_MS 2000

struct disk_sync;

// `pool`: a directory of the file system that all disks share; -1: there is none. `boxes`:
// DATA/boxes. The caller keeps both open until disk_sync_stop().
struct disk_sync *disk_sync_new(int pool, int boxes);
// Forks the process if it is not running. Call it after start, and periodically.
void disk_sync_keep(struct disk_sync *sync);
// A child ended: true if it was this one.
bool disk_sync_reaped(struct disk_sync *sync, int pid);
void disk_sync_stop(struct disk_sync *sync); // NULL: nothing
