// The writer's thread, its queue and its batches. A job is in one list at a time: to do, with the
// writer, or done; the lock guards the lists and their counters. A waiting task has its job on its
// stack; a told job is on the heap. The writer starts as soon as a task waits, so that a single
// deed costs one sync; deeds that arrive meanwhile form the next batch. Told deeds alone wait for
// others. While the state cannot be written, told deeds are kept in order and retried.
//
// syscalls: eventfd2 pipe2 ppoll poll read write close futex clone clone3 mmap mprotect munmap
// syscalls: madvise rseq set_robust_list rt_sigprocmask exit gettid
// syscalls: openat fallocate unlinkat pwrite64
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "loop/offload.h"
#include "os/fd.h"
#include "store/db_private.h"
#include "store/schema.h"
#include "store/sqlite.h"

#define RESERVE "reserve"
#define RESERVE_BYTES (2 << 20)
#define REOPEN_MS 200

struct job {
	struct link link;
	store_deed *deed;
	void *arg;
	void (*drop)(void *arg); // of a told deed
	struct task *task;	 // that waits; NULL: told, or a thread waits
	bool told, last, asks;
	bool soon;    // it waits, and its batch need not start for it
	bool settled; // done or failed for good
	bool done;    // the waiter may continue
	struct err *err;
	int64_t since_ms; // when it was queued
};

struct batch {
	const struct db_driver *driver;
	int dir; // -1: in memory
	const char *name;
	fallible (*settle)(struct db *db);
	struct db *db;	 // NULL: could not be opened
	struct err *why; // the last error of the disk
	enum store_health health;
	bool has_reserve;
	int64_t reopened_ms; // the last attempt to reopen
	uint64_t commits, failures, lost, deeds;
};

// ---------------------------------------------------------------------------------------- batches
//
// All of these run on the writer's thread, except batch_open(), before it starts, and
// batch_close(), after it has ended. A batch is tried as a whole. If the disk refuses it, waiting
// deeds fail and told deeds stay. Deeds that end something, and so may free space, are retried with
// the reserve: a file that exists only to be removed then. They are tried together with the told
// deeds before them, so that an older state never overwrites a newer one.

// It needs no reserve: it is in memory, or nothing that has to be ended is in it.
static bool batch_is_apart(const struct batch *batch)
{
	return batch->dir < 0 || batch->settle != schema_settle;
}

