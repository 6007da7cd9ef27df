// Runs batches on the writer's thread. A batch is tried as a whole. If the disk refuses it, waiting
// deeds fail and told deeds stay. Deeds that end something, and so may free space, are retried with
// the reserve: a file that exists only to be removed then. They are tried together with the told
// deeds before them, so that an older state never overwrites a newer one.
//
// syscalls: openat fallocate unlinkat close pwrite64
#include <fcntl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fault.h"
#include "store/db_private.h"
#include "store/schema.h"
#include "store/store_private.h"

#define RESERVE "reserve"
#define RESERVE_BYTES (2 << 20)
#define REOPEN_MS 200

static void take_reserve(struct batch *batch)
{
	auto_fd fd = -1;

	if (batch->has_reserve || batch->dir < 0 || batch->db->read_only)
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
		err = schema_settle(db);
	if (err) {
		db_close(db);
		return err;
	}
	batch->db = db;
	return OK;
}

fallible batch_open(struct batch *batch)
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

void batch_close(struct batch *batch)
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
static struct err *store_batch_probe(struct db *db, void *arg)
{
	(void)arg;
	return db_run(db,
		      "INSERT INTO counters (name, value) VALUES ('probe', 1) ON CONFLICT (name)"
		      " DO UPDATE SET value = counters.value + 1",
		      NULL, NULL);
}

static fallible store_batch_attempt(struct batch *batch, struct link *jobs, choice *chosen)
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

static void store_batch_refuse(struct batch *batch, struct link *jobs)
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
	if (batch->dir < 0 || batch->db->read_only)
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
		err = store_batch_attempt(batch, jobs, is_any);
	if (db_is_unwritable(err) && has_last(jobs)) {
		auto_err second = OK;

		give_reserve(batch);
		second = store_batch_attempt(batch, jobs, is_kept);
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

void batch_run(struct batch *batch, struct link *jobs)
{
	struct job look = {.deed = store_batch_probe, .asks = true};
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
	store_batch_refuse(batch, jobs);
}
