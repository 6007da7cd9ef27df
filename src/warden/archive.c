// Packs the disk of a stopped box into a file, and unpacks it when the box is built again or
// copied. Both run in the jail: the files are a sandbox's, and the file may be damaged. The order
// of the steps lets a kill of the warden leave the disk, the archive, or both:
//	pack	the file is written, synced, read back; meta; rename of the directory; drop the disk
//	unpack	the disk is filled and synced; the archive is renamed away; the box is built
// The archive is preferred wherever both exist, because only it is known to be complete.
//
// syscalls: openat close pipe2 renameat2 unlinkat getdents64 newfstatat fstat kill fsync
#include "warden/archive.h"

#include <assert.h>
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
#include "os/path.h"
#include "warden/disk_copy.h"
#include "warden/export.h"
#include "warden/helper.h"
#include "warden/jail.h"
#include "warden/overlay_marks.h"
#include "warden/private_dir.h"
#include "warden/reply_queue.h"
#include "warden/template.h"
#include "warden/unpack.h"

#define ARCHIVE_PREFIX ".archive-"
#define ARCHIVE_UNFINISHED ".pack-"
#define ARCHIVE_FILE "files.tar.zst"
#define ARCHIVE_NAME (sizeof(ARCHIVE_PREFIX) + ID_BOX_LEN)
#define ARCHIVE_META 1024
#define ARCHIVE_JOBS_MAX 8
#define ARCHIVE_PATIENCE_US (60 * 60 * 1000000ll)
#define ARCHIVE_UNMOUNT_US 30000000
#define ARCHIVE_AGAIN_US 2000

enum archive_phase {
	ARCHIVE_REPAIRING, // e2fsck works on the disk that is to be packed
	ARCHIVE_PACKING,
	ARCHIVE_DROPPING, // the archive has its name; the disk is to go
	ARCHIVE_UNPACKING,
	ARCHIVE_MARKING,   // a child sets the attributes that the jail could not
	ARCHIVE_UNMOUNTING // the disk is whole, and its mount still being put down
};

struct archive_meta {
	uint64_t bytes, content, disk, inodes; // of the file, of the disk; limits of the disk
	char diff_id[ORDER_DIGEST + 1];
};

struct archive_job {
	struct link link;
	enum archive_phase phase;
	struct order order; // id 0: its daemon is gone
	char temp[ARCHIVE_NAME];
	int dir, pid, report; // pid 0: no child
	int tree;	      // of an unpacking; -1: none
	bool keep, cancelled;
	archive_restored *done; // of an unpacking
	uint64_t content;
	struct err *err; // of an unpacking, once it is known
	uint32_t back;	 // the order that ended a packing; 0: none
	int64_t deadline_us;
};

struct archives {
	int dir; // of all templates, borrowed
	uint64_t number;
	struct link jobs;
	int job_count;
};

static void archive_name(char out[ARCHIVE_NAME], const char *box)
{
	snprintf(out, ARCHIVE_NAME, ARCHIVE_PREFIX "%s", box);
}

static struct archive_job *archive_job_of(const struct archives *all, const char *box, int pid)
{
	list_each (at, &all->jobs) {
		struct archive_job *job = link_of(at, struct archive_job, link);

		if (box ? !strcmp(job->order.box, box) : job->pid == pid)
			return job;
	}
	return NULL;
}

