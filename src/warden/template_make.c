// Makes templates: import and freeze. A child fills a directory with a temporary name and reports
// over a pipe. When the child is reaped the directory is renamed to the template's name, or
// removed.
//
// syscalls: openat close renameat2 newfstatat clone pipe2 fcntl prctl close_range setpriority
// syscalls: exit_group read dup2 dup3 syncfs open_tree mount_setattr fsync renameat unlinkat fchmod write
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/mount.h"
#include "os/path.h"
#include "warden/disk_room.h"
#include "warden/jail.h"
#include "warden/template.h"
#include "warden/template_cache.h"
#include "warden/unpack.h"

#define JOBS_MAX 4
#define META_MAX 4096

// Whether a template of that name may be made now.
static fallible may_make(struct templates *all, const char *name)
{
	struct stat st;
	bool taken;

	if (!id_is_template(str_of(name)))
		return err_hint(err_new(INVALID, "bad_name", "that is no name for a template"),
				"use a-z, 0-9, '.', '_' and '-', 63 at most");
	taken = !strcmp(name, "host") ||
		fstatat(all->layers.dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	list_each (at, &all->jobs)
		taken |= !strcmp(link_of(at, struct template_cache_job, link)->name, name);
	if (taken)
		return err_hint(
			err_new(CONFLICT, "template_exists", "there is a template '%s'", name),
			"choose another name, or delete that one first");
	if (all->job_count >= JOBS_MAX)
		return err_new(EXHAUSTED, "too_many_imports", "%d templates are being made",
			       JOBS_MAX);
	return OK;
}

static fallible job_new(struct templates *all, const struct order *order,
			struct template_cache_job **out, int *out_dir)
{
	struct template_cache_job *job;
	auto_fd root = -1;
	auto_fd dir = -1;
	char temp[TEMPLATE_CACHE_NAME];

	TRY(may_make(all, order->name));
	snprintf(temp, sizeof(temp), ORDER_UNFINISHED "%llx", (unsigned long long)all->number++);
	TRY(path_dir(all->layers.dir, temp, 0755, &dir));
	TRY(path_dir(dir, "root", 0755, &root));
	job = mem_new_of(struct template_cache_job);
	*job = (struct template_cache_job){.kind = order->kind, .order = order->id, .report = -1};
	memcpy(job->name, order->name, sizeof(job->name));
	memcpy(job->temp, temp, sizeof(job->temp));
	link_add(&all->jobs, &job->link);
	all->job_count++;
	*out = job;
	*out_dir = take_fd(&dir);
	return OK;
}

static fallible report_pipe(struct template_cache_job *job, int *out_write)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return err_sys(errno, "make a pipe for a child's report");
	job->report = fds[0];
	*out_write = fds[1];
	return OK;
}

static fallible template_make_import(struct templates *all, struct template_cache_job *job, int dir,
				     int userns, const struct group_door *door, int *out_pipe)
{
	auto_fd report = -1;
	auto_fd tree = -1;
	uint64_t room;
	int pipes[2];

	TRY(disk_room(all->data, &room));
	TRY(report_pipe(job, &report));
	tree = mount_copy(dir, "");
	if (tree < 0 || mount_change(tree, MOUNT_SAFE | MOUNT_ATTR_NOEXEC, 0, userns))
		return err_sys(errno, "map the ids of a new template");
	if (pipe2(pipes, O_CLOEXEC))
		return err_sys(errno, "make a pipe for an archive");
	auto_fd in = pipes[0];
	auto_fd out = pipes[1];
	struct jail jail = {.tree = tree,
			    .userns = userns,
			    .door = door,
			    .archive = in,
			    .report = report,
			    .bytes_max = room < UNPACK_BYTES_MAX ? room : UNPACK_BYTES_MAX};

	TRY(jail_start(&jail, &job->pid));
	*out_pipe = take_fd(&out);
	return OK;
}

fallible template_import(struct templates *all, const struct order *order, int userns,
			 const struct group_door *door, int *out_pipe)
{
	struct template_cache_job *job = NULL;
	auto_fd dir = -1;
	struct err *err;

	TRY(job_new(all, order, &job, &dir));
	err = template_make_import(all, job, dir, userns, door, out_pipe);
	if (err)
		template_cache_job_drop(all, job);
	return err;
}

