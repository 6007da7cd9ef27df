// Makes, loads and forgets snapshots. Making one is a job: frozen, copied, completed, named. What
// it does is in its meta before it is done, so that the next warden undoes it. The daemon lets no
// other step of the box run meanwhile; where one does all the same, the job fails.
//
// syscalls: openat close mkdirat renameat2 unlinkat getdents64 kill fsync newfstatat
#include "warden/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/path.h"
#include "warden/archive.h"
#include "warden/disk_copy.h"
#include "warden/export.h"
#include "warden/helper.h"
#include "warden/jail.h"
#include "warden/reply_queue.h"
#include "warden/template.h"

#define UNFINISHED ".snap-"
#define PINS ".pins"
#define META_MAX (ORDER_NOTE_MAX + 1024)
#define NAME_ROOM 96
#define JOBS_MAX 8
#define FROZEN_AGAIN_US 500
#define FREEZE_PATIENCE_US 5000000
#define COPY_PATIENCE_US 10000000	      // how long a box may be frozen
#define COPY_STOPPED_US (30 * 60 * 1000000ll) // of one that does not run
#define BASE_HOST "host"

enum snapshot_phase {
	SNAPSHOT_UNPACKING,
	SNAPSHOT_FREEZING,
	SNAPSHOT_COPYING,
	SNAPSHOT_COMPLETING
};

struct snapshot_job {
	struct link link;
	enum snapshot_phase phase;
	uint32_t order; // 0: its daemon is gone
	char name[TEMPLATE_NAME_MAX], temp[NAME_ROOM];
	char box[ID_BOX_LEN + 1], trace[ORDER_TRACE_MAX];
	char base[TEMPLATE_ID];
	char note[ORDER_NOTE_MAX];
	bool froze, late;
	bool again;	      // replaces the snapshot of that name
	bool unpacked;	      // the disk was made from the box's archive, and goes again
	int dir, pid, report; // pid 0: no child
	int64_t since_us, deadline_us, frozen_us;
	uint64_t bytes, files;
};

struct snapshots {
	struct warden *warden;
	int dir, pins; // of all templates (borrowed), and .pins
	uint64_t number;
	struct link jobs;
	int job_count;
	struct link loads; // snapshots that are being copied to a box
};

// What the meta of a snapshot says.
struct snapshot_meta {
	char base[TEMPLATE_ID], box[ID_BOX_LEN + 1];
	char note[ORDER_NOTE_MAX];
	bool frozen;
	uint64_t bytes;
};

struct snapshot_load {
	struct link link;
	int pid;
	char name[TEMPLATE_NAME_MAX];
};

// False: no snapshot of that name, or *out_known is false.
static bool snapshot_look(const struct snapshots *all, const char *name, struct snapshot_meta *out,
			  bool *out_known)
{
	auto_buf text = BUF_INIT(META_MAX);
	struct str rest, line, key;
	bool is_snapshot = false;
	char path[sizeof(((struct dirent *)0)->d_name) + 8];
	auto_err err = OK;

	snprintf(path, sizeof(path), "%s/meta", name);
	err = path_read(all->dir, path, &text);
	*out_known = !err || err_kind(err) == ERR_NOT_FOUND;
	if (err)
		return false;
	*out = (struct snapshot_meta){0};
	rest = buf_view(&text);
	while (str_cut(&rest, '\n', &line)) {
		if (!str_cut(&line, '=', &key))
			continue;
		if (str_is(key, "kind"))
			is_snapshot = str_is(line, "snapshot");
		else if (str_is(key, "base"))
			snprintf(out->base, sizeof(out->base), STR_FMT, STR_ARG(line));
		else if (str_is(key, "box"))
			snprintf(out->box, sizeof(out->box), STR_FMT, STR_ARG(line));
		else if (str_is(key, "note"))
			snprintf(out->note, sizeof(out->note), STR_FMT, STR_ARG(line));
		else if (str_is(key, "frozen"))
			out->frozen = str_is(line, "1");
		else if (str_is(key, "bytes"))
			str_to_u64(line, 0, INT64_MAX, &out->bytes);
	}
	return is_snapshot;
}

