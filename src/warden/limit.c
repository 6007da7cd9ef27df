// Executes LIMIT as a list of steps, each of which is done at once or by a child: memory is
// freed and its limit lowered, the disk is resized, then the limits that cannot fail are
// written. A job lasts while a child runs. After each child the box is looked up again: it may have
// ended.
//
// syscalls: kill
#include "warden/limit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "os/fd.h"
#include "warden/archive.h"
#include "warden/disk_copy.h"
#include "warden/disk_driver.h"
#include "warden/jail.h"
#include "warden/reply_queue.h"

#define MEMORY_PATIENCE_US (20 * 1000000ll)    // while the kernel frees pages
#define DISK_PATIENCE_US (10 * 60 * 1000000ll) // of a copy of an image
#define LIMIT_JOBS_MAX 16		       // children at once

enum limit_step { LIMIT_STEP_MEMORY, LIMIT_STEP_DISK, LIMIT_STEP_PLACE, LIMIT_STEP_REST };

struct limit_job {
	struct link link;
	char box[ID_BOX_LEN + 1];
	char trace[ORDER_TRACE_MAX];
	uint32_t order; // 0: its daemon is gone
	struct limits limits;
	enum limit_step step; // the next one
	bool runs;	      // the box ran when it was ordered
	bool copied;	      // a child has prepared the disk
	int pid, report;      // of the child; 0: none
	int64_t deadline_us;
};

static void limit_job_drop(struct limit_job *job)
{
	link_drop(&job->link);
	fd_drop(&job->report);
	free(job);
}

// The box, if it is still as it was; NULL: it has ended, or was started or stopped.
static struct warden_box *limit_box(struct warden *warden, const struct limit_job *job)
{
	struct warden_box *box = map_get(warden->boxes, str_of(job->box));

	if (!box)
		return NULL;
	if (job->runs)
		return box->state == WARDEN_BOX_ALIVE && box->pidfd >= 0 ? box : NULL;
	return box->state == WARDEN_BOX_KEPT ? box : NULL;
}

static fallible limit_box_changed(void)
{
	return err_hint(err_new(CONFLICT, "box_changed",
				"the sandbox changed its state while its limits were changed"),
			"try again");
}

static fallible limit_child(struct limit_job *job, struct disk_copy *work, int64_t patience_us)
{
	job->deadline_us = clock_us() + patience_us;
	return disk_copy_start(work, &job->pid, &job->report);
}

static fallible limit_shrink(struct disk_copy *work)
{
	return group_shrink(work->fds[0], work->size);
}

// Lowers the limit in a child, because the kernel frees pages first.
static fallible limit_memory_step(struct warden *warden, struct limit_job *job)
{
	struct disk_copy work = {
		.run = limit_shrink, .fds = {-1}, .count = 1, .size = job->limits.memory};
	uint64_t pids = group_pids(warden->groups, job->box);

	if (pids != UINT64_MAX && pids > job->limits.pids)
		return err_hint(err_new(CONFLICT, "below_use",
					"the sandbox runs %llu processes and threads",
					(unsigned long long)pids),
				"end some, or choose a larger limit");
	if (weak(MEMORY) || group_memory_limit(warden->groups, job->box) <= job->limits.memory)
		return OK;
	TRY(group_memory_open(warden->groups, job->box, &work.fds[0]));
	return limit_child(job, &work, MEMORY_PATIENCE_US);
}

static bool has_its_disk(const struct warden_box *box, const struct limit_job *job)
{
	return !job->limits.disk || weak(DISK) ||
	       (job->runs && box->state_file.disk == job->limits.disk);
}

static fallible limit_disk_step(struct warden *warden, const struct warden_box *box,
				struct limit_job *job)
{
	struct disk_copy work = {.run = NULL};
	uint64_t packed, content = 0;

	if (has_its_disk(box, job))
		return OK;
	if (archive_sizes(warden, job->box, &packed, &content)) // a disk is made when it starts
		return content > job->limits.disk ? disk_below_use(content) : OK;
	TRY(disk_limit_begin(warden->disk, job->box, &job->limits, job->runs, &work));
	job->copied = work.run != NULL;
	return work.run ? limit_child(job, &work, DISK_PATIENCE_US) : OK;
}

static fallible limit_place_step(struct warden *warden, struct warden_box *box,
				 const struct limit_job *job)
{
	if (has_its_disk(box, job) || box->has.archive)
		return OK;
	kill_point("warden.limit", "resized");
	TRY(disk_limit_end(warden->disk, job->box, &job->limits, job->copied));
	kill_point("warden.limit", "placed");
	if (!job->runs)
		return OK;
	box->state_file.disk = job->limits.disk;
	return box_state_write(warden->state_dir, box->id, &box->state_file);
}