static void archive_job_drop(struct warden *warden, struct archive_job *job)
{
	struct archives *all = warden->archives;

	if (job->temp[0] && faccessat(all->dir, job->temp, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		err_free(template_discard(warden->templates, job->temp));
	link_drop(&job->link);
	all->job_count--;
	fd_drop(&job->dir);
	fd_drop(&job->tree);
	fd_drop(&job->report);
	err_free(job->err);
	free(job);
	if (!templates_at_work(warden->templates) && !all->job_count)
		jail_close(warden->groups, &warden->jail_door);
}

// ------------------------------------------------------------------------------------------- meta

static fallible archive_meta_read(const struct archives *all, const char *box,
				  struct archive_meta *out)
{
	auto_buf text = BUF_INIT(ARCHIVE_META);
	char path[ARCHIVE_NAME + sizeof("/meta")];
	struct str rest, line, key;

	snprintf(path, sizeof(path), ARCHIVE_PREFIX "%s/meta", box);
	TRY(path_read(all->dir, path, &text));
	*out = (struct archive_meta){0};
	rest = buf_view(&text);
	while (str_cut(&rest, '\n', &line)) {
		if (!str_cut(&line, '=', &key))
			continue;
		if (str_is(key, "bytes"))
			str_to_u64(line, 0, INT64_MAX, &out->bytes);
		else if (str_is(key, "content"))
			str_to_u64(line, 0, INT64_MAX, &out->content);
		else if (str_is(key, "disk"))
			str_to_u64(line, 0, INT64_MAX, &out->disk);
		else if (str_is(key, "inodes"))
			str_to_u64(line, 0, INT64_MAX, &out->inodes);
		else if (str_is(key, "diff_id"))
			snprintf(out->diff_id, sizeof(out->diff_id), STR_FMT, STR_ARG(line));
	}
	return OK;
}

static fallible archive_meta_write(const struct archive_job *job, const struct answer *sums)
{
	auto_buf text = BUF_INIT(ARCHIVE_META);

	buf_fmt(&text,
		"kind=archive\ncreated=%lld\nbytes=%llu\nfiles=%llu\ncontent=%llu\ndisk=%llu\n"
		"inodes=%llu\ndigest=%s\ndiff_id=%s\n",
		(long long)clock_wall_ms(), (unsigned long long)sums->bytes,
		(unsigned long long)sums->files, (unsigned long long)job->content,
		(unsigned long long)job->order.limits.disk,
		(unsigned long long)job->order.limits.inodes, sums->digest, sums->diff_id);
	if (!buf_ok(&text))
		return err_sys(ENOMEM, "describe an archive");
	return path_write_sync(job->dir, "meta", 0600, buf_view(&text));
}

bool archive_sizes(const struct warden *warden, const char *box, uint64_t *out_file,
		   uint64_t *out_content)
{
	const struct warden_box *known = map_get(warden->boxes, str_of(box));
	struct archive_meta meta;
	auto_err err = OK;

	if (!known || !known->has.archive)
		return false;
	err = archive_meta_read(warden->archives, box, &meta);
	*out_file = err ? 0 : meta.bytes;
	*out_content = err ? 0 : meta.content;
	return true;
}

// ------------------------------------------------------------------------------------------- jobs

static fallible archive_busy(void)
{
	return err_hint(err_new(UNAVAILABLE, "disk_busy",
				"the files of the sandbox are being packed or unpacked"),
			"try again in a moment");
}

static fallible archive_job_new(struct warden *warden, const struct order *order,
				struct archive_job **out)
{
	struct archives *all = warden->archives;
	struct archive_job *job;

	if (archive_job_of(all, order->box, 0))
		return archive_busy();
	if (all->job_count >= ARCHIVE_JOBS_MAX)
		return err_hint(err_new(EXHAUSTED, "too_many_imports",
					"the files of %d sandboxes are being packed or unpacked",
					ARCHIVE_JOBS_MAX),
				"try again in a moment");
	job = mem_new_of(struct archive_job);
	*job = (struct archive_job){.order = *order,
				    .dir = -1,
				    .tree = -1,
				    .report = -1,
				    .deadline_us = clock_us() + ARCHIVE_PATIENCE_US};
	link_add(&all->jobs, &job->link);
	all->job_count++;
	*out = job;
	return OK;
}

static fallible archive_start_jail(struct warden *warden, struct archive_job *job,
				   struct jail *jail)
{
	auto_fd report = -1;
	int fds[2];

	TRY(jail_open(warden->groups, &warden->jail_door));
	if (pipe2(fds, O_CLOEXEC))
		return err_sys(errno, "make a pipe for a child's report");
	job->report = fds[0];
	report = fds[1];
	jail->userns = warden->jail_userns;
	jail->door = &warden->jail_door;
	jail->report = report;
	jail->raw = true;
	jail->parent = jail->into = -1;
	return jail_start(jail, &job->pid);
}

// -------------------------------------------------------------------------------------------- pack

static fallible archive_pack(struct warden *warden, struct archive_job *job)
{
	on_exit_call(export_trees_close) struct export_trees trees = {
		.base = -1, .usr = -1, .disk = -1, .parent = -1, .raw = true};
	auto_fd file = -1;
	uint64_t room;

	job->phase = ARCHIVE_PACKING;
	TRY(disk_again(warden->disk, job->order.box, &job->order.limits, warden->jail_userns,
		       &trees.disk));
	if (!disk_used(warden->disk, job->order.box, &job->content))
		job->content = 0;
	TRY(private_dir_room(warden->data, NULL, &room));
	TRY(path_dir(warden->archives->dir, job->temp, 0700, &job->dir));
	file = openat(job->dir, ARCHIVE_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return err_sys(errno, "make an archive");
	kill_point("warden.archive", "begun");
	return archive_start_jail(warden, job,
				  &(struct jail){.tree = trees.disk,
						 .archive = file,
						 .bytes_max = room,
						 .trees = &trees,
						 .zstd = true});
}

static fallible archive_box_changed(void)
{
	return err_hint(err_new(CONFLICT, "box_changed",
				"the sandbox changed its state while it was archived"),
			"try again");
}

// The box, if its disk is still there and nothing but that.
static struct warden_box *archive_box(const struct warden *warden, const struct archive_job *job)
{
	struct warden_box *box = map_get(warden->boxes, str_of(job->order.box));

	return box && box->state == WARDEN_BOX_KEPT ? box : NULL;
}

static fallible archive_publish(struct warden *warden, struct archive_job *job,
				const struct answer *sums)
{
	struct archives *all = warden->archives;
	struct warden_box *box = archive_box(warden, job);
	char name[ARCHIVE_NAME];
	struct err *err;

	if (!box || !box->has.disk || job->cancelled || !job->order.id)
		return archive_box_changed();
	kill_point("warden.archive", "packed");
	TRY(archive_meta_write(job, sums));
	TRY(path_sync(job->dir));
	kill_point("warden.archive", "described");
	archive_name(name, job->order.box);
	if (renameat2(all->dir, job->temp, all->dir, name, RENAME_NOREPLACE))
		return err_sys(errno, "name the archive of %s", job->order.box);
	err = path_sync(all->dir);
	if (err) { // the disk goes on: a later start must not prefer the archive
		renameat2(all->dir, name, all->dir, job->temp, RENAME_NOREPLACE);
		return err;
	}
	kill_point("warden.archive", "named");
	box->has.archive = true;
	job->phase = ARCHIVE_DROPPING;
	job->deadline_us = CLOCK_NEVER;
	return OK;
}

static void archive_back(struct warden *warden, const struct order *order, struct err *err)
{
	if (!order->id)
		err_free(err);
	else if (err)
		reply_queue_refusal(warden, ORDER_ARCHIVE, order->id, order->box, err);
	else
		reply_queue_done(warden, ORDER_ARCHIVE, order->id);
}

static void archive_refuse(struct warden *warden, struct archive_job *job, struct err *err)
{
	log_event(LOG_WARN, "archive.refused", "sandbox", job->order.box, "trail", err_trail(err),
		  NULL);
	if (job->order.id)
		reply_queue_refusal(warden, ORDER_ARCHIVE, job->order.id, job->order.box, err);
	else
		err_free(err);
	if (!job->back) {
		archive_job_drop(warden, job);
		return;
	}
	// The disk can be mounted again when the child's mount is gone.
	job->order.id = job->back;
	job->cancelled = false;
	job->keep = true;
	job->done = archive_back;
	job->phase = ARCHIVE_UNMOUNTING;
	job->deadline_us = clock_us() + ARCHIVE_UNMOUNT_US;
}

static void archive_answer(struct warden *warden, uint32_t id, const char *box_id)
{
	uint64_t content;

	warden->answer = (struct answer){.kind = ANSWER_DONE, .to = ORDER_ARCHIVE, .id = id};
	archive_sizes(warden, box_id, &warden->answer.bytes, &content);
	reply_queue_answer(warden, &warden->answer, NULL, 0);
}

// Tried again until the mount of the child is gone.
static bool archive_finish(struct warden *warden, struct archive_job *job)
{
	struct warden_box *box = archive_box(warden, job);
	auto_err err = box ? disk_drop(warden->disk, job->order.box) : OK;

	if (err)
		return false;
	kill_point("warden.archive", "dropped");
	if (box)
		box->has.disk = false;
	if (job->order.id)
		archive_answer(warden, job->order.id, job->order.box);
	archive_job_drop(warden, job);
	return true;
}

// Back to a disk: ends a packing, or unpacks.
static fallible archive_undo(struct warden *warden, const struct order *order,
			     const struct warden_box *box)
{
	struct archive_job *job = archive_job_of(warden->archives, order->box, 0);

	if (job && job->phase > ARCHIVE_PACKING)
		return archive_busy();
	if (job && job->back)
		return archive_busy();
	if (job) {
		job->back = order->id;
		job->cancelled = true;
		if (job->phase == ARCHIVE_PACKING)
			kill(job->pid, SIGKILL);
		return OK;
	}
	if (box->has.archive)
		return archive_restore(warden, order, false, archive_back);
	reply_queue_done(warden, ORDER_ARCHIVE, order->id);
	return OK;
}

fallible archive_order(struct warden *warden, const struct order *order)
{
	struct warden_box *box = map_get(warden->boxes, str_of(order->box));
	struct archives *all = warden->archives;
	struct archive_job *job = NULL;
	struct err *err;

	if (!box || box == warden->prebuilt)
		return err_new(NOT_FOUND, "no_box", "there is no such box");
	if (box->state != WARDEN_BOX_KEPT)
		return err_hint(err_new(CONFLICT, "not_stopped", "the sandbox is not stopped"),
				"stop it first");
	if (order->again)
		return archive_undo(warden, order, box);
	TRY(archive_job_new(warden, order, &job));
	assert(job);
	if (box->has.archive) {
		job->phase = ARCHIVE_DROPPING; // if an earlier order has left the disk
		archive_finish(warden, job);
		return OK;
	}
	snprintf(job->temp, sizeof(job->temp), ARCHIVE_UNFINISHED "%llx",
		 (unsigned long long)all->number++);
	err = disk_repair(warden->disk, order->box, &job->pid);
	if (!err && !job->pid)
		err = archive_pack(warden, job);
	if (err)
		archive_job_drop(warden, job);
	return err;
}

// ------------------------------------------------------------------------------------------ unpack

static fallible archive_damaged(struct err *err)
{
	if (!err || (err_kind(err) != ERR_INVALID && err_kind(err) != ERR_NOT_FOUND &&
		     err_kind(err) != ERR_TOO_LARGE))
		return err;
	return err_hint(
		err_recast(err, ERR_CONFLICT, "archive_damaged",
			   "the archive of the sandbox is damaged, and nothing was changed"),
		"its file is in layers/" ARCHIVE_PREFIX "BOX of the data directory: "
		"restore it from a backup of the host, or delete the sandbox");
}

static fallible archive_unpack(struct warden *warden, struct archive_job *job)
{
	struct warden_box *box = archive_box(warden, job);
	struct limits limits = job->order.limits;
	struct archive_meta meta = {0};
	char path[ARCHIVE_NAME + sizeof(ARCHIVE_FILE)];
	auto_fd file = -1;
	uint64_t room;

	job->phase = ARCHIVE_UNPACKING;
	TRY(archive_damaged(archive_meta_read(warden->archives, job->order.box, &meta)));
	snprintf(path, sizeof(path), ARCHIVE_PREFIX "%s/" ARCHIVE_FILE, job->order.box);
	file = openat(warden->archives->dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (file < 0 && errno == ENOENT)
		return archive_damaged(
			err_new(INVALID, "bad_archive", "the file of the archive is missing"));
	if (file < 0)
		return err_sys(errno, "open the archive of %s", job->order.box);
	if (!limits.memory) // of no BUILD
		limits = (struct limits){.disk = meta.disk, .inodes = meta.inodes};
	TRY(private_dir_room(warden->data, NULL, &room));
	if (room < meta.content)
		return err_hint(err_new(NO_SPACE, "host_disk_full",
					"the disk of the host has no room for the sandbox's files"),
				"delete sandboxes, snapshots or templates, or free space");
	TRY(disk_drop(warden->disk, job->order.box)); // a killed warden's
	TRY(disk_make(warden->disk, job->order.box, &limits, true, warden->jail_userns,
		      &job->tree));
	box->has.disk = true;
	kill_point("warden.archive", "disk_made");
	return archive_start_jail(warden, job,
				  &(struct jail){.tree = job->tree,
						 .archive = file,
						 .bytes_max = UNPACK_RAW_MAX,
						 .digest = meta.diff_id});
}

void archive_drop_disk(struct warden *warden, const char *box_id)
{
	struct warden_box *box = map_get(warden->boxes, str_of(box_id));
	auto_err err = OK;

	if (!box || box->state != WARDEN_BOX_KEPT || !box->has.archive)
		return;
	err = disk_drop(warden->disk, box_id);
	if (err)
		log_event(LOG_WARN, "disk.busy", "sandbox", box_id, "trail", err_trail(err), NULL);
	else
		box->has.disk = false;
}

fallible archive_drop(struct warden *warden, const char *box_id)
{
	struct archives *all = warden->archives;
	struct warden_box *box = map_get(warden->boxes, str_of(box_id));
	char name[ARCHIVE_NAME], aside[ARCHIVE_NAME];

	if (!box || !box->has.archive)
		return OK;
	archive_name(name, box_id);
	snprintf(aside, sizeof(aside), ARCHIVE_UNFINISHED "%llx",
		 (unsigned long long)all->number++);
	if (renameat2(all->dir, name, all->dir, aside, RENAME_NOREPLACE) && errno != ENOENT)
		return err_sys(errno, "set the archive of %s aside", box_id);
	box->has.archive = false; // before what can fail: from here on the disk is all there is
	TRY(path_sync(all->dir));
	return template_discard(warden->templates, aside);
}

// The disk has all that the archive holds, and is mounted nowhere. True: it ended.
static bool archive_settle(struct warden *warden, struct archive_job *job)
{
	struct warden_box *box = archive_box(warden, job);
	struct order order = job->order;
	archive_restored *done = job->done;
	struct err *err;

	if (box && !job->err && !disk_is_unmounted(warden->disk, order.box) &&
	    clock_us() < job->deadline_us)
		return false;
	if (!box || job->cancelled)
		err = archive_box_changed();
	else
		err = take_ptr(job->err);
	if (!err && !job->keep) {
		kill_point("warden.archive", "unpacked");
		err = archive_drop(warden, order.box);
		kill_point("warden.archive", "removed");
	}
	if (err && job->temp[0] == 0)
		archive_drop_disk(warden, order.box);
	archive_job_drop(warden, job);
	done(warden, &order, err);
	return true;
}

fallible archive_restore(struct warden *warden, const struct order *order, bool keep,
			 archive_restored *done)
{
	struct archive_job *job = NULL;
	struct err *err;

	TRY(archive_job_new(warden, order, &job));
	assert(job);
	job->keep = keep;
	job->done = done;
	err = archive_unpack(warden, job);
	if (err) {
		archive_drop_disk(warden, order->box);
		archive_job_drop(warden, job);
	}
	return err;
}

// ------------------------------------------------------------------------------------------ events

static struct err *archive_judge(struct archive_job *job, int status, struct answer *sums)
{
	struct err *err = jail_report_read(job->report, status, sums);

	fd_drop(&job->report);
	if (job->cancelled) {
		err_free(err);
		err = err_new(CANCELLED, "destroyed", "the box was deleted meanwhile");
	}
	return err;
}

static void archive_packed(struct warden *warden, struct archive_job *job, int status)
{
	auto_free struct answer *sums = mem_new_of(struct answer);
	struct err *err = archive_judge(job, status, sums);

	if (!err)
		err = archive_publish(warden, job, sums);
	if (err)
		archive_refuse(warden, job, err);
	else
		archive_finish(warden, job);
}

static void archive_repaired(struct warden *warden, struct archive_job *job, int status)
{
	struct err *err = OK;

	if (!archive_box(warden, job) || job->cancelled || !job->order.id)
		err = archive_box_changed();
	else if (!disk_is_repaired(status))
		err = err_sys(EIO, "repair the disk of %s: status %d", job->order.box, status);
	else
		err = archive_pack(warden, job);
	if (err)
		archive_refuse(warden, job, err);
}

static fallible archive_mark(struct archive_job *job)
{
	struct disk_copy copy = {.run = overlay_marks_apply, .count = 1};

	copy.fds[0] = take_fd(&job->tree);
	job->phase = ARCHIVE_MARKING;
	return disk_copy_start(&copy, &job->pid, &job->report);
}

bool archive_reaped(struct warden *warden, int pid, int status)
{
	struct archive_job *job = archive_job_of(warden->archives, NULL, pid);
	auto_free struct answer *sums = NULL;

	if (!job || pid <= 0)
		return false;
	log_trace(job->order.trace);
	job->pid = 0;
	switch (job->phase) {
	case ARCHIVE_REPAIRING:
		archive_repaired(warden, job, status);
		break;
	case ARCHIVE_PACKING:
		archive_packed(warden, job, status);
		break;
	default:
		sums = mem_new_of(struct answer);
		job->err = archive_damaged(archive_judge(job, status, sums));
		if (!job->err && job->phase == ARCHIVE_UNPACKING)
			job->err = archive_mark(job);
		if (job->pid)
			break;
		fd_drop(&job->tree);
		job->phase = ARCHIVE_UNMOUNTING;
		job->deadline_us = clock_us() + ARCHIVE_UNMOUNT_US;
		archive_settle(warden, job);
	}
	log_trace(NULL);
	return true;
}

int64_t archives_turn(struct warden *warden)
{
	int64_t now = clock_us(), next = CLOCK_NEVER;

	list_each (at, &warden->archives->jobs) {
		struct archive_job *job = link_of(at, struct archive_job, link);
		int64_t due = now + ARCHIVE_AGAIN_US;

		if (job->phase == ARCHIVE_DROPPING) {
			if (archive_finish(warden, job))
				continue;
		} else if (job->phase == ARCHIVE_UNMOUNTING) {
			if (archive_settle(warden, job))
				continue;
		} else {
			if (now >= job->deadline_us) {
				kill(job->pid, SIGKILL);
				job->deadline_us = CLOCK_NEVER;
			}
			due = job->deadline_us;
		}
		next = due < next ? due : next;
	}
	return next;
}

bool archive_is_busy(const struct warden *warden, const char *box)
{
	return archive_job_of(warden->archives, box, 0);
}

bool archives_at_work(const struct warden *warden)
{
	return warden->archives->job_count > 0;
}

void archive_cancel(struct warden *warden, const char *box)
{
	struct archive_job *job = archive_job_of(warden->archives, box, 0);

	if (!job)
		return;
	job->cancelled = true;
	if (job->pid > 0 && job->phase != ARCHIVE_REPAIRING)
		kill(job->pid, SIGKILL);
}

void archives_forget(struct warden *warden)
{
	list_each (at, &warden->archives->jobs) {
		struct archive_job *job = link_of(at, struct archive_job, link);

		job->order.id = job->back = 0;
		if (job->pid > 0 && job->phase == ARCHIVE_PACKING)
			kill(job->pid, SIGKILL);
	}
}

// ------------------------------------------------------------------------------------------- start

// The archive of an earlier warden, by the name of its box.
static fallible archive_take_up(struct warden *warden, const char *box_id)
{
	struct warden_box *box = map_get(warden->boxes, str_of(box_id));

	if (!box)
		box = warden_box_new(warden, box_id, WARDEN_BOX_KEPT);
	box->has.archive = true;
	if (box->state != WARDEN_BOX_KEPT) // it was built from the disk that the archive has filled
		return archive_drop(warden, box_id);
	if (!box->has.disk)
		return OK;
	TRY(disk_drop(warden->disk, box_id));
	box->has.disk = false;
	return OK;
}

static fallible archives_recover(struct warden *warden, struct archives *all)
{
	auto_dir list = NULL;
	struct dirent *entry;

	all->dir = templates_dir(warden->templates);
	list = path_list(all->dir, ".");
	if (!list)
		return err_sys(errno, "list the archives");
	while ((entry = path_next(list))) {
		struct str name = str_of(entry->d_name);

		if (str_starts(name, ARCHIVE_UNFINISHED))
			TRY(template_discard(warden->templates, entry->d_name));
		else if (str_starts(name, ARCHIVE_PREFIX) &&
			 id_is_box(str_skip(name, strlen(ARCHIVE_PREFIX))))
			TRY(archive_take_up(warden, entry->d_name + strlen(ARCHIVE_PREFIX)));
	}
	return OK;
}

fallible archives_open(struct warden *warden, struct archives **out)
{
	struct archives *all = mem_new_of(struct archives);

	*all = (struct archives){.dir = -1, .number = (uint64_t)clock_wall_ms() << 8};
	link_init(&all->jobs);
	*out = all;
	return archives_recover(warden, all);
}

void archives_close(struct warden *warden)
{
	struct archives *all = warden->archives;

	if (!all)
		return;
	list_each (at, &all->jobs) {
		struct archive_job *job = link_of(at, struct archive_job, link);

		helper_end(job->pid);
		archive_job_drop(warden, job);
	}
	free(all);
	warden->archives = NULL;
}
