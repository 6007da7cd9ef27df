// Worker threads for blocking calls: file systems, name lookups, large hashes. A worker sees only
// `arg`.
#pragma once

#include "loop/task.h"

// Starts `threads` workers. One pool per process.
fallible offload_open(struct loop *loop, int threads);
// Waits until pending calls have ended; their tasks continue in the next turn.
void offload_close(void);

// Runs fn(arg) on a worker while the current task waits. Not cancelled once begun: arg may be on
// the task's stack. fn must not touch the loop.
void offload_run(void (*fn)(void *arg), void *arg);

// The same on a thread of its own: a call that may never return takes no worker from others. The
// caller bounds their number. offload_close() waits for it, too.
void offload_run_apart(void (*fn)(void *arg), void *arg);

// True if a call waits for a worker: a long one should make room.
bool offload_is_wanted(void);