static bool snapshot_read(const struct snapshots *all, const char *name, struct snapshot_meta *out)
{
	bool is_known;

	return snapshot_look(all, name, out, &is_known);
}

static fallible snapshot_write(const struct snapshot_job *job, bool lasts)
{
	auto_buf meta = BUF_INIT(META_MAX);

	buf_fmt(&meta,
		"kind=snapshot\ncreated=%lld\nbytes=%llu\nfiles=%llu\nbase=%s\nbox=%s\nfrozen=%d\n"
		"note=%s\n",
		(long long)clock_wall_ms(), (unsigned long long)job->bytes,
		(unsigned long long)job->files, job->base, job->box, job->froze, job->note);
	if (!buf_ok(&meta))
		return err_sys(ENOMEM, "describe a snapshot");
	return lasts ? path_write_sync(job->dir, "meta", 0600, buf_view(&meta))
		     : path_write(job->dir, "meta", 0600, meta.at);
}

// --------------------------------------------------------------------------------------- the base

// The base that a box stands on; "": its template.
static fallible pin_read(const struct snapshots *all, const char *box, char out[TEMPLATE_ID])
{
	auto_buf text = BUF_INIT(64);
	auto_err err = path_read(all->pins, box, &text);

	out[0] = '\0';
	if (err && err_kind(err) != ERR_NOT_FOUND)
		return take_ptr(err);
	if (!err && text.len)
		snprintf(out, TEMPLATE_ID, "%s", text.at);
	return OK;
}

void snapshot_unpin(struct warden *warden, const char *box)
{
	if (warden->snapshots)
		unlinkat(warden->snapshots->pins, box, 0);
}

static fallible base_find(struct warden *warden, const char *base, int *out_root, int *out_usr)
{
	*out_usr = -1;
	if (!strcmp(base, BASE_HOST))
		return template_find(warden->templates, BASE_HOST, out_root, out_usr);
	return template_find_pinned(warden->templates, base, out_root);
}

static fallible snapshot_choose_base(struct warden *warden, const struct order *order,
				     char out[TEMPLATE_ID])
{
	TRY(pin_read(warden->snapshots, order->box, out));
	if (out[0])
		return OK;
	if (str_is(str_of(order->base), BASE_HOST)) {
		snprintf(out, TEMPLATE_ID, BASE_HOST);
		return OK;
	}
	return template_pin(warden->templates, order->base, order->since, out);
}

static bool pin_is(const struct snapshots *all, const char *box, const char *id)
{
	char base[TEMPLATE_ID];
	auto_err unknown = pin_read(all, box, base);

	return unknown || !strcmp(base, id);
}

// Whether a snapshot, or a box that was made from one, needs the template of that id. What cannot
// be read may need it.
static bool snapshot_is_base(void *arg, const char *id)
{
	const struct snapshots *all = arg;
	auto_free struct snapshot_meta *meta = mem_new_of(struct snapshot_meta);
	auto_dir names = path_list(all->dir, ".");
	auto_dir pins = path_list(all->pins, ".");
	struct dirent *entry;

	if (!names || !pins)
		return true;
	while ((entry = path_next(names))) {
		bool is_known, is_one;

		if (str_starts(str_of(entry->d_name), ".gone-"))
			continue;
		is_one = snapshot_look(all, entry->d_name, meta, &is_known);
		if (!is_known || (is_one && !strcmp(meta->base, id)))
			return true;
	}
	while ((entry = path_next(pins)))
		if (pin_is(all, entry->d_name, id))
			return true;
	return false;
}

// ------------------------------------------------------------------------------------------- jobs