static void take_reserve(struct batch *batch)
{
	auto_fd fd = -1;

	if (batch->has_reserve || batch_is_apart(batch) || batch->db->read_only)
		return;
	fd = openat(batch->dir, RESERVE, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	batch->has_reserve = posix_fallocate(fd, 0, RESERVE_BYTES) == 0;
	if (!batch->has_reserve)
		unlinkat(batch->dir, RESERVE, 0);
}

static void give_reserve(struct batch *batch)
{
	if (batch->has_reserve)
		unlinkat(batch->dir, RESERVE, 0);
	batch->has_reserve = false;
}

static fallible copy_of(const struct err *err)
{
	return err_from(err_kind(err), err_reason(err), err_message(err), err_hint_of(err));
}

static void remember(struct batch *batch, struct err *err)
{
	batch->health = db_is_corrupt(err) ? STORE_CORRUPT : STORE_UNWRITABLE;
	err_free(batch->why);
	batch->why = err;
}

static bool is_trouble(const struct err *err)
{
	return db_is_unwritable(err) || db_is_corrupt(err);
}

static fallible open_db(struct batch *batch)
{
	struct db *db = NULL;
	struct err *err;

	TRY(batch->driver->open(batch->dir, batch->name, &db));
	err = batch->driver->check(db);
	if (!err)
		err = batch->settle(db);
	if (err) {
		db_close(db);
		return err;
	}
	batch->db = db;
	return OK;
}

static fallible batch_open(struct batch *batch)
{
	struct err *err = open_db(batch);

	if (err && !is_trouble(err))
		return err;
	if (err) {
		remember(batch, err);
		return OK;
	}
	if (batch->db->read_only)
		remember(batch, err_new(UNAVAILABLE, DB_UNWRITABLE, "the state is read-only"));
	take_reserve(batch);
	return OK;
}

static void batch_close(struct batch *batch)
{
	db_close(take_ptr(batch->db));
	err_free(take_ptr(batch->why));
}

// A database that could not be opened, or only read-only, may be writable by now.
static void reopen(struct batch *batch)
{
	int64_t now = clock_ms();
	struct err *err;

	if (batch->health == STORE_CORRUPT || (batch->db && !batch->db->read_only) ||
	    now - batch->reopened_ms < REOPEN_MS)
		return;
	batch->reopened_ms = now;
	db_close(take_ptr(batch->db));
	err = open_db(batch);
	if (err)
		remember(batch, err);
}

// A deed's own failure rolls back that deed alone; an error of the disk is returned.
static fallible do_deed(struct batch *batch, struct job *job)
{
	struct err *err;

	TRY(db_run(batch->db, "SAVEPOINT deed", NULL, NULL));
	err = job->deed(batch->db, job->arg);
	if (is_trouble(err))
		return err;
	if (err)
		TRY(db_run(batch->db, "ROLLBACK TO SAVEPOINT deed", NULL, NULL));
	job->err = err;
	return db_run(batch->db, "RELEASE SAVEPOINT deed", NULL, NULL);
}

typedef bool choice(const struct job *job);

static bool is_any(const struct job *job)
{
	return !job->settled;
}

static bool is_kept(const struct job *job)
{
	return !job->settled && (job->told || job->last);
}

static fallible do_all(struct batch *batch, struct link *jobs, choice *chosen)
{
	TRY(db_run(batch->db, "BEGIN", NULL, NULL));
	list_each (at, jobs) {
		struct job *job = link_of(at, struct job, link);

		if (chosen(job))
			TRY(do_deed(batch, job));
	}
	kill_point("daemon.before_commit", NULL);
	TRY(db_run(batch->db, "COMMIT", NULL, NULL));
	kill_point("daemon.commit", NULL);
	return OK;
}

// Only a write shows whether the state can be written.
static struct err *batch_probe(struct db *db, void *arg)
{
	(void)arg;
	return db_run(db,
		      "INSERT INTO counters (name, value) VALUES ('probe', 1) ON CONFLICT (name)"
		      " DO UPDATE SET value = counters.value + 1",
		      NULL, NULL);
}

static fallible batch_attempt(struct batch *batch, struct link *jobs, choice *chosen)
{
	struct err *err = do_all(batch, jobs, chosen);

	if (err) {
		err_free(db_run(batch->db, "ROLLBACK", NULL,
				NULL)); // SQLite may have rolled back itself
		batch->failures++;
	} else {
		batch->commits++;
	}
	list_each (at, jobs) {
		struct job *job = link_of(at, struct job, link);

		if (!chosen(job))
			continue;
		if (err)
			err_free(take_ptr(job->err));
		job->settled = !err;
		batch->deeds += !err;
	}
	return err;
}

static void ask_alone(struct batch *batch, struct link *jobs)
{
	list_each (at, jobs) {
		struct job *job = link_of(at, struct job, link);

		if (job->settled || !job->asks)
			continue;
		job->err = job->deed(batch->db, job->arg);
		job->settled = true;
		if (db_is_corrupt(job->err))
			remember(batch, copy_of(job->err));
	}
}

static void batch_refuse(struct batch *batch, struct link *jobs)
{
	bool hopeless = batch->health == STORE_CORRUPT;

	list_each (at, jobs) {
		struct job *job = link_of(at, struct job, link);

		if (job->settled || (job->told && !hopeless))
			continue;
		job->err = job->told ? OK : copy_of(batch->why);
		batch->lost += job->told;
		job->settled = true;
	}
}

// Without its reserve the disk counts as full: the little space is for deeds that end something.
static fallible no_reserve(struct batch *batch)
{
	if (batch_is_apart(batch) || batch->db->read_only)
		return OK;
	take_reserve(batch);
	return batch->has_reserve ? OK
				  : err_hint(err_new(UNAVAILABLE, DB_UNWRITABLE,
						     "the state cannot be written: nothing new can "
						     "be done"),
					     "the operator has to make room on its disk; try again "
					     "then");
}

static bool has_last(const struct link *jobs)
{
	list_each (at, jobs)
		if (is_kept(link_of(at, struct job, link)) && link_of(at, struct job, link)->last)
			return true;
	return false;
}

// Tries the whole batch; on a full disk only deeds that end something, with the reserve.
static fallible try_all(struct batch *batch, struct link *jobs)
{
	struct err *err = no_reserve(batch);

	if (!err)
		err = batch_attempt(batch, jobs, is_any);
	if (db_is_unwritable(err) && has_last(jobs)) {
		auto_err second = OK;

		give_reserve(batch);
		second = batch_attempt(batch, jobs, is_kept);
		if (db_is_corrupt(second)) {
			err_free(err);
			err = take_ptr(second);
		}
	}
	if (err && !is_trouble(err))
		err = err_recast(err, ERR_UNAVAILABLE, DB_UNWRITABLE,
				 "the state cannot be written");
	return err;
}

// Settles every job of the list, except told ones while the state cannot be written: give those
// again. With an empty list it probes whether the state can be written.
static void batch_run(struct batch *batch, struct link *jobs)
{
	struct job look = {.deed = batch_probe, .asks = true};
	bool looks = link_empty(jobs);

	reopen(batch);
	if (looks)
		link_add(jobs, &look.link);
	if (batch->db && batch->health != STORE_CORRUPT) {
		struct err *err = try_all(batch, jobs);

		if (err)
			remember(batch, err);
		else if (!batch->db->read_only)
			batch->health = STORE_FINE;
		if (err && !looks && batch->health != STORE_CORRUPT)
			ask_alone(batch, jobs);
	}
	if (looks)
		link_drop(&look.link);
	batch_refuse(batch, jobs);
}

#define WRITER_STACK (512 * 1024)
#define BATCH_MAX 1024
#define TOLD_MAX 65536
#define AGAIN_MS 500

struct store {
	struct loop *loop;
	struct batch batch; // used by the writer
	pthread_t thread;
	pthread_mutex_t lock;
	int condition[2]; // wakes the writer
	pthread_cond_t settled;
	struct link waiting, done;
	uint32_t told, soon, hurried; // in the list to do
	bool nudged;		      // start told deeds at once
	bool closing;
	int64_t again_ms; // no attempt before, while the state cannot be written; 0: at once
	struct store_stats stats;
	atomic_int health;
	char *trail; // of the last change of health, until it is logged
	enum store_health told_health;
	struct watch watch;
	struct timer told_due; // of the first told deed
	void (*changed)(enum store_health health, void *arg);
	void *changed_arg;
};

// --------------------------------------------------------------------------------- on the writer

// The writer is woken through a pipe: a pipe write is a synchronous wake-up, so the kernel may run
// the writer on the waker's CPU when its last one is busy. A futex would leave it waiting beside an
// idle CPU.
static void wake_writer(struct store *store)
{
	fd_wake(store->condition[1]);
}

static void wait_until(struct store *store, int64_t at_ms)
{
	struct pollfd condition = {.fd = store->condition[0], .events = POLLIN};
	int64_t left = at_ms - clock_ms();
	char rings[64];

	if (left < 0)
		left = 0;
	pthread_mutex_unlock(&store->lock);
	if (poll(&condition, 1, left > INT_MAX ? -1 : (int)left) > 0)
		while (read(condition.fd, rings, sizeof(rings)) == sizeof(rings)) {
		}
	pthread_mutex_lock(&store->lock);
}

// When the next batch is due; in the past: now.
static int64_t store_next_turn(const struct store *store)
{
	const struct job *first;

	if (store->hurried || store->closing)
		return 0;
	if (store->nudged && !link_empty(&store->waiting) && store->batch.health == STORE_FINE)
		return 0;
	if (store->batch.health == STORE_UNWRITABLE)
		return store->again_ms;
	if (link_empty(&store->waiting))
		return CLOCK_NEVER;
	first = link_of(store->waiting.next, struct job, link);
	return first->since_ms + STORE_TOLD_MS;
}

static void take_batch(struct store *store, struct link *out)
{
	store->nudged = false;
	for (int i = 0; i < BATCH_MAX && !link_empty(&store->waiting); i++) {
		struct job *job = link_of(store->waiting.next, struct job, link);

		link_drop(&job->link);
		link_add(out, &job->link);
		if (job->told)
			store->told--;
		else if (job->soon)
			store->soon--;
		else
			store->hurried--;
	}
}

// True: the loop must be woken.
static bool store_give_back(struct store *store, struct link *jobs)
{
	bool news = false;

	// From last to first: retried jobs go to the front, in order.
	while (!link_empty(jobs)) {
		struct job *job = link_of(jobs->prev, struct job, link);

		link_drop(&job->link);
		if (!job->settled && !store->closing) {
			link_push(&store->waiting, &job->link);
			store->told++;
		} else if (job->told || job->task) {
			link_push(&store->done, &job->link);
			news = true;
		} else {
			job->done = true;
			pthread_cond_broadcast(&store->settled);
		}
	}
	while (store->told > TOLD_MAX) {
		struct job *oldest = link_of(store->waiting.next, struct job, link);

		if (!oldest->told)
			break;
		link_drop(&oldest->link);
		link_add(&store->done, &oldest->link);
		store->told--;
		store->batch.lost++;
	}
	if ((enum store_health)atomic_load(&store->health) != store->batch.health) {
		free(store->trail);
		store->trail = mem_str(store->batch.why ? err_trail(store->batch.why) : "");
		atomic_store(&store->health, (int)store->batch.health);
		news = true;
	}
	return news;
}

// Without the lock: the woken thread needs it next.
static void tell_loop(const struct store *store)
{
	fd_wake(store->watch.fd);
}

static void store_count(struct store *store)
{
	const struct batch *batch = &store->batch;

	store->stats.deeds = batch->deeds;
	store->stats.commits = batch->commits;
	store->stats.failures = batch->failures;
	store->stats.lost = batch->lost;
}

static void store_run(struct batch *batch, struct link *jobs)
{
	uint64_t commits = batch->commits, failures = batch->failures;
	int64_t began_us = clock_us();

	batch_run(batch, jobs);
	if (batch->commits > commits)
		metric_observe(METRIC_STORE_COMMIT, NULL, (double)(clock_us() - began_us) / 1e6);
	if (batch->failures > failures)
		metric_add(METRIC_STORE_FAILURES, NULL, NULL, (double)(batch->failures - failures));
}

static void *store_work(void *arg)
{
	struct store *store = arg;

	pthread_mutex_lock(&store->lock);
	for (;;) {
		struct link jobs = LINK_INIT(jobs);
		int64_t turn = store_next_turn(store);
		bool news;

		if (turn > clock_ms()) {
			wait_until(store, turn);
			continue;
		}
		take_batch(store, &jobs);
		if (link_empty(&jobs) && store->closing)
			break;
		pthread_mutex_unlock(&store->lock);

		store_run(&store->batch, &jobs);

		pthread_mutex_lock(&store->lock);
		news = store_give_back(store, &jobs);
		store_count(store);
		store->again_ms = clock_ms() + AGAIN_MS;
		pthread_mutex_unlock(&store->lock);
		if (news)
			tell_loop(store);
		pthread_mutex_lock(&store->lock);
	}
	pthread_mutex_unlock(&store->lock);
	return NULL;
}

// ----------------------------------------------------------------------------------- on the loop

static void tell_health(struct store *store, char *why)
{
	auto_free char *trail = why;
	enum store_health now = store_health(store);

	if (now == store->told_health)
		return;
	store->told_health = now;
	log_event(now == STORE_FINE ? LOG_INFO : LOG_ERROR, "store.health", "health",
		  store_health_word(now), "trail", now == STORE_FINE ? NULL : trail, NULL);
	if (store->changed)
		store->changed(now, store->changed_arg);
}

static void store_finish(struct job *job)
{
	if (job->task) {
		job->done = true;
		task_wake(job->task);
		return;
	}
	if (job->err)
		log_event(LOG_ERROR, "store.deed_failed", "trail", err_trail(job->err), NULL);
	err_free(job->err);
	if (job->drop)
		job->drop(job->arg);
	free(job);
}

static void collect(struct store *store)
{
	struct link done = LINK_INIT(done);
	char *why;

	pthread_mutex_lock(&store->lock);
	while (!link_empty(&store->done)) {
		struct link *first = store->done.next;

		link_drop(first);
		link_add(&done, first);
	}
	why = take_ptr(store->trail);
	pthread_mutex_unlock(&store->lock);
	tell_health(store, why);
	while (!link_empty(&done)) {
		struct job *job = link_of(done.next, struct job, link);

		link_drop(&job->link);
		store_finish(job);
	}
}

static void on_news(struct watch *watch, uint32_t events)
{
	struct store *store = link_of(watch, struct store, watch);
	uint64_t times;

	(void)events;
	if (read(watch->fd, &times, sizeof(times)) == sizeof(times))
		collect(store);
}

static fallible start_writer(struct store *store)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int failed;

	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->settled, NULL);

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, WRITER_STACK);
	sigfillset(&all); // signals are for the loop's thread
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&store->thread, &attr, store_work, store);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return failed ? err_sys(failed, "start the store's writer") : OK;
}

