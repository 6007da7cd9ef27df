// Output and state files of boxes are written, not synced, for that would cost each of them a wait
// for the disk. A thread syncs their file system TAPE_SYNC_MS after the first write since the last
// sync: what is older is there after a power cut.
#pragma once

#include "base/err.h"

#define TAPE_SYNC_MS 2000

// Starts the thread. `dir` is a directory of that file system, borrowed for good. Once a process.
fallible tape_sync_start(int dir);
// Something was written there. From any thread; before the start it does nothing.
void tape_sync_touch(void);
