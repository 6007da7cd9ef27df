// A task is its stack: one mapping with a guard page below and struct task at its top. It runs when
// the loop resumes it from the list of deferred calls, and returns control by parking. So switches
// go loop -> task -> loop, never from task to task, and a wake-up is an entry in that list: from a
// watch, a timer, another task or a cancellation; the first one counts. A bounded number of stacks
// is kept for reuse with their pages, because the hot path must not take page faults. Sanitizers
// are told of every switch.
//
// syscalls: mmap munmap mprotect
#include "loop/task.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "loop/switch.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TASK_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define TASK_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define TASK_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define TASK_TSAN 1
#endif

#ifdef TASK_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TASK_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#if defined(TASK_ASAN) || defined(TASK_TSAN)
#define STACK_SIZE (256 * 1024)
#else
#define STACK_SIZE (64 * 1024)
#endif
#define SPARE_MAX 64
#define MAP_TRIES 2

enum why { WHY_WOKEN, WHY_LATE, WHY_CANCELLED };

struct task {
	struct loop *loop;
	const char *name;
	void (*fn)(void *arg);
	void *arg;
	void *sp;
	char *base; // of the mapping: the guard page
	struct task *next_spare;
	struct deferred resume;
	struct timer timer;
	const char *trace; // of log lines; NULL: none
	enum why why;	   // of the last wake-up
	bool parked, firm; // firm: only task_wake() ends this wait
	bool cancelled, shielded, done;
#ifdef TASK_ASAN
	void *fake_stack;
#endif
#ifdef TASK_TSAN
	void *fiber;
#endif
};

// Of the loop's thread; a task never moves to another thread.
static _Thread_local struct {
	struct task *current, *spare;
	unsigned spare_count;
	uint32_t alive;
	void *loop_sp;
#ifdef TASK_ASAN
	void *loop_fake_stack;
	const void *loop_stack;
	size_t loop_stack_size;
#endif
#ifdef TASK_TSAN
	void *loop_fiber;
#endif
} here;

static void task_enter(struct task *task)
{
#ifdef TASK_ASAN
	__sanitizer_start_switch_fiber(&here.loop_fake_stack,
				       (char *)task + sizeof(*task) - STACK_SIZE, STACK_SIZE);
#endif
#ifdef TASK_TSAN
	here.loop_fiber = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(task->fiber, 0);
#endif
	switch_to(&here.loop_sp, task->sp);
#ifdef TASK_ASAN
	__sanitizer_finish_switch_fiber(here.loop_fake_stack, NULL, NULL);
#endif
}

// A task that is done never returns from here, and its fiber is reused: TSan must not count this
// call, nor task_entry(), as frames.
#define frameless __attribute__((no_sanitize("thread")))

static frameless void task_leave(struct task *task)
{
#ifdef TASK_ASAN
	// NULL: this stack is done, drop its frames.
	__sanitizer_start_switch_fiber(task->done ? NULL : &task->fake_stack, here.loop_stack,
				       here.loop_stack_size);
#endif
#ifdef TASK_TSAN
	__tsan_switch_to_fiber(here.loop_fiber, 0);
#endif
	switch_to(&task->sp, here.loop_sp);
#ifdef TASK_ASAN
	__sanitizer_finish_switch_fiber(task->fake_stack, &here.loop_stack, &here.loop_stack_size);
#endif
}

static frameless void task_entry(void)
{
	struct task *task = here.current;

#ifdef TASK_ASAN
	__sanitizer_finish_switch_fiber(NULL, &here.loop_stack, &here.loop_stack_size);
#endif
	task->fn(task->arg);
	task->done = true;
	task_leave(task);
	abort(); // a task that is done is never resumed
}