static fallible store_open_in(struct store *store, const struct store_options *options)
{
	TRY(batch_open(&store->batch));
	atomic_store(&store->health, (int)store->batch.health);
	if (store->batch.why)
		store->trail = mem_str(err_trail(store->batch.why));
	tell_health(store, take_ptr(store->trail));
	store->stats.schema = SCHEMA_NOW;
	store->stats.bytes = store->batch.db ? db_bytes(store->batch.db) : 0;
	store->watch.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (store->watch.fd < 0)
		return err_sys(errno, "make an eventfd");
	store->watch.ready = on_news;
	if (pipe2(store->condition, O_CLOEXEC | O_NONBLOCK))
		return err_sys(errno, "make a pipe");
	TRY(loop_watch(options->loop, &store->watch, EPOLLIN));
	return start_writer(store);
}

static void close_all(struct store *store)
{
	fd_drop(&store->watch.fd);
	fd_drop(&store->condition[0]);
	fd_drop(&store->condition[1]);
}

fallible store_open(const struct store_options *options, struct store **out)
{
	struct store *store = mem_new_of(struct store);
	struct err *err;

	store->loop = options->loop;
	store->batch.driver = options->driver ? options->driver : &sqlite_driver;
	store->batch.dir = options->dir;
	store->batch.name = options->name ? options->name : "cove.db";
	store->batch.settle = options->settle ? options->settle : schema_settle;
	store->watch.fd = store->condition[0] = store->condition[1] = -1;
	link_init(&store->waiting);
	link_init(&store->done);
	err = store_open_in(store, options);
	if (err) {
		batch_close(&store->batch);
		loop_unwatch(options->loop, &store->watch);
		close_all(store);
		free(store);
		return err;
	}
	*out = store;
	return OK;
}

