#include "loop/offload.h"

#include <pthread.h>

#include "unit/loop/inside.h"

static int done;

struct work {
	pthread_t thread;
	int in, out;
};

static void slowly(void *arg)
{
	struct work *work = arg;

	usleep(20000);
	work->thread = pthread_self();
	work->out = work->in * 2;
}

static void quickly(void *arg)
{
	struct work *work = arg;

	work->out = work->in + 1;
}

static void ask(void *arg)
{
	struct work work = {.in = 21};

	(void)arg;
	offload_run(slowly, &work);
	CHECK(work.out == 42);
	CHECK(!pthread_equal(work.thread, pthread_self()));
	done++;
}

TASK_TEST(aside, "a call that blocks does not stop the others")
{
	int64_t before = clock_ms();

	CHECK_OK(offload_open(inside_loop, 4));
	done = 0;
	for (int i = 0; i < 8; i++)
		task_start(inside_loop, "ask", ask, NULL);
	CHECK_OK(task_sleep_until(inside_now() + 1));
	CHECK(clock_ms() - before < 1000);
	while (done < 8)
		inside_sleep(1);
	offload_close();
}

TASK_TEST(begun, "a call once begun is finished, though its task is cancelled")
{
	struct task *task;

	CHECK_OK(offload_open(inside_loop, 1));
	done = 0;
	task = task_start(inside_loop, "ask", ask, NULL);
	inside_sleep(2);
	task_cancel(task);
	while (done < 1)
		inside_sleep(1);
	offload_close();
}

TASK_TEST(closing, "a call that ends while the pool is closed comes back to its task")
{
	CHECK_OK(offload_open(inside_loop, 1));
	done = 0;
	for (int i = 0; i < 2; i++)
		task_start(inside_loop, "ask", ask, NULL);
	inside_sleep(2);
	offload_close();
	for (int i = 0; i < 1000 && done < 2; i++)
		inside_sleep(1);
	CHECK(done == 2);
}

// Until the pipe has a byte.
static void until_open(void *arg)
{
	char byte;

	CHECK(read(*(int *)arg, &byte, 1) == 1);
}

static void ask_apart(void *arg)
{
	offload_run_apart(until_open, arg);
	done++;
}

TASK_TEST(apart, "calls on threads of their own take no worker, and come back when they end")
{
	int gate[2];

	CHECK(pipe(gate) == 0);
	CHECK_OK(offload_open(inside_loop, 1));
	done = 0;
	for (int i = 0; i < 3; i++)
		task_start(inside_loop, "ask", ask_apart, &gate[0]);
	task_start(inside_loop, "ask", ask, NULL);
	while (done < 1)
		inside_sleep(1);
	CHECK(done == 1);
	CHECK(write(gate[1], "abc", 3) == 3);
	while (done < 4)
		inside_sleep(1);
	offload_close();
	close(gate[0]);
	close(gate[1]);
}

// Works until somebody else wants to, and tells how it was at first.
static void until_wanted(void *arg)
{
	struct work *work = arg;

	work->in = offload_is_wanted();
	while (!offload_is_wanted())
		usleep(100);
	work->out = 1;
}

static void ask_long(void *arg)
{
	offload_run(until_wanted, arg);
	done++;
}

TASK_TEST(wanted, "a worker that is at it for long sees that others wait")
{
	struct work work = {0};

	CHECK_OK(offload_open(inside_loop, 1));
	done = 0;
	task_start(inside_loop, "ask", ask_long, &work);
	inside_sleep(20);
	CHECK(done == 0);
	task_start(inside_loop, "ask", ask, NULL);
	while (done < 2)
		inside_sleep(1);
	CHECK(work.in == 0 && work.out == 1);
	CHECK(!offload_is_wanted());
	offload_close();
}

static void ask_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < 200; i++) {
		struct work work = {.in = i};

		offload_run(quickly, &work);
		CHECK(work.out == i + 1);
	}
	done++;
}

TASK_TEST(many, "ten thousand calls of fifty tasks all come back")
{
	CHECK_OK(offload_open(inside_loop, 3));
	done = 0;
	for (int i = 0; i < 50; i++)
		task_start(inside_loop, "ask", ask_often, NULL);
	while (task_count() > 1)
		inside_sleep(1);
	CHECK(done == 50);
	offload_close();
}

TEST(without, "without a pool the call is simply made")
{
	struct work work = {.in = 1};

	offload_run(quickly, &work);
	CHECK(work.out == 2);
}
