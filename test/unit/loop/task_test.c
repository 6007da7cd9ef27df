#include "loop/task.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "unit/loop/inside.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

#ifdef __SANITIZE_THREAD__
#define TASKS_MAX 200 // TSan has room for the histories of few fibers
#else
#define TASKS_MAX 1000
#endif

static int done;

// Integers and floats that live across waits, in whatever registers the compiler likes.
static void sum(void *arg)
{
	int seed = *(int *)arg;
	double a = seed, b = seed * 0.5, c = seed * 0.25, d = seed * 0.125;
	long i = seed, j = seed + 1, k = seed + 2, l = seed + 3, m = seed + 4;

	for (int step = 0; step < 10; step++) {
		inside_sleep(seed % 3);
		a += 1;
		b += a;
		c += b;
		d += c;
		i++;
		j += i;
		k += j;
		l += k;
		m += l;
	}
	CHECK(i == seed + 10);
	CHECK(j == seed + 1 + 10L * seed + 55);
	CHECK(fabs(a - (seed + 10)) < 1e-9);
	CHECK(fabs(b - (seed * 0.5 + 10.0 * seed + 55)) < 1e-6);
	CHECK(m > l && d > c);
	done++;
}

TASK_TEST(thousand, "a thousand tasks sleep and count side by side")
{
	static int seeds[1000];
	int count = TASKS_MAX;

	done = 0;
	for (int i = 0; i < count; i++) {
		seeds[i] = i;
		task_start(inside_loop, "sum", sum, &seeds[i]);
	}
	CHECK(task_count() == (uint32_t)count + 1);
	while (task_count() > 1)
		inside_sleep(1);
	CHECK(done == count);
}

TASK_TEST(nap, "a sleep lasts at least as long as it should, and not much longer")
{
	int64_t before = clock_ms();

	CHECK_OK(task_sleep_until(inside_now() + 30));
	CHECK(clock_ms() - before >= 29);
	CHECK(clock_ms() - before < 1000);
	before = clock_ms();
	CHECK_OK(task_sleep_until(0)); // in the past: one turn
	CHECK(clock_ms() - before < 1000);
}

static void cancelled(void *arg)
{
	struct condition condition;

	(void)arg;
	condition_init(&condition);
	CHECK_ERR(condition_wait(&condition, CLOCK_NEVER), CANCELLED);
	CHECK_ERR(task_sleep_until(inside_now() + 1), CANCELLED);
	task_shield(true);
	CHECK_OK(task_sleep_until(inside_now() + 1));
	task_shield(false);
	CHECK_ERR(condition_wait(&condition, CLOCK_NEVER), CANCELLED);
	done++;
}

static void shielded(void *arg)
{
	(void)arg;
	task_shield(true);
	CHECK_OK(task_sleep_until(inside_now() + 20));
	task_shield(false);
	CHECK_ERR(task_sleep_until(inside_now() + 20), CANCELLED);
	done++;
}

TASK_TEST(cancel, "a cancelled task's waits fail once and for all, unless it is shielded")
{
	struct task *a = task_start(inside_loop, "a", cancelled, NULL);
	struct task *b = task_start(inside_loop, "b", shielded, NULL);
	struct task *c = task_start(inside_loop, "c", cancelled, NULL);

	done = 0;
	task_cancel(c); // before it has begun
	inside_sleep(5);
	task_cancel(a);
	task_cancel(b);
	inside_sleep(50);
	CHECK(done == 3);
	CHECK(task_count() == 1);
}

static struct condition *condition;

static void wait_for_condition(void *arg)
{
	CHECK_OK(condition_wait(condition, CLOCK_NEVER));
	done++;
	if (arg)
		CHECK_ERR(condition_wait(arg, inside_now() + 10), TIMEOUT);
}

TASK_TEST(ring, "a bell wakes every waiter, and may be gone before they run")
{
	struct condition other;

	condition_init(&other);
	condition = mem_new_of(struct condition);
	condition_init(condition);
	condition_signal(condition);
	done = 0;
	for (int i = 0; i < 100; i++)
		task_start(inside_loop, "waiter", wait_for_condition, i % 2 ? &other : NULL);
	inside_sleep(5);
	CHECK(done == 0);
	condition_signal(condition);
	condition_signal(condition);
	memset(condition, 0xaa, sizeof(*condition));
	free(condition);
	inside_sleep(5);
	CHECK(done == 100);
	inside_sleep(30);
	CHECK(task_count() == 1);
	CHECK(link_empty(&other.waiters));
}

static void count_call(struct deferred *deferred)
{
	(void)deferred;
	done++;
}