void store_close(struct store *store)
{
	if (!store)
		return;
	pthread_mutex_lock(&store->lock);
	store->closing = true;
	wake_writer(store);
	pthread_mutex_unlock(&store->lock);
	pthread_join(store->thread, NULL);
	collect(store);
	batch_close(&store->batch);
	loop_unwatch(store->loop, &store->watch);
	loop_drop_timer(store->loop, &store->told_due);
	close_all(store);
	pthread_cond_destroy(&store->settled);
	pthread_mutex_destroy(&store->lock);
	free(store->trail);
	free(store);
}

static void on_told_due(struct timer *timer)
{
	wake_writer(link_of(timer, struct store, told_due));
}

static void remind(struct store *store)
{
	if (store->told_due.at)
		return;
	store->told_due.due = on_told_due;
	loop_set_timer(store->loop, &store->told_due, loop_now(store->loop) + STORE_TOLD_MS);
}

static void store_hand_over(struct store *store, struct job *job)
{
	bool waits = !job->told && !job->task;

	job->since_ms = clock_ms();
	pthread_mutex_lock(&store->lock);
	link_add(&store->waiting, &job->link);
	if (job->told)
		store->told++;
	else if (job->soon)
		store->soon++;
	else
		store->hurried++;
	if (waits)
		wake_writer(store);
	while (waits && !job->done)
		pthread_cond_wait(&store->settled, &store->lock);
	pthread_mutex_unlock(&store->lock);
	if (job->told || job->soon) // the writer need not wake for it
		remind(store);
	else if (!waits) // after unlocking: it would wake only to wait for the lock
		wake_writer(store);
}

