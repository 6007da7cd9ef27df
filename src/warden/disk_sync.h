// The process that writes the files of boxes out, every DISK_SYNC_MS, whether they ask for that or
// not: after a power cut whatever was older is there (docs/SPECIFICATION.md, "After a power cut").
#pragma once

#include "base/err.h"

#define DISK_SYNC_MS 2000

struct disk_sync;

// `pool`: a directory of the file system that all disks share; -1: there is none. `boxes`:
// DATA/boxes. Both stay the caller's, and open until disk_sync_stop().
struct disk_sync *disk_sync_new(int pool, int boxes);
// Forks the process if it does not run. Call it after start, and now and then.
void disk_sync_keep(struct disk_sync *sync);
// A child ended: true when it was this one.
bool disk_sync_reaped(struct disk_sync *sync, int pid);
void disk_sync_stop(struct disk_sync *sync); // NULL: nothing
