// Output and state files are written without fsync, which would cost each a wait for the disk. A
// thread calls syncfs() TAPE_SYNC_MS after the first write since the last sync: older data survives
// a power cut.
#pragma once

#include "base/err.h"

#define TAPE_SYNC_MS 2000

// Starts the thread. `dir` is a directory of that file system, borrowed for good. Once per process.
fallible tape_sync_start(int dir);
// Reports a write. From any thread; before the start it does nothing.
void tape_sync_touch(void);