static void job_thaw(struct warden *warden, struct snapshot_job *job)
{
	if (!job->froze)
		return;
	job->froze = false;
	job->frozen_us = clock_us() - job->since_us;
	if (group_pause(warden->groups, job->box, false))
		log_event(LOG_ERROR, "snapshot.frozen", "sandbox", job->box, "error",
			  strerror(errno), NULL);
}

// Removes the directory unless it was renamed.
static void job_drop(struct warden *warden, struct snapshot_job *job)
{
	struct snapshots *all = warden->snapshots;

	job_thaw(warden, job);
	if (job->unpacked)
		archive_drop_disk(warden, job->box);
	if (faccessat(all->dir, job->temp, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		err_free(disk_unsave(warden->disk, job->dir));
		err_free(template_discard(warden->templates, job->temp));
	}
	link_drop(&job->link);
	all->job_count--;
	fd_drop(&job->dir);
	fd_drop(&job->report);
	free(job);
}

static void job_refuse(struct warden *warden, struct snapshot_job *job, struct err *err)
{
	log_trace(job->trace);
	if (job->order)
		reply_queue_refusal(warden, ORDER_SNAPSHOT, job->order, job->box, err);
	else
		err_free(err);
	job_drop(warden, job);
	log_trace(NULL);
}

static fallible snapshot_ask_loads(const struct snapshots *all, const char *name)
{
	list_each (at, &all->loads)
		if (!order_is_fork(str_of(name)) &&
		    !strcmp(link_of(at, struct snapshot_load, link)->name, name))
			return err_hint(err_new(CONFLICT, "in_use",
						"a sandbox is being made from the snapshot"),
					"try again in a moment");
	return OK;
}

// The job's directory is then that of the replaced snapshot, which job_drop() removes.
static fallible job_replace(struct snapshots *all, struct snapshot_job *job)
{
	auto_free struct snapshot_meta *meta = mem_new_of(struct snapshot_meta);
	auto_fd old = -1;

	if (!job->again || !snapshot_read(all, job->name, meta))
		return err_hint(
			err_new(CONFLICT, "template_exists", "there is a template '%s'", job->name),
			"choose another name");
	TRY(snapshot_ask_loads(all, job->name));
	TRY(path_dir(all->dir, job->name, 0755, &old));
	if (renameat2(all->dir, job->temp, all->dir, job->name, RENAME_EXCHANGE))
		return err_sys(errno, "replace the snapshot '%s'", job->name);
	fd_drop(&job->dir);
	job->dir = take_fd(&old);
	return OK;
}

static fallible job_publish(struct warden *warden, struct snapshot_job *job)
{
	int dir = warden->snapshots->dir;

	TRY(snapshot_write(job, true));
	TRY(path_sync(job->dir));
	kill_point("warden.snapshot", "complete");
	if (renameat2(dir, job->temp, dir, job->name, RENAME_NOREPLACE)) {
		if (errno != EEXIST)
			return err_sys(errno, "name the snapshot '%s'", job->name);
		TRY(job_replace(warden->snapshots, job));
	}
	TRY(path_sync(dir));
	kill_point("warden.snapshot", "named");
	return OK;
}

static fallible too_large(void)
{
	return err_hint(err_new(CONFLICT, "too_large_live",
				"the copy takes longer than a running sandbox may be frozen"),
			"stop the sandbox first, or free space in it");
}

static fallible snapshot_is_busy(void)
{
	return err_hint(err_new(CONFLICT, "box_changed",
				"the sandbox changed its state while it was copied"),
			"try again");
}

bool snapshot_is_made(const struct warden *warden, const char *box)
{
	list_each (at, &warden->snapshots->jobs)
		if (str_is(str_of(box), link_of(at, struct snapshot_job, link)->box))
			return true;
	return false;
}

// Still stopped, or still to be frozen: nobody has ended, started or thawed it.
static bool is_as_it_was(const struct warden *warden, const struct snapshot_job *job)
{
	const struct warden_box *box = map_get(warden->boxes, str_of(job->box));

	return box && (box->state == WARDEN_BOX_KEPT ||
		       (box->state == WARDEN_BOX_ALIVE && box->pidfd >= 0 &&
			group_pulse(warden->groups, job->box) != GROUP_RUNS));
}

static fallible job_copy(struct warden *warden, struct snapshot_job *job)
{
	struct disk_copy copy;

	if (!is_as_it_was(warden, job))
		return snapshot_is_busy();
	kill_point("warden.snapshot", "frozen");
	TRY(disk_save_begin(warden->disk, job->box, job->dir, &copy));
	TRY(disk_copy_start(&copy, &job->pid, &job->report));
	job->phase = SNAPSHOT_COPYING;
	job->deadline_us = clock_us() + (job->froze ? COPY_PATIENCE_US : COPY_STOPPED_US);
	return OK;
}

// The disk of an archived box is there for the copy.
static void snapshot_restored(struct warden *warden, const struct order *order, struct err *err)
{
	list_each (at, &warden->snapshots->jobs) {
		struct snapshot_job *job = link_of(at, struct snapshot_job, link);

		if (job->phase != SNAPSHOT_UNPACKING || strcmp(job->box, order->box) != 0)
			continue;
		job->unpacked = !err;
		if (!err)
			err = job->order ? job_copy(warden, job) : snapshot_is_busy();
		if (err)
			job_refuse(warden, job, err);
		return;
	}
	err_free(err);
}

static void job_answer(struct warden *warden, struct snapshot_job *job)
{
	struct err *err = job_publish(warden, job);

	if (err) {
		job_refuse(warden, job, err);
		return;
	}
	warden->answer = (struct answer){.kind = ANSWER_DONE,
					 .to = ORDER_SNAPSHOT,
					 .id = job->order,
					 .bytes = job->bytes,
					 .frozen_us = (uint64_t)job->frozen_us};
	reply_queue_answer(warden, &warden->answer, NULL, 0);
	job_drop(warden, job);
}

// The child has copied, or failed: the box runs on in either case.
static fallible job_copied(struct warden *warden, struct snapshot_job *job, int status)
{
	auto_free struct answer *sums = mem_new_of(struct answer);
	struct err *err = jail_report_read(job->report, status, sums);
	bool same = is_as_it_was(warden, job);

	job->files = sums->files;
	job->bytes = sums->bytes;
	kill_point("warden.snapshot", "copied");
	job_thaw(warden, job);
	fd_drop(&job->report);
	if (job->late) {
		err_free(err);
		return too_large();
	}
	TRY(err);
	if (!same || !job->order)
		return snapshot_is_busy();
	job->phase = SNAPSHOT_COMPLETING;
	job->deadline_us = clock_us() + COPY_STOPPED_US;
	return disk_save_complete(job->dir, &job->pid);
}

static void load_reaped(struct snapshots *all, int pid)
{
	list_each (at, &all->loads) {
		struct snapshot_load *load = link_of(at, struct snapshot_load, link);

		if (load->pid != pid)
			continue;
		link_drop(&load->link);
		free(load);
	}
}

bool snapshot_reaped(struct warden *warden, int pid, int status)
{
	struct snapshot_job *job = NULL;
	struct err *err = OK;

	list_each (at, &warden->snapshots->jobs)
		if (link_of(at, struct snapshot_job, link)->pid == pid)
			job = link_of(at, struct snapshot_job, link);
	load_reaped(warden->snapshots, pid);
	if (!job)
		return false;
	job->pid = 0;
	if (job->phase == SNAPSHOT_COPYING)
		err = job_copied(warden, job, status);
	else if (!job->order)
		err = snapshot_is_busy();
	else if (!disk_is_repaired(status))
		err = err_sys(EIO, "complete the snapshot of %s: status %d", job->box, status);
	if (err)
		job_refuse(warden, job, err);
	else if (!job->pid)
		job_answer(warden, job);
	return true;
}

// Returns when to look again.
static int64_t job_turn(struct warden *warden, struct snapshot_job *job, int64_t now)
{
	struct err *err = OK;

	if (job->phase == SNAPSHOT_UNPACKING)
		return CLOCK_NEVER;
	if (job->phase != SNAPSHOT_FREEZING) {
		if (now < job->deadline_us)
			return job->deadline_us;
		job->late = true;
		job->deadline_us = CLOCK_NEVER;
		kill(job->pid, SIGKILL);
		return CLOCK_NEVER;
	}
	if (!job->order) {
		job_refuse(warden, job, snapshot_is_busy());
		return CLOCK_NEVER;
	}
	if (group_pulse(warden->groups, job->box) == GROUP_FROZEN)
		err = job_copy(warden, job);
	else if (now >= job->deadline_us)
		err = err_hint(err_new(TIMEOUT, "not_frozen", "the box does not freeze"),
			       "a process in it is in an uninterruptible wait; try again");
	else
		return now + FROZEN_AGAIN_US;
	if (err) {
		job_refuse(warden, job, err);
		return CLOCK_NEVER;
	}
	return job->deadline_us;
}

int64_t snapshots_turn(struct warden *warden)
{
	int64_t now = clock_us(), next = CLOCK_NEVER;

	list_each (at, &warden->snapshots->jobs) {
		int64_t due = job_turn(warden, link_of(at, struct snapshot_job, link), now);

		next = due < next ? due : next;
	}
	return next;
}

static bool is_one_line(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] == '\n')
			return false;
	return true;
}

