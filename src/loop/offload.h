// Threads for calls that block: file systems, name lookups, big hashes. The thread sees only `arg`.
#pragma once

#include "loop/task.h"

// Starts `threads` workers. One pool a process.
fallible offload_open(struct loop *loop, int threads);
// Waits until the calls that were asked for have ended; their tasks go on in the next turn.
void offload_close(void);

// Runs fn(arg) on a worker while the current task waits. Not cancelled once begun: arg may live on
// the task's stack. fn must not touch the loop.
void offload_run(void (*fn)(void *arg), void *arg);

// Somebody waits for a worker: one that has worked for long might make room.
bool offload_is_wanted(void);
