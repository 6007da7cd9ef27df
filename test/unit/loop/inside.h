// A test whose body is a task, on a loop of its own that ends with it.
#pragma once

#include <unistd.h>

#include "base/clock.h"
#include "loop/task.h"
#include "tap.h"

#define INSIDE_SECONDS 120

#define TASK_TEST(fn, sentence)                                                                    \
	static void fn##_inside(void *arg);                                                        \
	TEST(fn, sentence)                                                                         \
	{                                                                                          \
		inside_run(fn##_inside);                                                           \
	}                                                                                          \
	static void fn##_inside(void *arg __attribute__((unused)))

static struct loop *inside_loop;
static void (*inside_body)(void *arg);

static inline int64_t inside_now(void)
{
	return loop_now(inside_loop);
}

static inline void inside_sleep(int64_t ms)
{
	err_free(task_sleep_until(inside_now() + ms));
}

// The body, then the end of every task that it left behind: each must end by itself.
static inline void inside_main(void *arg)
{
	inside_body(arg);
	for (int i = 0; task_count() > 1 && i < 500; i++)
		inside_sleep(10);
	if (task_count() > 1) {
		printf("# %u tasks never ended\n", task_count() - 1);
		tap_bad = true;
	}
	loop_stop(inside_loop);
}

static inline void inside_run(void (*body)(void *arg))
{
	CHECK_OK(loop_new(&inside_loop));
	inside_body = body;
	alarm(INSIDE_SECONDS); // a test that hangs is a test that failed
	task_start(inside_loop, "test", inside_main, NULL);
	loop_run(inside_loop);
	alarm(0);
	loop_free(inside_loop);
	inside_loop = NULL;
}