static fallible snapshot_may_begin(struct warden *warden, const struct order *order)
{
	auto_free struct snapshot_meta *meta = mem_new_of(struct snapshot_meta);
	const struct warden_box *box = map_get(warden->boxes, str_of(order->box));

	if (!box || box == warden->prebuilt)
		return err_new(NOT_FOUND, "no_box", "there is no such box");
	if (box->state != WARDEN_BOX_KEPT && (box->state != WARDEN_BOX_ALIVE || box->pidfd < 0))
		return snapshot_is_busy();
	if (!is_one_line(str_of(order->note)))
		return err_new(INVALID, "bad_order", "a note is one line");
	if (warden->snapshots->job_count >= JOBS_MAX)
		return err_hint(err_new(EXHAUSTED, "too_many_imports",
					"%d snapshots are being made", JOBS_MAX),
				"wait until one of them is done");
	if (archive_is_busy(warden, order->box) || snapshot_is_made(warden, order->box))
		return snapshot_is_busy();
	if (order_is_fork(str_of(order->name)) ||
	    (order->again && snapshot_read(warden->snapshots, order->name, meta)))
		return OK;
	return template_may_make(warden->templates, order->name);
}

static fallible job_begin(struct warden *warden, struct snapshot_job *job)
{
	const struct warden_box *box = map_get(warden->boxes, str_of(job->box));
	bool runs = box->state == WARDEN_BOX_ALIVE &&
		    group_pulse(warden->groups, job->box) != GROUP_FROZEN;

	struct order unpack = {.kind = ORDER_SNAPSHOT};

	job->froze = runs;
	job->phase = SNAPSHOT_FREEZING;
	TRY(path_dir(warden->snapshots->dir, job->temp, 0755, &job->dir));
	TRY(snapshot_write(job, false));
	kill_point("warden.snapshot", "described");
	job->since_us = clock_us();
	job->deadline_us = job->since_us + FREEZE_PATIENCE_US;
	if (box->has.archive) {
		job->phase = SNAPSHOT_UNPACKING;
		memcpy(unpack.box, job->box, sizeof(unpack.box));
		memcpy(unpack.trace, job->trace, sizeof(unpack.trace));
		return archive_restore(warden, &unpack, true, snapshot_restored);
	}
	if (!runs)
		return job_copy(warden, job);
	if (group_pause(warden->groups, job->box, true))
		return err_sys(errno, "freeze %s", job->box);
	return group_pulse(warden->groups, job->box) == GROUP_FROZEN ? job_copy(warden, job) : OK;
}

