#include "loop/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tap.h"

static struct loop *loop;
static int64_t last_at;
static int rung, out_of_order;

static void stop_due(struct timer *timer)
{
	(void)timer;
	loop_stop(loop);
}

static void run_for(int64_t ms)
{
	struct timer end = {.due = stop_due};

	loop_set_timer(loop, &end, clock_ms() + ms);
	loop_run(loop);
	loop_drop_timer(loop, &end);
}

struct mark {
	struct timer timer;
	int64_t at;
};

static void mark_due(struct timer *timer)
{
	struct mark *mark = link_of(timer, struct mark, timer);

	rung++;
	out_of_order += mark->at < last_at || loop_now(loop) < mark->at;
	last_at = mark->at;
}

TEST(timers, "a thousand timers ring in order, and dropped ones do not")
{
	enum { N = 1000 };
	static struct mark marks[N];
	unsigned seed = 7;

	CHECK_OK(loop_new(&loop));
	rung = out_of_order = 0;
	last_at = 0;
	for (int i = 0; i < N; i++) {
		seed = seed * 1103515245 + 12345;
		marks[i] = (struct mark){.timer = {.due = mark_due},
					 .at = clock_ms() + seed / 65536 % 50};
		loop_set_timer(loop, &marks[i].timer, marks[i].at);
	}
	for (int i = 0; i < N; i += 3)
		loop_drop_timer(loop, &marks[i].timer);
	for (int i = 0; i < N; i += 6) { // set again, and moved
		loop_set_timer(loop, &marks[i].timer, marks[i].at + 100);
		loop_set_timer(loop, &marks[i].timer, marks[i].at);
	}
	run_for(120);
	CHECK(rung == N - 334 + 167);
	CHECK(out_of_order == 0);
	loop_free(loop);
}

static struct deferred laters[3];
static char order[16];

static void note(char c)
{
	order[strlen(order)] = c;
}

static void run_a(struct deferred *deferred)
{
	(void)deferred;
	note('a');
	link_drop(&laters[1].link); // b never runs
	loop_defer(loop, &laters[2]);
}

static void run_b(struct deferred *deferred)
{
	(void)deferred;
	note('b');
}

static void run_c(struct deferred *deferred)
{
	(void)deferred;
	note('c');
	loop_stop(loop);
}

TEST(put_off, "a call put off may put off another, and one dropped does not run")
{
	CHECK_OK(loop_new(&loop));
	laters[0].run = run_a;
	laters[1].run = run_b;
	laters[2].run = run_c;
	loop_defer(loop, &laters[0]);
	loop_defer(loop, &laters[1]);
	loop_defer(loop, &laters[1]); // twice is once
	loop_run(loop);
	CHECK_STR(order, "ac");
	CHECK(loop_stats(loop).turns == 1);
	loop_free(loop);
}

static void again(struct deferred *deferred)
{
	rung++;
	loop_defer(loop, deferred);
}

TEST(endless, "a call that puts itself off for ever does not starve the timers")
{
	struct deferred deferred = {.run = again};

	CHECK_OK(loop_new(&loop));
	rung = 0;
	loop_defer(loop, &deferred);
	run_for(20);
	CHECK(rung > 100);
	link_drop(&deferred.link);
	loop_free(loop);
}

static struct watch *pair[2];
static int told;

static void tell_one(struct watch *watch, uint32_t events)
{
	int other = watch == pair[0];

	CHECK(events & EPOLLIN);
	told++;
	// Both were ready in one batch: the other one must not be told any more.
	loop_unwatch(loop, pair[other]);
	close(pair[other]->fd);
	memset(pair[other], 0xaa, sizeof(*pair[other]));
	free(take_ptr(pair[other]));
	loop_unwatch(loop, watch);
	loop_stop(loop);
}

TEST(same_batch, "a callback may free another watch of the same batch")
{
	int ends[2][2];

	CHECK_OK(loop_new(&loop));
	for (int i = 0; i < 2; i++) {
		CHECK(pipe2(ends[i], O_CLOEXEC) == 0);
		CHECK(write(ends[i][1], "x", 1) == 1);
		pair[i] = mem_new_of(struct watch);
		pair[i]->fd = ends[i][0];
		pair[i]->ready = tell_one;
		CHECK_OK(loop_watch(loop, pair[i], EPOLLIN));
	}
	loop_run(loop);
	CHECK(told == 1);
	for (int i = 0; i < 2; i++) {
		if (pair[i])
			close(pair[i]->fd);
		free(pair[i]);
		close(ends[i][1]);
	}
	loop_free(loop);
}

static int pokes;

static void *poker(void *arg)
{
	for (int i = 0; i < 1000; i++)
		loop_poke(arg);
	usleep(20000);
	loop_poke(arg);
	return NULL;
}

static void on_poke(void *arg)
{
	CHECK(arg == &pokes);
	pokes++;
}

TEST(poke, "another thread wakes the loop, and many pokes may be one wake-up")
{
	pthread_t thread;

	CHECK_OK(loop_new(&loop));
	loop_on_poke(loop, on_poke, &pokes);
	loop_on_poke(loop, on_poke, &pokes);
	CHECK(pthread_create(&thread, NULL, poker, loop) == 0);
	run_for(100);
	pthread_join(thread, NULL);
	CHECK(pokes >= 1 && pokes <= 1001);
	loop_free(loop);
}

static void dawdle(struct deferred *deferred)
{
	(void)deferred;
	usleep(15000);
	loop_stop(loop);
}

TEST(slow_turn, "a turn over 10 ms is counted")
{
	struct deferred deferred = {.run = dawdle};
	uint64_t before;

	CHECK_OK(loop_new(&loop));
	run_for(5);
	before = loop_stats(loop).slow_turns; // a busy machine may have made one
	loop_defer(loop, &deferred);
	loop_run(loop);
	CHECK(loop_stats(loop).slow_turns == before + 1);
	CHECK(loop_stats(loop).slowest_us >= 15000);
	loop_free(loop);
}

TEST(refusals, "an fd that cannot be watched is an error")
{
	struct watch watch = {.fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC),
			      .ready = tell_one};

	CHECK_OK(loop_new(&loop));
	close(watch.fd);
	CHECK_ERR(loop_watch(loop, &watch, EPOLLIN), INTERNAL);
	CHECK(watch.events == 0);
	loop_unwatch(loop, &watch);
	loop_free(loop);
}