static fallible copy_usr(int usr, int root, struct path_copied *sum)
{
	auto_fd from = openat(usr, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd to = -1;

	if (from < 0)
		return err_sys(errno, "open /usr");
	TRY(path_dir(root, "usr", 0755, &to));
	return path_copy(from, to, sum);
}

static fallible freeze_copy(int host_root, int usr, int dir, struct path_copied *sum)
{
	auto_fd from = openat(host_root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd to = -1;

	if (from < 0)
		return err_sys(errno, "open the host's template");
	TRY(path_dir(dir, "root", 0755, &to));
	TRY(path_copy(from, to, sum));
	TRY(copy_usr(usr, to, sum));
	return syncfs(to) ? err_sys(errno, "write the template out") : OK;
}

static fallible template_make_freeze(struct templates *all, struct template_cache_job *job, int dir)
{
	struct path_copied sum = {0};
	auto_fd report = -1;

	TRY(template_cache_host(all));
	TRY(report_pipe(job, &report));
	job->pid = fork();
	if (job->pid < 0)
		return err_sys(errno, "fork to copy the host");
	if (job->pid == 0) {
		int fds[] = {report, all->host_root, all->host_usr, dir};
		struct err *outcome;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpriority(PRIO_PROCESS, 0, 10);
		if (jail_keep(fds, 4))
			_exit(1);
		// Not among the arguments: `sum` is read after the call.
		outcome = freeze_copy(fds[1], fds[2], fds[3], &sum);
		jail_report_write(fds[0], outcome, sum.files, sum.bytes);
		_exit(0);
	}
	return OK;
}

fallible template_freeze(struct templates *all, const struct order *order)
{
	struct template_cache_job *job = NULL;
	auto_fd dir = -1;
	struct err *err;

	TRY(job_new(all, order, &job, &dir));
	err = template_make_freeze(all, job, dir);
	if (err)
		template_cache_job_drop(all, job);
	return err;
}

static fallible template_make_publish(struct templates *all, const struct template_cache_job *job,
				      uint64_t files, uint64_t bytes)
{
	auto_buf meta = BUF_INIT(META_MAX);
	auto_fd dir = -1;

	TRY(path_dir(all->layers.dir, job->temp, 0755, &dir));
	TRY(trash_put(all->trash, dir, "stage")); // the unpacked image
	buf_fmt(&meta, "kind=%s\ncreated=%lld\nbytes=%llu\nfiles=%llu\n",
		job->kind == ORDER_FREEZE ? "host" : "import", (long long)clock_wall_ms(),
		(unsigned long long)bytes, (unsigned long long)files);
	if (!buf_ok(&meta))
		return err_sys(ENOMEM, "describe the template");
	// The child has synced the files.
	TRY(path_write_sync(dir, "meta", 0600, buf_view(&meta)));
	if (renameat2(all->layers.dir, job->temp, all->layers.dir, job->name, RENAME_NOREPLACE))
		return err_sys(errno, "name the template '%s'", job->name);
	return path_sync(all->layers.dir);
}

static void template_make_refuse(struct answer *out, const struct err *err)
{
	const char *hint = err_hint_of(err);

	out->kind = ANSWER_REFUSED;
	out->error = err_kind(err);
	snprintf(out->reason, sizeof(out->reason), "%s", err_reason(err));
	snprintf(out->message, sizeof(out->message), "%s", err_message(err));
	snprintf(out->hint, sizeof(out->hint), "%s", hint ? hint : "");
}

bool template_reaped(struct templates *all, int pid, int status, struct answer *out)
{
	struct template_cache_job *job = NULL;
	uint64_t files = 0, bytes = 0;

	list_each (at, &all->jobs)
		if (link_of(at, struct template_cache_job, link)->pid == pid)
			job = link_of(at, struct template_cache_job, link);
	if (!job) {
		trash_reaped(all->trash, pid);
		return false;
	}
	auto_err err = jail_report_read(job->report, status, &files, &bytes);

	if (!err)
		err = template_make_publish(all, job, files, bytes);
	*out = (struct answer){.kind = ANSWER_DONE,
			       .to = job->kind,
			       .id = job->order,
			       .files = files,
			       .bytes = bytes};
	if (err) {
		log_event(LOG_WARN, "template.refused", "template", job->name, "error",
			  err_trail(err), NULL);
		template_make_refuse(out, err);
	}
	template_cache_job_drop(all, job);
	return true;
}