fallible snapshot_order(struct warden *warden, const struct order *order)
{
	struct snapshots *all = warden->snapshots;
	struct snapshot_job *job;
	char base[TEMPLATE_ID];
	struct err *err;

	TRY(snapshot_may_begin(warden, order));
	TRY(snapshot_choose_base(warden, order, base));
	job = mem_new_of(struct snapshot_job);
	*job = (struct snapshot_job){.order = order->id, .dir = -1, .report = -1};
	snprintf(job->temp, sizeof(job->temp), UNFINISHED "%llx",
		 (unsigned long long)all->number++);
	memcpy(job->name, order->name, sizeof(job->name));
	memcpy(job->box, order->box, sizeof(job->box));
	memcpy(job->trace, order->trace, sizeof(job->trace));
	memcpy(job->note, order->note, sizeof(job->note));
	memcpy(job->base, base, sizeof(job->base));
	job->again = order->again;
	link_add(&all->jobs, &job->link);
	all->job_count++;
	err = job_begin(warden, job);
	if (err)
		job_drop(warden, job);
	return err;
}

void snapshots_forget(struct warden *warden)
{
	list_each (at, &warden->snapshots->jobs) {
		struct snapshot_job *job = link_of(at, struct snapshot_job, link);

		job->order = 0;
		if (job->pid)
			kill(job->pid, SIGKILL);
	}
}