static fallible limit_rest_step(struct warden *warden, struct warden_box *box,
				const struct limit_job *job)
{
	auto_fd oom = -1;
	struct stat data;

	if (!job->runs)
		return OK;
	TRY(group_limit(warden->groups, box->id, &job->limits, &oom));
	group_unthrottle(warden->groups, box->id);
	if (job->limits.io && !weak(IO)) {
		if (fstat(warden->data, &data))
			return err_sys(errno, "look at the data directory");
		TRY(group_limit_io(warden->groups, box->id, job->limits.io, &data.st_dev, 1));
	}
	box->limits = job->limits;
	return OK;
}

static fallible limit_do_step(struct warden *warden, struct limit_job *job)
{
	struct warden_box *box = limit_box(warden, job);

	if (!box)
		return limit_box_changed();
	switch (job->step++) {
	case LIMIT_STEP_MEMORY:
		return job->runs ? limit_memory_step(warden, job) : OK;
	case LIMIT_STEP_DISK:
		return limit_disk_step(warden, box, job);
	case LIMIT_STEP_PLACE:
		return limit_place_step(warden, box, job);
	case LIMIT_STEP_REST:
		return limit_rest_step(warden, box, job);
	}
	return OK;
}

// Goes on until a child runs or all is done, which answers the order.
static void limit_advance(struct warden *warden, struct limit_job *job, struct err *err)
{
	while (!err && !job->pid && job->step <= LIMIT_STEP_REST)
		err = limit_do_step(warden, job);
	if (!err && job->pid)
		return;
	if (err) {
		if (job->copied)
			disk_limit_undo(warden->disk, job->box);
		group_unthrottle(warden->groups, job->box);
	}
	if (job->order && err)
		reply_queue_refusal(warden, ORDER_LIMIT, job->order, job->box, err);
	else if (job->order)
		reply_queue_done(warden, ORDER_LIMIT, job->order);
	else
		err_free(err);
	limit_job_drop(job);
}

static struct limit_job *limit_job_find(struct warden *warden, const char *box, int pid)
{
	list_each (at, &warden->limit_jobs) {
		struct limit_job *job = link_of(at, struct limit_job, link);

		if (box ? !strcmp(job->box, box) : job->pid == pid)
			return job;
	}
	return NULL;
}

fallible limit_order(struct warden *warden, const struct order *order)
{
	const struct warden_box *box = map_get(warden->boxes, str_of(order->box));
	struct limit_job *job;
	int jobs = 0;

	if (!box || box == warden->prebuilt)
		return err_new(NOT_FOUND, "no_box", "there is no such box");
	list_each (at, &warden->limit_jobs)
		if (++jobs == LIMIT_JOBS_MAX)
			return err_hint(err_new(EXHAUSTED, "too_many_changes",
						"the limits of %d sandboxes are being changed",
						LIMIT_JOBS_MAX),
					"try again in a moment");
	if (limit_job_find(warden, order->box, 0))
		return err_hint(err_new(UNAVAILABLE, "limits_changing",
					"the limits of the sandbox are being changed"),
				"try again in a moment");
	job = mem_new_of(struct limit_job);
	*job = (struct limit_job){
		.order = order->id,
		.limits = order->limits,
		.runs = box->state != WARDEN_BOX_KEPT,
		.report = -1,
	};
	memcpy(job->box, order->box, sizeof(job->box));
	memcpy(job->trace, order->trace, sizeof(job->trace));
	link_add(&warden->limit_jobs, &job->link);
	limit_advance(warden, job, OK);
	return OK;
}

bool limit_reaped(struct warden *warden, int pid, int status)
{
	struct limit_job *job = limit_job_find(warden, NULL, pid);
	struct err *err;

	if (!job)
		return false;
	auto_free struct answer *sums = mem_new_of(struct answer);

	log_trace(job->trace);
	job->pid = 0;
	err = jail_report_read(job->report, status, sums);
	fd_drop(&job->report);
	if (job->deadline_us == CLOCK_NEVER) {
		err_free(err);
		err = err_hint(err_new(CONFLICT, "below_use",
				       "the sandbox did not give its memory or disk back in time"),
			       "free some in it, or stop it first");
	}
	if (!err && !job->order)
		err = limit_box_changed();
	limit_advance(warden, job, err);
	log_trace(NULL);
	return true;
}

int64_t limits_turn(struct warden *warden)
{
	int64_t now = clock_us(), next = CLOCK_NEVER;

	list_each (at, &warden->limit_jobs) {
		struct limit_job *job = link_of(at, struct limit_job, link);

		if (job->deadline_us <= now) {
			kill(job->pid, SIGKILL);
			job->deadline_us = CLOCK_NEVER;
		}
		next = job->deadline_us < next ? job->deadline_us : next;
	}
	return next;
}

void limits_forget(struct warden *warden)
{
	list_each (at, &warden->limit_jobs) {
		struct limit_job *job = link_of(at, struct limit_job, link);

		job->order = 0;
		kill(job->pid, SIGKILL);
	}
}
