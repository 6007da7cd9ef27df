// One turn: wait in epoll until the first timer, call the watches, fire timers that are due, then
// run deferred calls. Invariants: an unwatched fd is not reported, even if its event is in the
// current batch, because loop_unwatch() removes it from the batch: its owner may free it at once. A
// call that is deferred during the last step still runs in this turn, but only for a few rounds: an
// endless chain must not starve epoll.
//
// syscalls: epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd2 read write close clock_gettime
#include "loop/loop.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/mem.h"
#include "os/fd.h"

#define BATCH 64
#define ROUNDS 8
#define SLOW_US 10000
#define POKES_MAX 8

struct poke {
	void (*wake)(void *arg);
	void *arg;
};

struct loop {
	int epoll;
	bool stop;
	int64_t now;

	struct epoll_event batch[BATCH];
	int batch_at, batch_len; // events not yet handled: [at, len)

	struct timer **heap; // heap[0] is due first; heap[i]->slot == i
	size_t heap_len, heap_room;

	struct link laters;
	struct watch poke_watch;
	atomic_bool poked; // a poke is under way: no need for another
	struct poke pokes[POKES_MAX];
	int poke_count;
	struct loop_stats stats;
	void (*slow)(double seconds);
};

fallible loop_watch(struct loop *loop, struct watch *watch, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};
	int op = watch->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	assert(events != 0);
	if (watch->events == events)
		return OK;
	if (epoll_ctl(loop->epoll, op, watch->fd, &event) != 0)
		return errno == EPERM ? err_new(NOT_OFFERED, "always_ready", "it never waits")
				      : err_sys(errno, "watch fd %d", watch->fd);
	watch->events = events;
	return OK;
}

void loop_unwatch(struct loop *loop, struct watch *watch)
{
	if (!watch->events)
		return;
	epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
	watch->events = 0;
	for (int i = loop->batch_at; i < loop->batch_len; i++)
		if (loop->batch[i].data.ptr == watch)
			loop->batch[i].data.ptr = NULL;
}

static void heap_put(struct loop *loop, size_t slot, struct timer *timer)
{
	loop->heap[slot] = timer;
	timer->slot = slot;
}

static void heap_up(struct loop *loop, size_t slot, struct timer *timer)
{
	while (slot > 0 && loop->heap[(slot - 1) / 2]->at > timer->at) {
		heap_put(loop, slot, loop->heap[(slot - 1) / 2]);
		slot = (slot - 1) / 2;
	}
	heap_put(loop, slot, timer);
}

static void heap_down(struct loop *loop, size_t slot, struct timer *timer)
{
	for (;;) {
		size_t child = 2 * slot + 1;

		if (child >= loop->heap_len)
			break;
		if (child + 1 < loop->heap_len && loop->heap[child + 1]->at < loop->heap[child]->at)
			child++;
		if (loop->heap[child]->at >= timer->at)
			break;
		heap_put(loop, slot, loop->heap[child]);
		slot = child;
	}
	heap_put(loop, slot, timer);
}

void loop_set_timer(struct loop *loop, struct timer *timer, int64_t at_ms)
{
	loop_drop_timer(loop, timer);
	if (loop->heap_len == loop->heap_room) {
		loop->heap_room = loop->heap_room ? loop->heap_room * 2 : 64;
		loop->heap = mem_grow(loop->heap, loop->heap_room, sizeof(struct timer *));
	}
	timer->at = at_ms > 0 ? at_ms : 1; // 0 means: not set
	heap_up(loop, loop->heap_len++, timer);
}

void loop_drop_timer(struct loop *loop, struct timer *timer)
{
	struct timer *last;
	size_t slot = timer->slot;

	if (!timer->at)
		return;
	assert(slot < loop->heap_len && loop->heap[slot] == timer);
	timer->at = 0;
	last = loop->heap[--loop->heap_len];
	if (last == timer)
		return;
	if (slot > 0 && loop->heap[(slot - 1) / 2]->at > last->at)
		heap_up(loop, slot, last);
	else
		heap_down(loop, slot, last);
}

void loop_defer(struct loop *loop, struct deferred *deferred)
{
	link_drop(&deferred->link);
	link_add(&loop->laters, &deferred->link);
}

void loop_poke(struct loop *loop)
{
	int saved = errno;

	// Async-signal-safe.
	if (!atomic_exchange(&loop->poked, true))
		fd_wake(loop->poke_watch.fd);
	errno = saved;
}