void snapshot_yield(struct warden *warden, const char *box)
{
	list_each (at, &warden->snapshots->jobs) {
		struct snapshot_job *job = link_of(at, struct snapshot_job, link);

		if (!strcmp(job->box, box))
			job->froze = false;
	}
}

fallible snapshot_describe(struct warden *warden, const struct order *order)
{
	auto_free struct snapshot_meta *meta = mem_new_of(struct snapshot_meta);

	warden->answer = (struct answer){
		.kind = ANSWER_DONE, .to = ORDER_DESCRIBE, .id = order->id};
	if (snapshot_read(warden->snapshots, order->name, meta))
		memcpy(warden->answer.note, meta->note, sizeof(meta->note));
	reply_queue_answer(warden, &warden->answer, NULL, 0);
	return OK;
}

fallible snapshot_forget(struct warden *warden, const char *name, bool *out_done)
{
	auto_free struct snapshot_meta *meta = mem_new_of(struct snapshot_meta);
	struct snapshots *all = warden->snapshots;
	char aside[NAME_ROOM];
	auto_fd dir = -1;

	*out_done = false;
	if (!snapshot_read(all, name, meta))
		return OK;
	TRY(snapshot_ask_loads(all, name));
	TRY(path_dir(all->dir, name, 0755, &dir));
	// From here on it is what a killed warden has left.
	snprintf(aside, sizeof(aside), UNFINISHED "%llx", (unsigned long long)all->number++);
	if (renameat2(all->dir, name, all->dir, aside, RENAME_NOREPLACE))
		return err_sys(errno, "set the snapshot '%s' aside", name);
	TRY(path_sync(all->dir));
	kill_point("warden.snapshot", "aside");
	*out_done = true;
	TRY(disk_unsave(warden->disk, dir));
	return template_discard(warden->templates, aside);
}

static fallible base_view(int root, int userns, int *out_tree)
{
	int tree = mount_copy(root, "");

	*out_tree = tree;
	if (tree < 0 || mount_change(tree, MOUNT_STILL, 0, userns))
		return err_sys(errno, "map the ids of the base of a snapshot");
	return OK;
}

