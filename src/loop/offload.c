// A queue, worker threads, and the way back to the loop. The job is on the stack of the task that
// waits for it, and in one list at a time: pending, or done. The lock guards both lists and nothing
// else. Workers block all signals: those are for the loop's thread.
//
// syscalls: clone clone3 futex mmap mprotect munmap madvise rseq set_robust_list rt_sigprocmask
// syscalls: sched_getaffinity exit gettid
#include "loop/offload.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>

#include "base/mem.h"

#define WORKER_STACK (1024 * 1024)
#define WORKERS_MAX 64

struct job {
	void (*fn)(void *arg);
	void *arg;
	struct task *task;
	bool done;
	struct link link;
};

// One pool per process: blocking calls are everywhere.
static struct pool {
	struct loop *loop;
	pthread_t *threads;
	int count;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct link todo, done;
	bool closing;
	int apart; // threads of offload_run_apart()
	pthread_cond_t left;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
	  .more = PTHREAD_COND_INITIALIZER,
	  .left = PTHREAD_COND_INITIALIZER};

static void *offload_work(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&pool.lock);
	for (;;) {
		struct job *job;

		while (link_empty(&pool.todo) && !pool.closing)
			pthread_cond_wait(&pool.more, &pool.lock);
		if (link_empty(&pool.todo))
			break;
		job = link_of(pool.todo.next, struct job, link);
		link_drop(&job->link);
		pthread_mutex_unlock(&pool.lock);

		job->fn(job->arg);

		pthread_mutex_lock(&pool.lock);
		link_add(&pool.done, &job->link);
		loop_poke(pool.loop);
	}
	pthread_mutex_unlock(&pool.lock);
	return NULL;
}

// A failed start leaves errno's number. Signals are for the loop's thread.
static int offload_start(pthread_t *out, bool is_detached, void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int failed;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, WORKER_STACK);
	if (is_detached)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(out, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return failed;
}

static void offload_on_done(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&pool.lock);
	while (pool.count > 0 && !link_empty(&pool.done)) {
		struct job *job = link_of(pool.done.next, struct job, link);

		link_drop(&job->link);
		job->done = true;
		task_wake(job->task);
	}
	pthread_mutex_unlock(&pool.lock);
}

fallible offload_open(struct loop *loop, int threads)
{
	int failed = 0;

	assert(pool.count == 0 && threads > 0 && threads <= WORKERS_MAX);
	pool.loop = loop;
	pool.closing = false;
	link_init(&pool.todo);
	link_init(&pool.done);
	pool.threads = mem_new((size_t)threads * sizeof(*pool.threads));

	while (pool.count < threads && !failed) {
		failed = offload_start(&pool.threads[pool.count], false, offload_work, NULL);
		pool.count += !failed;
	}
	if (failed) {
		offload_close();
		return err_sys(failed, "start a worker thread");
	}
	loop_on_poke(loop, offload_on_done, NULL);
	return OK;
}

void offload_close(void)
{
	pthread_mutex_lock(&pool.lock);
	pool.closing = true;
	pthread_cond_broadcast(&pool.more);
	while (pool.apart > 0)
		pthread_cond_wait(&pool.left, &pool.lock);
	pthread_mutex_unlock(&pool.lock);
	for (int i = 0; i < pool.count; i++)
		pthread_join(pool.threads[i], NULL);
	offload_on_done(NULL); // tasks whose calls ended meanwhile
	pool.count = 0;
	free(take_ptr(pool.threads));
}

void offload_run(void (*fn)(void *arg), void *arg)
{
	struct job job = {.fn = fn, .arg = arg, .task = task_current()};

	// Without a pool, or outside of a task, call it directly: nothing else could run meanwhile.
	if (!job.task || pool.count == 0) {
		fn(arg);
		return;
	}
	pthread_mutex_lock(&pool.lock);
	link_add(&pool.todo, &job.link);
	pthread_cond_signal(&pool.more);
	pthread_mutex_unlock(&pool.lock);
	while (!job.done)
		task_park_firm();
}

static void *offload_work_apart(void *arg)
{
	struct job *job = arg;

	job->fn(job->arg);
	pthread_mutex_lock(&pool.lock);
	link_add(&pool.done, &job->link);
	pool.apart--;
	pthread_cond_broadcast(&pool.left);
	loop_poke(pool.loop);
	pthread_mutex_unlock(&pool.lock);
	return NULL;
}

void offload_run_apart(void (*fn)(void *arg), void *arg)
{
	struct job job = {.fn = fn, .arg = arg, .task = task_current()};
	pthread_t thread;

	if (!job.task || pool.count == 0) {
		fn(arg);
		return;
	}
	pthread_mutex_lock(&pool.lock);
	pool.apart++;
	pthread_mutex_unlock(&pool.lock);
	if (offload_start(&thread, true, offload_work_apart, &job)) {
		pthread_mutex_lock(&pool.lock);
		pool.apart--;
		pthread_mutex_unlock(&pool.lock);
		offload_run(fn, arg);
		return;
	}
	while (!job.done)
		task_park_firm();
}

bool offload_is_wanted(void)
{
	bool wanted;

	pthread_mutex_lock(&pool.lock);
	wanted = pool.count > 0 && !link_empty(&pool.todo);
	pthread_mutex_unlock(&pool.lock);
	return wanted;
}
