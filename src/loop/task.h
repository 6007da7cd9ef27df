// Coroutines. A task is a function on a small stack of its own; when it waits, the loop runs
// others. There is one thread: between two waits nothing else runs, and after a wait any state may
// have changed.
//
// A wait of a cancelled task returns CANCELLED, once and for all; TRY and scope-bound cleanup
// unwind it. Cleanups never wait. Frames stay under 4 KiB. errno is lost at a wait.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "loop/loop.h"

struct task;

// Starts fn(arg) on a stack of its own, at the end of this turn. `name` is a literal for the log.
// The task frees itself when fn returns.
struct task *task_start(struct loop *loop, const char *name, void (*fn)(void *arg), void *arg);
struct task *task_current(void);     // NULL outside of any task
struct loop *task_loop(void);	     // of the current task
void task_cancel(struct task *task); // at its next wait, or in the current one
// Waits of the current task ignore cancellation: for work that must be finished.
void task_shield(bool on);

// The trace id of the current task's log lines, kept over waits. Borrowed until it is set again;
// NULL: none.
void task_trace(const char *trace);

// Waits. A deadline is loop time in ms (CLOCK_NEVER: none). TIMEOUT when it passes.
fallible task_sleep_until(int64_t at_ms);
fallible task_wait_fd(int fd, uint32_t events, int64_t deadline, uint32_t *out_events);

// A condition variable for tasks. Embedded in the object that it is about. Every waiter is woken,
// checks its predicate again, and waits on if needed.
struct condition {
	struct link waiters;
};
void condition_init(struct condition *condition);
fallible condition_wait(struct condition *condition, int64_t deadline);
void condition_await(struct condition *condition);  // also in a task that is cancelled
void condition_signal(struct condition *condition); // from the loop's thread

// A wait without a task: the next signal defers `call`, once. Zero it first; embedded in its owner.
struct waiter {
	struct link link;
	struct task *task; // NULL: `call` is deferred
	struct loop *loop;
	struct deferred call;
};
void condition_call(struct condition *condition, struct loop *loop, struct waiter *waiter);
void waiter_drop(struct waiter *waiter); // harmless when it does not wait

uint32_t task_count(void); // alive now
void task_trim(void);	   // frees the stacks that this thread keeps

// The primitive of every wait. The caller records what it waits for, parks, and checks again: a
// wake-up may be early. Waking a task that is not parked does nothing.
fallible task_park(int64_t deadline); // TIMEOUT, CANCELLED
void task_park_firm(void);	      // until task_wake(); ignores cancellation
void task_wake(struct task *task);    // from the loop's thread