TASK_TEST(call, "a call waits without a task: for one signal, and no more once it is dropped")
{
	struct condition bell;
	struct waiter waiters[3] = {0};

	condition_init(&bell);
	done = 0;
	for (int i = 0; i < 3; i++) {
		waiters[i].call.run = count_call;
		condition_call(&bell, inside_loop, &waiters[i]);
	}
	waiter_drop(&waiters[0]);
	condition_signal(&bell);
	waiter_drop(&waiters[1]); // its call is due
	CHECK(done == 0 && link_empty(&bell.waiters));
	inside_sleep(5);
	CHECK(done == 1);
	condition_signal(&bell);
	inside_sleep(5);
	CHECK(done == 1);
	condition_call(&bell, inside_loop, &waiters[2]);
	condition_signal(&bell);
	inside_sleep(5);
	CHECK(done == 2);
}

static void ping(void *arg)
{
	struct condition *bells = arg;

	for (int i = 0; i < 10000; i++) {
		CHECK_OK(condition_wait(&bells[0], CLOCK_NEVER));
		condition_signal(&bells[1]);
	}
	done = 1;
}

TASK_TEST(ping_pong, "two tasks hand a word back and forth ten thousand times")
{
	struct condition bells[2];

	done = 0;
	condition_init(&bells[0]);
	condition_init(&bells[1]);
	task_start(inside_loop, "ping", ping, bells);
	CHECK_OK(task_sleep_until(inside_now() + 1));
	for (int i = 0; i < 10000; i++) {
		condition_signal(&bells[0]);
		CHECK_OK(condition_wait(&bells[1], inside_now() + 5000));
	}
	inside_sleep(1);
	CHECK(done == 1);
}

TASK_TEST(fd, "a task waits for an fd, or for its deadline")
{
	uint32_t events = 0;
	int ends[2];

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	CHECK_ERR(task_wait_fd(ends[0], EPOLLIN, inside_now() + 10, &events), TIMEOUT);
	CHECK(events == 0);
	CHECK_OK(task_wait_fd(ends[1], EPOLLOUT, CLOCK_NEVER, &events));
	CHECK(events & EPOLLOUT);
	CHECK(write(ends[1], "x", 1) == 1);
	CHECK_OK(task_wait_fd(ends[0], EPOLLIN, CLOCK_NEVER, &events));
	CHECK(events & EPOLLIN);
	close(ends[1]);
	CHECK_OK(task_wait_fd(ends[0], EPOLLIN, CLOCK_NEVER, &events));
	close(ends[0]);
	CHECK_ERR(task_wait_fd(ends[0], EPOLLIN, CLOCK_NEVER, &events), INTERNAL);
}

static void short_lived(void *arg)
{
	(void)arg;
	done++;
}

TASK_TEST(reuse, "a hundred thousand short tasks reuse their stacks")
{
	struct rusage usage;
	long faults;

	done = 0;
	getrusage(RUSAGE_SELF, &usage);
	faults = usage.ru_minflt;
	for (int i = 0; i < 100000; i++) {
		task_start(inside_loop, "short", short_lived, NULL);
		if (i % 32 == 31)
			CHECK_OK(task_sleep_until(0));
	}
	inside_sleep(1);
	CHECK(done == 100000);
	getrusage(RUSAGE_SELF, &usage);
	// A sanitizer touches pages of its own for every stack.
	CHECK(SANITIZED || usage.ru_minflt - faults < 1000);
}

// Each frame is used after its callee returned, so that it cannot be a tail call.
static __attribute__((noinline)) int dig(int depth)
{
	volatile char frame[1024];

	frame[0] = (char)depth;
	return depth == 0 ? 0 : dig(depth - 1) + 1 + (frame[0] - (char)depth);
}

static void dig_deep(void *arg)
{
	done = dig(*(int *)arg);
}

TASK_TEST(deep, "40 KiB of stack are there")
{
	int depth = 40;

	done = 0;
	task_start(inside_loop, "dig", dig_deep, &depth);
	inside_sleep(1);
	CHECK(done == depth);
}

TEST(overflow, "a stack that overflows ends the process at its guard page")
{
	int status = 0;
	pid_t child;

	if (SANITIZED) {
		printf("# skip: a sanitizer has a handler of its own\n");
		return;
	}
	fflush(stdout);
	child = fork();
	if (child == 0) {
		int depth = 100000;

		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		if (loop_new(&inside_loop) == OK)
			task_start(inside_loop, "dig", dig_deep, &depth);
		loop_run(inside_loop);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
