// The event loop. One thread runs one loop: epoll, timers, and deferred calls at the end of the
// turn. Callbacks stay one level deep and never block; workflows are tasks (loop/task.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"

struct loop;

fallible loop_new(struct loop **out);
void loop_free(struct loop *loop);
void loop_run(struct loop *loop); // until loop_stop
void loop_stop(struct loop *loop);
int64_t loop_now(const struct loop *loop); // monotonic ms, read once a turn

// A watched fd. Embedded in its owner; zero it first. `events` are EPOLLIN, EPOLLOUT …
struct watch {
	int fd;
	uint32_t events; // 0: not watched now
	void (*ready)(struct watch *watch, uint32_t events);
};
// Adds it or changes its events. NOT_OFFERED: regular files and /dev/null cannot be watched.
fallible loop_watch(struct loop *loop, struct watch *watch, uint32_t events);
void loop_unwatch(struct loop *loop, struct watch *watch); // before the fd is closed

struct timer {
	int64_t at; // 0: not set
	void (*due)(struct timer *timer);
	size_t slot;
};
void loop_set_timer(struct loop *loop, struct timer *timer, int64_t at_ms);
void loop_drop_timer(struct loop *loop, struct timer *timer); // harmless when not set

// Runs at the end of this turn, or in the next one.
struct deferred {
	void (*run)(struct deferred *deferred);
	struct link link;
};
void loop_defer(struct loop *loop, struct deferred *deferred);

// Callable from any thread or signal handler: the loop runs `wake` once, soon.
void loop_poke(struct loop *loop);
void loop_on_poke(struct loop *loop, void (*wake)(void *arg), void *arg);

struct loop_stats {
	uint64_t turns;
	uint64_t slow_turns; // longer than 10 ms
	int64_t slowest_us;
};
struct loop_stats loop_stats(const struct loop *loop);
// Called after a slow turn. It must not wait.
void loop_on_slow(struct loop *loop, void (*slow)(double seconds));