static fallible store_wait_for(struct store *store, struct job *job)
{
	job->task = task_current();
	store_hand_over(store, job);
	while (!job->done)
		task_park_firm();
	return job->err;
}

fallible store_do(struct store *store, store_deed *deed, void *arg)
{
	return store_wait_for(store, &(struct job){.deed = deed, .arg = arg});
}

fallible store_do_last(struct store *store, store_deed *deed, void *arg)
{
	return store_wait_for(store, &(struct job){.deed = deed, .arg = arg, .last = true});
}

fallible store_do_soon(struct store *store, store_deed *deed, void *arg)
{
	return store_wait_for(
		store, &(struct job){.deed = deed, .arg = arg, .soon = task_current() != NULL});
}

fallible store_ask(struct store *store, store_deed *deed, void *arg)
{
	return store_wait_for(store, &(struct job){.deed = deed, .arg = arg, .asks = true});
}

struct looking {
	const struct batch *batch;
	store_deed *deed;
	void *arg;
	bool looked;
	struct err *err;
};

static void store_look_beside(void *arg)
{
	struct looking *looking = arg;
	const struct batch *batch = looking->batch;
	struct db *db = NULL;
	auto_err err = batch->driver->open_beside(batch->dir, batch->name, &db);

	if (err)
		return;
	looking->looked = true;
	looking->err = looking->deed(db, looking->arg);
	db_close(db);
}