void loop_on_poke(struct loop *loop, void (*wake)(void *arg), void *arg)
{
	for (int i = 0; i < loop->poke_count; i++)
		if (loop->pokes[i].wake == wake && loop->pokes[i].arg == arg)
			return;
	assert(loop->poke_count < POKES_MAX);
	loop->pokes[loop->poke_count++] = (struct poke){wake, arg};
}

static void loop_take_poke(struct watch *watch, uint32_t events)
{
	struct loop *loop = link_of(watch, struct loop, poke_watch);
	uint64_t count;

	(void)events;
	if (read(watch->fd, &count, sizeof(count)) < 0 && errno == EAGAIN)
		return;
	// Cleared before the handlers run: a poke in between writes again.
	atomic_store(&loop->poked, false);
	for (int i = 0; i < loop->poke_count; i++)
		loop->pokes[i].wake(loop->pokes[i].arg);
}

static void tell_watches(struct loop *loop)
{
	while (loop->batch_at < loop->batch_len) {
		struct epoll_event *event = &loop->batch[loop->batch_at++];
		struct watch *watch = event->data.ptr;

		if (watch)
			watch->ready(watch, event->events);
	}
}

static void ring_timers(struct loop *loop)
{
	// Counted beforehand: a timer that sets itself for now fires in the next turn.
	for (size_t n = loop->heap_len; n > 0 && loop->heap_len > 0; n--) {
		struct timer *timer = loop->heap[0];

		if (timer->at > loop->now)
			break;
		loop_drop_timer(loop, timer);
		timer->due(timer);
	}
}

// A marker is appended to the list; the round ends when it reaches the front. So owners may remove
// their calls at any moment.
static void run_laters(struct loop *loop)
{
	for (int round = 0; round < ROUNDS && !link_empty(&loop->laters); round++) {
		struct link mark = {NULL, NULL};

		link_add(&loop->laters, &mark);
		while (loop->laters.next != &mark) {
			struct link *item = loop->laters.next;
			struct deferred *deferred = link_of(item, struct deferred, link);

			link_drop(item);
			deferred->run(deferred);
		}
		link_drop(&mark);
	}
}

static int sleep_ms(const struct loop *loop, int64_t now)
{
	if (!link_empty(&loop->laters))
		return 0;
	if (loop->heap_len == 0)
		return -1;
	if (loop->heap[0]->at <= now)
		return 0;
	return loop->heap[0]->at - now < INT32_MAX ? (int)(loop->heap[0]->at - now) : INT32_MAX;
}

void loop_run(struct loop *loop)
{
	int64_t end = clock_us();

	while (!loop->stop) {
		int n = epoll_wait(loop->epoll, loop->batch, BATCH, sleep_ms(loop, end / 1000));
		int64_t begin = clock_us();

		loop->now = begin / 1000;
		loop->batch_at = 0;
		loop->batch_len = n > 0 ? n : 0;
		tell_watches(loop);
		ring_timers(loop);
		run_laters(loop);

		end = clock_us();
		loop->stats.turns++;
		loop->stats.slow_turns += end - begin > SLOW_US;
		if (end - begin > SLOW_US && loop->slow)
			loop->slow((double)(end - begin) / 1e6);
		if (end - begin > loop->stats.slowest_us)
			loop->stats.slowest_us = end - begin;
	}
	loop->stop = false;
}

void loop_on_slow(struct loop *loop, void (*slow)(double seconds))
{
	loop->slow = slow;
}

void loop_stop(struct loop *loop)
{
	loop->stop = true;
}

int64_t loop_now(const struct loop *loop)
{
	return loop->now;
}

struct loop_stats loop_stats(const struct loop *loop)
{
	return loop->stats;
}

fallible loop_new(struct loop **out)
{
	auto_fd epoll = epoll_create1(EPOLL_CLOEXEC);
	auto_fd poke = -1;
	auto_free struct loop *loop = NULL;

	if (epoll < 0)
		return err_sys(errno, "make an epoll");
	poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (poke < 0)
		return err_sys(errno, "make an eventfd");
	loop = mem_new_of(struct loop);
	loop->epoll = epoll;
	loop->now = clock_us() / 1000;
	link_init(&loop->laters);
	loop->poke_watch = (struct watch){.fd = poke, .ready = loop_take_poke};
	TRY(loop_watch(loop, &loop->poke_watch, EPOLLIN), "watch for pokes");
	take_fd(&epoll);
	take_fd(&poke);
	*out = take_ptr(loop);
	return OK;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	close(loop->poke_watch.fd);
	close(loop->epoll);
	free(loop->heap);
	free(loop);
}