static struct task *stack_new(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *base = MAP_FAILED;
	struct task *task;

	for (int i = 0; i < MAP_TRIES && base == MAP_FAILED; i++)
		base = mmap(NULL, page + STACK_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	// As for any allocation: out of memory aborts.
	if (base == MAP_FAILED || mprotect(base, page, PROT_NONE) != 0) {
		perror("cove: no memory for a task");
		abort();
	}
	task = (struct task *)(base + page + STACK_SIZE - sizeof(struct task));
	task->base = base;
	return task;
}

static struct task *stack_take(void)
{
	struct task *task = here.spare, kept = {0};

	if (!task)
		return stack_new();
	here.spare = task->next_spare;
	here.spare_count--;
	kept.base = task->base;
#ifdef TASK_TSAN
	kept.fiber = task->fiber; // TSan has few of them
#endif
#ifdef TASK_ASAN
	ASAN_UNPOISON_MEMORY_REGION((char *)task + sizeof(*task) - STACK_SIZE, STACK_SIZE);
#endif
	*task = kept;
	return task;
}

static void stack_drop(struct task *task)
{
#ifdef TASK_TSAN
	__tsan_destroy_fiber(task->fiber);
#endif
	munmap(task->base, (size_t)((char *)(task + 1) - task->base));
}

static void stack_give(struct task *task)
{
	if (here.spare_count < SPARE_MAX) {
		task->next_spare = here.spare;
		here.spare = task;
		here.spare_count++;
	} else {
		stack_drop(task);
	}
}

static void task_resume(struct deferred *deferred)
{
	struct task *task = link_of(deferred, struct task, resume);

	assert(!here.current);
	here.current = task;
	if (task->trace)
		log_trace(task->trace);
	task_enter(task);
	here.current = NULL;
	if (task->trace)
		log_trace(NULL);
	if (task->done) {
		here.alive--;
		stack_give(task);
	}
}

static void unpark(struct task *task, enum why why)
{
	task->parked = false;
	task->why = why;
	loop_drop_timer(task->loop, &task->timer);
	loop_defer(task->loop, &task->resume);
}

static void on_deadline(struct timer *timer)
{
	unpark(link_of(timer, struct task, timer), WHY_LATE);
}

struct task *task_start(struct loop *loop, const char *name, void (*fn)(void *arg), void *arg)
{
	struct task *task = stack_take();

	task->loop = loop;
	task->name = name;
	task->fn = fn;
	task->arg = arg;
	task->trace = NULL;
	task->resume.run = task_resume;
	task->timer.due = on_deadline;
	task->sp = switch_prepare((void *)((uintptr_t)task & ~(uintptr_t)63), task_entry);
#ifdef TASK_TSAN
	if (!task->fiber)
		task->fiber = __tsan_create_fiber(0);
	__tsan_set_fiber_name(task->fiber, name);
#endif
	here.alive++;
	loop_defer(loop, &task->resume);
	return task;
}

struct task *task_current(void)
{
	return here.current;
}

struct loop *task_loop(void)
{
	assert(here.current);
	return here.current->loop;
}

void task_trace(const char *trace)
{
	here.current->trace = trace;
	log_trace(trace);
}

uint32_t task_count(void)
{
	return here.alive;
}

void task_trim(void)
{
	while (here.spare) {
		struct task *task = here.spare;

		here.spare = task->next_spare;
		here.spare_count--;
		stack_drop(task);
	}
}

void task_cancel(struct task *task)
{
	task->cancelled = true;
	if (task->parked && !task->firm && !task->shielded)
		unpark(task, WHY_CANCELLED);
}

void task_shield(bool on)
{
	if (here.current)
		here.current->shielded = on;
}

void task_wake(struct task *task)
{
	if (task->parked)
		unpark(task, WHY_WOKEN);
}

static enum why park(int64_t deadline, bool firm)
{
	struct task *task = here.current;

	assert(task && "a wait outside of any task");
	if (task->cancelled && !task->shielded && !firm)
		return WHY_CANCELLED;
	if (deadline != CLOCK_NEVER)
		loop_set_timer(task->loop, &task->timer, deadline);
	task->parked = true;
	task->firm = firm;
	task_leave(task);
	return task->why;
}

static fallible cancelled(void)
{
	return err_new(CANCELLED, "cancelled", "the work was cancelled");
}

fallible task_park(int64_t deadline)
{
	switch (park(deadline, false)) {
	case WHY_LATE:
		return err_new(TIMEOUT, "timeout", "it took too long");
	case WHY_CANCELLED:
		return cancelled();
	default:
		return OK;
	}
}

void task_park_firm(void)
{
	park(CLOCK_NEVER, true);
}

fallible task_sleep_until(int64_t at_ms)
{
	return park(at_ms, false) == WHY_CANCELLED ? cancelled() : OK;
}

struct fd_wait {
	struct watch watch;
	struct task *task;
	uint32_t events;
};

static void on_fd(struct watch *watch, uint32_t events)
{
	struct fd_wait *wait = link_of(watch, struct fd_wait, watch);

	wait->events |= events;
	task_wake(wait->task);
}

fallible task_wait_fd(int fd, uint32_t events, int64_t deadline, uint32_t *out_events)
{
	struct fd_wait wait = {.watch = {.fd = fd, .ready = on_fd}, .task = here.current};
	struct err *err;

	// ONESHOT: no second event between the wake-up and our running.
	TRY(loop_watch(here.current->loop, &wait.watch, events | EPOLLONESHOT));
	err = task_park(deadline);
	loop_unwatch(here.current->loop, &wait.watch);
	TRY(err, "wait for fd %d", fd);
	*out_events = wait.events;
	return OK;
}

void condition_init(struct condition *condition)
{
	link_init(&condition->waiters);
}

fallible condition_wait(struct condition *condition, int64_t deadline)
{
	struct waiter waiter = {.task = here.current};
	struct err *err;

	link_add(&condition->waiters, &waiter.link);
	err = task_park(deadline);
	link_drop(&waiter.link);
	return err;
}

void condition_await(struct condition *condition)
{
	struct waiter waiter = {.task = here.current};

	link_add(&condition->waiters, &waiter.link);
	task_park_firm();
	link_drop(&waiter.link);
}

void condition_signal(struct condition *condition)
{
	// Each waiter is removed here, not when it runs: by then the condition may be freed.
	while (!link_empty(&condition->waiters)) {
		struct waiter *waiter = link_of(condition->waiters.next, struct waiter, link);

		link_drop(&waiter->link);
		if (waiter->task)
			task_wake(waiter->task);
		else
			loop_defer(waiter->loop, &waiter->call);
	}
}

void condition_call(struct condition *condition, struct loop *loop, struct waiter *waiter)
{
	waiter->loop = loop;
	link_add(&condition->waiters, &waiter->link);
}

void waiter_drop(struct waiter *waiter)
{
	link_drop(&waiter->link);
	link_drop(&waiter->call.link);
}