static fallible not_layered(void)
{
	return err_hint(err_new(INVALID, "not_layered",
				"the files below are those of this host, and no layer of an image"),
			"export it squashed: everything in one layer");
}

static fallible trees_of_snapshot(struct warden *warden, const struct order *order,
				  const struct snapshot_meta *meta, int userns,
				  struct export_trees *out)
{
	auto_fd dir = -1;
	auto_fd root = -1;
	auto_fd usr = -1;

	if (!strcmp(meta->base, BASE_HOST) && order->part != ORDER_PART_ALL)
		return not_layered();
	TRY(base_find(warden, meta->base, &root, &usr));
	TRY(base_view(root, userns, &out->base));
	if (order->part == ORDER_PART_BASE)
		return OK;
	if (usr >= 0)
		TRY(base_view(usr, userns, &out->usr));
	TRY(path_dir(warden->snapshots->dir, order->name, 0755, &dir));
	out->changes = order->part == ORDER_PART_CHANGES;
	return disk_view(warden->disk, dir, userns, &out->disk);
}

fallible snapshot_trees(struct warden *warden, const struct order *order, int userns,
			struct export_trees *out)
{
	auto_free struct snapshot_meta *meta = mem_new_of(struct snapshot_meta);

	if (!strcmp(order->name, BASE_HOST))
		return not_layered();
	if (snapshot_read(warden->snapshots, order->name, meta))
		return trees_of_snapshot(warden, order, meta, userns, out);
	TRY(template_view(warden->templates, order->name, userns, &out->base));
	if (!order->parent[0])
		return OK;
	return template_view(warden->templates, order->parent, userns, &out->parent);
}

// Forks that are still being loaded go with the next daemon.
void snapshots_forget_forks(struct warden *warden)
{
	auto_dir list = path_list(warden->snapshots->dir, ".");
	struct dirent *entry;

	while (list && (entry = path_next(list))) {
		bool done;

		if (order_is_fork(str_of(entry->d_name)))
			err_free(snapshot_forget(warden, entry->d_name, &done));
	}
}

// ------------------------------------------------------------------------------------------ loads

bool snapshot_is_loaded_for(struct warden *warden, const struct order *order)
{
	auto_free struct snapshot_meta *meta = mem_new_of(struct snapshot_meta);

	return !order->again && strcmp(order->name, BASE_HOST) != 0 &&
	       snapshot_read(warden->snapshots, order->name, meta);
}

fallible snapshot_load(struct warden *warden, const struct order *order, int *out_pid,
		       int *out_report)
{
	auto_free struct snapshot_meta *meta = mem_new_of(struct snapshot_meta);
	struct snapshots *all = warden->snapshots;
	struct snapshot_load *load;
	struct disk_copy copy;
	auto_fd dir = -1;

	if (!snapshot_read(all, order->name, meta))
		return err_new(NOT_FOUND, "no_template", "there is no template '%s'", order->name);
	TRY(path_dir(all->dir, order->name, 0755, &dir));
	TRY(disk_load_begin(warden->disk, dir, order->box, &order->limits, meta->bytes, &copy));
	TRY(disk_copy_start(&copy, out_pid, out_report));
	load = mem_new_of(struct snapshot_load);
	load->pid = *out_pid;
	memcpy(load->name, order->name, sizeof(load->name));
	link_add(&all->loads, &load->link);
	return OK;
}

fallible snapshot_find(struct warden *warden, const struct order *order, int *out_root,
		       int *out_usr)
{
	auto_free struct snapshot_meta *meta = mem_new_of(struct snapshot_meta);
	struct snapshots *all = warden->snapshots;
	char base[TEMPLATE_ID] = "";

	if (order->again)
		TRY(pin_read(all, order->box, base));
	if (base[0])
		return base_find(warden, base, out_root, out_usr);
	if (!snapshot_is_loaded_for(warden, order) || !snapshot_read(all, order->name, meta))
		return template_find(warden->templates, order->name, out_root, out_usr);
	TRY(path_write_sync(all->pins, order->box, 0600, str_of(meta->base)));
	return base_find(warden, meta->base, out_root, out_usr);
}