fallible store_look(struct store *store, store_deed *deed, void *arg)
{
	struct looking looking = {.batch = &store->batch, .deed = deed, .arg = arg};

	offload_run(store_look_beside, &looking);
	// In memory there is only one connection; on an unwritable disk a second one may fail.
	return looking.looked ? looking.err : store_ask(store, deed, arg);
}

static struct err *nothing(struct db *db, void *arg)
{
	(void)db;
	(void)arg;
	return OK;
}

fallible store_flush(struct store *store)
{
	return store_do(store, nothing, NULL);
}

void store_queue(struct store *store, store_deed *deed, void *arg, void (*drop)(void *arg))
{
	struct job *job = mem_new_of(struct job);

	*job = (struct job){.deed = deed, .arg = arg, .drop = drop, .told = true};
	store_hand_over(store, job);
}

void store_nudge(struct store *store)
{
	pthread_mutex_lock(&store->lock);
	store->nudged = true;
	pthread_mutex_unlock(&store->lock);
	wake_writer(store);
}

enum store_health store_health(const struct store *store)
{
	return (enum store_health)atomic_load(&store->health);
}

const char *store_health_word(enum store_health health)
{
	static const char *const words[] = {
		[STORE_FINE] = "fine",
		[STORE_UNWRITABLE] = "unwritable",
		[STORE_CORRUPT] = "corrupt",
	};

	return words[health];
}

void store_on_health(struct store *store, void (*changed)(enum store_health health, void *arg),
		     void *arg)
{
	store->changed = changed;
	store->changed_arg = arg;
}

fallible store_ready(const struct store *store)
{
	switch (store_health(store)) {
	case STORE_UNWRITABLE:
		return err_hint(err_new(UNAVAILABLE, DB_UNWRITABLE,
					"the state cannot be written: nothing new can be done"),
				"the operator has to make room on its disk; try again then");
	case STORE_CORRUPT:
		return err_hint(err_new(UNAVAILABLE, DB_CORRUPT, "the stored state cannot be read"),
				"the operator has to restore it; what runs is left alone");
	default:
		return OK;
	}
}

struct store_stats store_stats(const struct store *store)
{
	struct store *held = (struct store *)store; // the lock is not part of the const state
	struct store_stats stats;

	pthread_mutex_lock(&held->lock);
	stats = held->stats;
	stats.waiting = held->told + held->soon + held->hurried;
	pthread_mutex_unlock(&held->lock);
	return stats;
}