// ------------------------------------------------------------------------------------------ start

// What an earlier warden was at: its box runs on, its directory goes.
static void snapshots_undo(struct snapshots *all, const char *name)
{
	auto_free struct snapshot_meta *meta = mem_new_of(struct snapshot_meta);
	struct warden *warden = all->warden;
	const struct warden_box *box;

	if (snapshot_read(all, name, meta) && meta->frozen) {
		box = map_get(warden->boxes, str_of(meta->box));
		if (box && box->state == WARDEN_BOX_ALIVE &&
		    group_pause(warden->groups, meta->box, false))
			log_event(LOG_ERROR, "snapshot.frozen", "sandbox", meta->box, "error",
				  strerror(errno), NULL);
	}
	err_free(template_discard(warden->templates, name));
}

// Boxes that ended while no warden looked.
static void drop_stale_pins(struct snapshots *all)
{
	auto_dir pins = path_list(all->pins, ".");
	struct dirent *entry;

	while (pins && (entry = path_next(pins)))
		if (!map_get(all->warden->boxes, str_of(entry->d_name)))
			unlinkat(all->pins, entry->d_name, 0);
}

static fallible snapshots_start(struct snapshots *all)
{
	struct warden *warden = all->warden;
	struct map *known = map_new();
	bool all_known = true;
	struct dirent *entry;
	auto_dir list = NULL;

	all->dir = templates_dir(warden->templates);
	TRY(path_dir(all->dir, PINS, 0700, &all->pins));
	drop_stale_pins(all);
	list = path_list(all->dir, ".");
	if (!list)
		return err_sys(errno, "list the snapshots");
	while ((entry = path_next(list))) {
		auto_buf saved = BUF_INIT(64);
		char path[sizeof(entry->d_name) + sizeof(DISK_SAVED_POOL) + 1];
		auto_err none = OK;

		if (str_starts(str_of(entry->d_name), UNFINISHED)) {
			snapshots_undo(all, entry->d_name);
			continue;
		}
		snprintf(path, sizeof(path), "%s/" DISK_SAVED_POOL, entry->d_name);
		none = path_read(all->dir, path, &saved);
		if (!none && saved.len)
			map_put(known, buf_view(&saved), all);
		if (none && err_kind(none) != ERR_NOT_FOUND) {
			log_event(LOG_ERROR, "snapshot.unreadable", "snapshot", entry->d_name,
				  "trail", err_trail(none), NULL);
			all_known = false;
		}
	}
	if (all_known) // else the disk of one that exists may look like a leftover
		disk_sweep_saved(warden->disk, known);
	map_free(known);
	return OK;
}

fallible snapshots_open(struct warden *warden, struct snapshots **out)
{
	struct snapshots *all = mem_new_of(struct snapshots);
	struct err *err;

	*all = (struct snapshots){
		.warden = warden, .pins = -1, .number = (uint64_t)clock_wall_ms() << 8};
	link_init(&all->jobs);
	link_init(&all->loads);
	err = snapshots_start(all);
	if (err) {
		fd_drop(&all->pins);
		free(all);
		return err;
	}
	templates_on_idle(warden->templates, snapshot_is_base, all);
	*out = all;
	return OK;
}

void snapshots_close(struct snapshots *all)
{
	if (!all)
		return;
	list_each (at, &all->jobs) {
		struct snapshot_job *job = link_of(at, struct snapshot_job, link);

		helper_end(job->pid);
		job_drop(all->warden, job);
	}
	list_each (at, &all->loads) {
		link_drop(at);
		free(link_of(at, struct snapshot_load, link));
	}
	fd_drop(&all->pins);
	free(all);
}
