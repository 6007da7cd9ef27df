// Templates on disk. DATA/layers holds, for each, a directory NAME with `root` (its files, ids
// unshifted) and `meta` (lines of key=value). Other names, which no template can have:
//	.host-STAMP  the skeleton of the host, made anew when its packages change
//	.layer-HEX   a layer of an image on its parents: a whole root, which shares the files of its
//		     parent by hard links. Files are never changed in place, so that is safe.
//	.new-N       being filled by a child; renamed when complete
//	.gone-N      removed, but boxes that started from it may still read it
//	.trash       being deleted
// A lower directory must not change under a mounted overlay, so a removed template is kept until
// every box that is older than its removal has ended. Every rename is RENAME_NOREPLACE.
//
// syscalls: openat close getdents64 newfstatat fcntl kill wait4 renameat2 fsync clone pipe2 prctl
// syscalls: close_range setpriority exit_group read dup2 dup3 syncfs open_tree mount_setattr renameat
// syscalls: unlinkat fchmod write
#include "warden/template.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/path.h"
#include "warden/box_state.h"
#include "warden/export.h"
#include "warden/helper.h"
#include "warden/host.h"
#include "warden/jail.h"
#include "warden/private_dir.h"
#include "warden/reply_queue.h"
#include "warden/trash.h"
#include "warden/unpack.h"

#define JOBS_MAX 4
#define CLOCKS_APART_MS 2000 // of the daemon, which are adjusted, and of ours
#define META_MAX 4096
#define TEMPLATE_DIR_NAME 80

// A child at work on a template.
struct template_job {
	struct link link;
	enum order_kind kind;
	uint32_t order;
	char name[TEMPLATE_NAME_MAX];
	char parent[TEMPLATE_NAME_MAX]; // of a layer or an export, "": none
	char temp[TEMPLATE_DIR_NAME];	// .new-N; of an export ""
	int pid, report;
};

// A removed directory that boxes may still use.
struct template_gone {
	struct link link;
	char name[TEMPLATE_DIR_NAME];
	int64_t since_us;
};

struct templates {
	int data, host_dir; // DATA, and the host's own root
	struct private_dir layers;
	struct trash *trash;
	uint64_t number; // of the next name that is generated
	struct link jobs, gone;
	int job_count;
	char boot[BOX_STATE_BOOT]; // boot id
	// The host's template, as found last.
	char stamp[HOST_STAMP_SIZE];
	int host_root, host_usr;
	bool (*is_needed)(void *arg, const char *id);
	void *is_needed_arg;
};

// The names in DATA/layers, to be closed by the caller.
static fallible templates_names(const struct templates *all, DIR **out)
{
	*out = path_list(all->layers.dir, ".");
	return *out ? OK : err_sys(errno, "list the templates");
}

// Records a directory that was hidden earlier: boxes that are older than now may use it.
static void template_is_gone(struct templates *all, const char *name)
{
	struct template_gone *gone = mem_new_of(struct template_gone);

	snprintf(gone->name, sizeof(gone->name), "%s", name);
	gone->since_us = clock_us();
	link_add(&all->gone, &gone->link);
}

// Hides the directory, to be deleted when no box can use it any more.
static fallible template_retire(struct templates *all, const char *name)
{
	char aside[TEMPLATE_DIR_NAME];

	snprintf(aside, sizeof(aside), ".gone-%llx", (unsigned long long)all->number++);
	if (renameat2(all->layers.dir, name, all->layers.dir, aside, RENAME_NOREPLACE))
		return errno == ENOENT ? OK : err_sys(errno, "set '%s' aside", name);
	template_is_gone(all, aside);
	return path_sync(all->layers.dir);
}

// The root directory of `name`, O_PATH; -1 with errno.
static int template_root(struct templates *all, const char *name)
{
	char path[TEMPLATE_DIR_NAME + 8];

	snprintf(path, sizeof(path), "%s/root", name);
	return openat(all->layers.dir, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static fallible host_make(struct templates *all, const char *name)
{
	struct path_copied sum = {0};
	char temp[TEMPLATE_DIR_NAME];
	int64_t began = clock_ms();
	struct err *err;
	auto_fd dir = -1;
	auto_fd root = -1;
	char took[24];

	snprintf(temp, sizeof(temp), ORDER_UNFINISHED "%llx", (unsigned long long)all->number++);
	TRY(path_dir(all->layers.dir, temp, 0755, &dir));
	err = path_dir(dir, "root", 0755, &root);
	if (!err)
		err = host_build(all->host_dir, root, &sum);
	if (!err && renameat2(all->layers.dir, temp, all->layers.dir, name, RENAME_NOREPLACE))
		err = err_sys(errno, "name the host's template");
	if (err) {
		err_free(trash_put(all->trash, all->layers.dir, temp));
		return err_while(err, "make the host's template");
	}
	snprintf(took, sizeof(took), "%lld", (long long)(clock_ms() - began));
	log_event(LOG_INFO, "template.host", "ms", took, NULL);
	return OK;
}

// Updates the host's template, in all->host_root and all->host_usr.
static fallible template_update_host(struct templates *all)
{
	char stamp[HOST_STAMP_SIZE], name[TEMPLATE_DIR_NAME];
	struct dirent *entry;
	auto_dir list = NULL;
	auto_fd root = -1;
	auto_fd usr = -1;

	TRY(host_stamp(all->host_dir, all->boot, stamp));
	if (all->host_root >= 0 && !strcmp(stamp, all->stamp))
		return OK;
	snprintf(name, sizeof(name), ".host-%s", stamp);
	root = template_root(all, name);
	if (root < 0) {
		TRY(host_make(all, name));
		root = template_root(all, name);
	}
	usr = openat(all->host_dir, "usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || usr < 0)
		return err_sys(errno, "open the host's template");
	TRY(templates_names(all, &list));
	while ((entry = path_next(list)))
		if (str_starts(str_of(entry->d_name), ".host-") && strcmp(entry->d_name, name) != 0)
			TRY(template_retire(all, entry->d_name));
	fd_drop(&all->host_root);
	fd_drop(&all->host_usr);
	all->host_root = take_fd(&root);
	all->host_usr = take_fd(&usr);
	snprintf(all->stamp, sizeof(all->stamp), "%s", stamp);
	return OK;
}

// Ends a job: its directory goes to the trash unless it was renamed to a template.
static void template_job_drop(struct templates *all, struct template_job *job)
{
	// Renamed if the job succeeded: then the name is absent.
	if (job->temp[0])
		err_free(trash_put(all->trash, all->layers.dir, job->temp));
	link_drop(&job->link);
	all->job_count--;
	fd_drop(&job->report);
	free(job);
}

// Whether a template or layer of that name may be made now.
static fallible may_make(struct templates *all, const char *name)
{
	struct stat st;
	bool taken;

	if (!id_is_template(str_of(name)) && !order_is_layer(str_of(name)) &&
	    !order_is_step(str_of(name)))
		return err_hint(err_new(INVALID, "bad_name", "that is no name for a template"),
				"use a-z, 0-9, '.', '_' and '-', 63 at most");
	taken = !strcmp(name, "host") ||
		fstatat(all->layers.dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	list_each (at, &all->jobs)
		taken |= !strcmp(link_of(at, struct template_job, link)->name, name);
	if (taken)
		return err_hint(
			err_new(CONFLICT, "template_exists", "there is a template '%s'", name),
			"choose another name, or delete that one first");
	if (all->job_count >= JOBS_MAX)
		return err_new(EXHAUSTED, "too_many_imports", "%d templates are being made",
			       JOBS_MAX);
	return OK;
}

static fallible job_new(struct templates *all, const struct order *order, struct template_job **out,
			int *out_dir)
{
	struct template_job *job;
	auto_fd root = -1;
	auto_fd dir = -1;
	char temp[TEMPLATE_DIR_NAME];

	TRY(may_make(all, order->name));
	snprintf(temp, sizeof(temp), ORDER_UNFINISHED "%llx", (unsigned long long)all->number++);
	TRY(path_dir(all->layers.dir, temp, 0755, &dir));
	TRY(path_dir(dir, "root", 0755, &root));
	job = mem_new_of(struct template_job);
	*job = (struct template_job){.kind = order->kind, .order = order->id, .report = -1};
	memcpy(job->name, order->name, sizeof(job->name));
	memcpy(job->parent, order->parent, sizeof(job->parent));
	memcpy(job->temp, temp, sizeof(job->temp));
	link_add(&all->jobs, &job->link);
	all->job_count++;
	*out = job;
	*out_dir = take_fd(&dir);
	return OK;
}

static fallible job_report_pipe(struct template_job *job, int *out_write)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return err_sys(errno, "make a pipe for a child's report");
	job->report = fds[0];
	*out_write = fds[1];
	return OK;
}

static fallible template_job_import(struct templates *all, struct template_job *job, int dir,
				    int userns, const struct group_door *door, int *out_pipe)
{
	auto_fd report = -1;
	auto_fd tree = -1;
	uint64_t room;
	int pipes[2];

	TRY(private_dir_room(all->data, NULL, &room));
	TRY(job_report_pipe(job, &report));
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
			    .parent = -1,
			    .into = -1,
			    .bytes_max = room < UNPACK_BYTES_MAX ? room : UNPACK_BYTES_MAX};

	TRY(jail_start(&jail, &job->pid));
	*out_pipe = take_fd(&out);
	return OK;
}

fallible template_import(struct templates *all, const struct order *order, int userns,
			 const struct group_door *door, int *out_pipe)
{
	struct template_job *job = NULL;
	auto_fd dir = -1;
	struct err *err;

	TRY(job_new(all, order, &job, &dir));
	err = template_job_import(all, job, dir, userns, door, out_pipe);
	if (err)
		template_job_drop(all, job);
	return err;
}

// `files` and `dropped` may be NULL.
// When the host's template was copied, as far as that is known; 0: not yet.
static int64_t host_made_ms(const struct templates *all)
{
	char name[TEMPLATE_DIR_NAME];
	struct stat st;

	snprintf(name, sizeof(name), ".host-%s", all->stamp);
	if (all->host_root < 0 || fstatat(all->layers.dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	return (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
}

static void templates_describe(struct templates *all, struct order_template *entry, uint64_t *files,
			       struct order_dropped *dropped)
{
	auto_buf text = BUF_INIT(META_MAX);
	char path[TEMPLATE_DIR_NAME + 8];
	struct str rest, line, key;
	uint64_t created = 0, number;

	entry->is_host = !strcmp(entry->name, "host");
	snprintf(path, sizeof(path), "%s/meta", entry->name);
	err_free(path_read(all->layers.dir, path, &text)); // absent for the host's own
	rest = buf_view(&text);
	while (str_cut(&rest, '\n', &line)) {
		if (!str_cut(&line, '=', &key))
			continue;
		if (str_is(key, "kind") && str_is(line, "host"))
			entry->is_host = true;
		else if (str_is(key, "kind"))
			entry->is_snapshot = str_is(line, "snapshot");
		else if (str_is(key, "created"))
			str_to_u64(line, 0, INT64_MAX, &created);
		else if (str_is(key, "bytes"))
			str_to_u64(line, 0, INT64_MAX, &entry->bytes);
		else if (files && str_is(key, "files"))
			str_to_u64(line, 0, INT64_MAX, files);
#define X(field)                                                                                   \
	else if (dropped && str_is(key, #field) && str_to_u64(line, 0, UINT32_MAX, &number))       \
		dropped->field = (uint32_t)number;
		ORDER_DROPPED_FIELDS(X)
#undef X
	}
	entry->created = entry->is_host && !created ? host_made_ms(all) : (int64_t)created;
}

static fallible template_job_layer(struct templates *all, struct template_job *job, int dir,
				   const struct order *order, int userns,
				   const struct group_door *door, int archive)
{
	auto_fd report = -1;
	auto_fd tree = -1;
	auto_fd parent = -1;
	auto_fd into = -1;
	uint64_t room;

	if (order->parent[0]) {
		parent = template_root(all, order->parent);
		if (parent < 0)
			return err_new(NOT_FOUND, "no_template", "the layer below is not there");
		TRY(path_dir(dir, "root", 0755, &into));
	}
	TRY(private_dir_room(all->data, NULL, &room));
	TRY(job_report_pipe(job, &report));
	tree = mount_copy(dir, "");
	if (tree < 0 || mount_change(tree, MOUNT_SAFE | MOUNT_ATTR_NOEXEC, 0, userns))
		return err_sys(errno, "map the ids of a new layer");
	struct jail jail = {.tree = tree,
			    .userns = userns,
			    .door = door,
			    .archive = archive,
			    .report = report,
			    .digest = order->digest,
			    .parent = parent,
			    .into = into,
			    .bytes_max = room < UNPACK_BYTES_MAX ? room : UNPACK_BYTES_MAX};

	return jail_start(&jail, &job->pid);
}

bool template_has_layer(struct templates *all, const char *name, struct answer *out)
{
	struct order_template one = {0};
	struct stat st;

	if (fstatat(all->layers.dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	snprintf(one.name, sizeof(one.name), "%s", name);
	templates_describe(all, &one, &out->files, &out->dropped);
	out->bytes = one.bytes;
	return true;
}

fallible template_layer(struct templates *all, const struct order *order, int userns,
			const struct group_door *door, int archive)
{
	struct template_job *job = NULL;
	auto_fd dir = -1;
	struct err *err;

	TRY(job_new(all, order, &job, &dir));
	err = template_job_layer(all, job, dir, order, userns, door, archive);
	if (err)
		template_job_drop(all, job);
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

static fallible template_job_freeze(struct templates *all, struct template_job *job, int dir)
{
	struct path_copied sum = {0};
	auto_fd report = -1;

	TRY(template_update_host(all));
	TRY(job_report_pipe(job, &report));
	job->pid = fork();
	if (job->pid < 0)
		return err_sys(errno, "fork to copy the host");
	if (job->pid == 0) {
		int fds[] = {report, all->host_root, all->host_usr, dir};
		struct err *outcome;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpriority(PRIO_PROCESS, 0, 10);
		if (helper_keep(fds, 4))
			_exit(1);
		// Not among the arguments: `sum` is read after the call.
		outcome = freeze_copy(fds[1], fds[2], fds[3], &sum);
		jail_report_write(fds[0], outcome,
				  &(struct answer){.files = sum.files, .bytes = sum.bytes});
		_exit(0);
	}
	return OK;
}

fallible template_freeze(struct templates *all, const struct order *order)
{
	struct template_job *job = NULL;
	auto_fd dir = -1;
	struct err *err;

	TRY(job_new(all, order, &job, &dir));
	err = template_job_freeze(all, job, dir);
	if (err)
		template_job_drop(all, job);
	return err;
}

bool template_is_read(const struct templates *all, const char *name)
{
	list_each (at, &all->jobs) {
		const struct template_job *job = link_of(at, struct template_job, link);

		if (!strcmp(job->parent, name) ||
		    (job->kind == ORDER_EXPORT && !strcmp(job->name, name)))
			return true;
	}
	return false;
}

static fallible template_job_export(struct templates *all, struct template_job *job,
				    const struct order *order, struct export_trees *trees,
				    int userns, const struct group_door *door, int out)
{
	auto_fd report = -1;
	uint64_t room;

	TRY(private_dir_room(all->data, NULL, &room));
	TRY(job_report_pipe(job, &report));
	struct jail jail = {.tree = trees->base,
			    .userns = userns,
			    .door = door,
			    .archive = out,
			    .report = report,
			    .parent = -1,
			    .into = -1,
			    .trees = trees,
			    .zstd = order->zstd,
			    .bytes_max = room < UNPACK_BYTES_MAX ? room : UNPACK_BYTES_MAX};

	return jail_start(&jail, &job->pid);
}

fallible template_export(struct templates *all, const struct order *order,
			 struct export_trees *trees, int userns, const struct group_door *door,
			 int out)
{
	struct template_job *job;
	struct err *err;

	if (all->job_count >= JOBS_MAX)
		return err_new(EXHAUSTED, "too_many_imports", "%d templates are being made",
			       JOBS_MAX);
	job = mem_new_of(struct template_job);
	*job = (struct template_job){.kind = order->kind, .order = order->id, .report = -1};
	memcpy(job->name, order->name, sizeof(job->name));
	memcpy(job->parent, order->parent, sizeof(job->parent));
	link_add(&all->jobs, &job->link);
	all->job_count++;
	err = template_job_export(all, job, order, trees, userns, door, out);
	if (err)
		template_job_drop(all, job);
	return err;
}

static fallible template_job_publish(struct templates *all, const struct template_job *job,
				     const struct answer *sums)
{
	auto_buf meta = BUF_INIT(META_MAX);
	auto_fd dir = -1;

	TRY(path_dir(all->layers.dir, job->temp, 0755, &dir));
	TRY(trash_put(all->trash, dir, "stage")); // the unpacked image
	buf_fmt(&meta, "kind=%s\ncreated=%lld\nbytes=%llu\nfiles=%llu\n",
		job->kind == ORDER_FREEZE  ? "host"
		: job->kind == ORDER_LAYER ? "layer"
					   : "import",
		(long long)clock_wall_ms(), (unsigned long long)sums->bytes,
		(unsigned long long)sums->files);
	if (job->kind == ORDER_LAYER) {
#define X(field) buf_fmt(&meta, #field "=%u\n", sums->dropped.field);
		ORDER_DROPPED_FIELDS(X)
#undef X
	}
	if (!buf_ok(&meta))
		return err_sys(ENOMEM, "describe the template");
	// The child has synced the files.
	TRY(path_write_sync(dir, "meta", 0600, buf_view(&meta)));
	if (renameat2(all->layers.dir, job->temp, all->layers.dir, job->name, RENAME_NOREPLACE))
		return err_sys(errno, "name the template '%s'", job->name);
	return path_sync(all->layers.dir);
}

bool template_reaped(struct templates *all, int pid, int status, struct answer *out)
{
	struct template_job *job = NULL;
	struct answer sums = {0};

	list_each (at, &all->jobs)
		if (link_of(at, struct template_job, link)->pid == pid)
			job = link_of(at, struct template_job, link);
	if (!job) {
		trash_reaped(all->trash, pid);
		return false;
	}
	auto_err err = jail_report_read(job->report, status, &sums);

	if (!err && job->kind != ORDER_EXPORT)
		err = template_job_publish(all, job, &sums);
	*out = (struct answer){.kind = ANSWER_DONE,
			       .to = job->kind,
			       .id = job->order,
			       .files = sums.files,
			       .bytes = sums.bytes,
			       .dropped = sums.dropped};
	memcpy(out->digest, sums.digest, sizeof(out->digest));
	memcpy(out->diff_id, sums.diff_id, sizeof(out->diff_id));
	if (err) {
		log_event(LOG_WARN, "template.refused", "template", job->name, "error",
			  err_trail(err), NULL);
		reply_queue_describe(err, job->kind, job->order, out);
	}
	template_job_drop(all, job);
	return true;
}

// Half-made templates of an earlier warden are removed; boxes may still use what it had hidden.
static fallible templates_start(struct templates *all)
{
	auto_dir list = NULL;
	struct dirent *entry;

	TRY(box_state_boot(all->boot));
	TRY(private_dir_open(all->data, "layers", &all->layers));
	TRY(trash_open(all->layers.dir, ".trash", &all->trash));
	TRY(templates_names(all, &list));
	while ((entry = path_next(list))) {
		if (str_starts(str_of(entry->d_name), ORDER_UNFINISHED))
			TRY(trash_put(all->trash, all->layers.dir, entry->d_name));
		if (str_starts(str_of(entry->d_name), ".gone-"))
			template_is_gone(all, entry->d_name);
	}
	return OK;
}

fallible templates_open(int data, struct templates **out)
{
	struct templates *all = mem_new_of(struct templates);
	struct err *err;

	all->layers = PRIVATE_DIR_NONE;
	all->host_root = all->host_usr = -1;
	link_init(&all->jobs);
	link_init(&all->gone);
	all->number = (uint64_t)clock_wall_ms() << 8;
	all->data = openat(data, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	all->host_dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	err = all->data < 0 || all->host_dir < 0 ? err_sys(errno, "open the state directory")
						 : templates_start(all);
	if (err) {
		templates_close(all);
		return err_while(err, "open the templates");
	}
	*out = all;
	return OK;
}

uint64_t templates_trash_bytes(const struct templates *all)
{
	return trash_bytes(all->trash);
}

bool templates_at_work(const struct templates *all)
{
	return all->job_count > 0;
}

void templates_close(struct templates *all)
{
	if (!all)
		return;
	list_each (at, &all->jobs) {
		struct template_job *job = link_of(at, struct template_job, link);

		helper_end(job->pid);
		template_job_drop(all, job);
	}
	list_each (at, &all->gone) {
		link_drop(at);
		free(link_of(at, struct template_gone, link));
	}
	trash_close(all->trash);
	private_dir_close(&all->layers);
	fd_drop(&all->data);
	fd_drop(&all->host_dir);
	fd_drop(&all->host_root);
	fd_drop(&all->host_usr);
	free(all);
}

void template_cancel(struct templates *all, uint32_t id)
{
	list_each (at, &all->jobs) {
		struct template_job *job = link_of(at, struct template_job, link);

		if (id && job->order != id)
			continue;
		kill(job->pid, SIGKILL);
		if (!id)
			job->order = 0;
	}
}

// -------------------------------------------------------------------------------- for snapshots

int templates_dir(const struct templates *all)
{
	return all->layers.dir;
}

fallible template_may_make(struct templates *all, const char *name)
{
	return may_make(all, name);
}

fallible template_discard(struct templates *all, const char *name)
{
	return trash_put(all->trash, all->layers.dir, name);
}

void templates_on_idle(struct templates *all, bool (*is_needed)(void *arg, const char *id),
		       void *arg)
{
	all->is_needed = is_needed;
	all->is_needed_arg = arg;
}

// "": it has none.
static fallible read_id(struct templates *all, const char *name, char out[TEMPLATE_ID])
{
	auto_buf text = BUF_INIT(64);
	char path[TEMPLATE_DIR_NAME + 8];
	auto_err err = OK;

	snprintf(path, sizeof(path), "%s/id", name);
	err = path_read(all->layers.dir, path, &text);
	if (err && err_kind(err) != ERR_NOT_FOUND)
		return take_ptr(err);
	snprintf(out, TEMPLATE_ID, "%s", err || !text.len ? "" : text.at);
	return OK;
}

static bool is_held(struct templates *all, const char *name)
{
	char id[TEMPLATE_ID];
	auto_err unknown = read_id(all, name, id);

	if (unknown)
		return true;
	return id[0] && all->is_needed && all->is_needed(all->is_needed_arg, id);
}

fallible template_pin(struct templates *all, const char *name, int64_t since, char out[TEMPLATE_ID])
{
	struct order_template found = {0};
	auto_fd root = template_root(all, name);
	auto_fd dir = -1;

	snprintf(found.name, sizeof(found.name), "%s", name);
	if (root >= 0)
		templates_describe(all, &found, NULL, NULL);
	if (root < 0 || found.created > since + CLOCKS_APART_MS)
		return err_hint(err_new(CONFLICT, "base_changed",
					"the template '%s' of the sandbox was removed or replaced",
					name),
				"only sandboxes whose template is still there can be copied");
	TRY(read_id(all, name, out));
	if (out[0])
		return OK;
	snprintf(out, TEMPLATE_ID, "%016llx", (unsigned long long)all->number++);
	TRY(path_dir(all->layers.dir, name, 0755, &dir));
	return path_write_sync(dir, "id", 0600, str_of(out));
}

fallible template_find_pinned(struct templates *all, const char *id, int *out_root)
{
	char own[TEMPLATE_ID];
	struct dirent *entry;
	auto_dir list = NULL;

	TRY(templates_names(all, &list));
	while ((entry = path_next(list))) {
		if (!id_is_template(str_of(entry->d_name)) &&
		    !order_is_layer(str_of(entry->d_name)) &&
		    !str_starts(str_of(entry->d_name), ".gone-"))
			continue;
		TRY(read_id(all, entry->d_name, own));
		if (strcmp(own, id) != 0)
			continue;
		*out_root = template_root(all, entry->d_name);
		return *out_root < 0 ? err_sys(errno, "open the base '%s'", id) : OK;
	}
	return err_new(NOT_FOUND, "no_template", "the template '%s' is gone", id);
}

void templates_idle(struct templates *all, int64_t oldest_us)
{
	list_each (at, &all->gone) {
		struct template_gone *gone = link_of(at, struct template_gone, link);

		if (gone->since_us >= oldest_us)
			continue;
		if (is_held(all, gone->name)) {
			gone->since_us = clock_us();
			continue;
		}
		err_free(trash_put(all->trash, all->layers.dir, gone->name));
		link_drop(at);
		free(gone);
	}
}

bool templates_has_gone(const struct templates *all)
{
	return !link_empty(&all->gone);
}

static fallible host_find(struct templates *all, int *out_root, int *out_usr)
{
	auto_fd root = -1;
	auto_fd usr = -1;

	TRY(template_update_host(all));
	root = fcntl(all->host_root, F_DUPFD_CLOEXEC, 3);
	usr = fcntl(all->host_usr, F_DUPFD_CLOEXEC, 3);
	if (root < 0 || usr < 0)
		return err_sys(errno, "hand out the host's template");
	*out_root = take_fd(&root);
	*out_usr = take_fd(&usr);
	return OK;
}

static fallible template_none(struct templates *all, const char *name)
{
	auto_dir list = path_list(all->layers.dir, ".");
	auto_buf names = BUF_INIT(256);
	struct dirent *entry;

	while (list && (entry = path_next(list)))
		if (id_is_template(str_of(entry->d_name)) && names.len < 180)
			buf_fmt(&names, ", %s", entry->d_name);
	return err_hint(err_new(NOT_FOUND, "no_template", "there is no template '%.64s'", name),
			"there is: host%s", names.len ? names.at : "");
}

fallible template_find(struct templates *all, const char *name, int *out_root, int *out_usr)
{
	int root;

	if (!strcmp(name, "host"))
		return host_find(all, out_root, out_usr);
	if (!id_is_template(str_of(name)) && !order_is_layer(str_of(name)))
		return template_none(all, name);
	root = template_root(all, name);
	if (root < 0)
		return errno == ENOENT ? template_none(all, name)
				       : err_sys(errno, "open '%s'", name);
	*out_root = root;
	*out_usr = -1;
	return OK;
}

fallible template_view(struct templates *all, const char *name, int userns, int *out_tree)
{
	auto_fd root = -1;
	auto_fd usr = -1;
	auto_fd tree = -1;

	TRY(template_find(all, name, &root, &usr));
	tree = mount_copy(root, "");
	if (tree < 0 || mount_change(tree, MOUNT_STILL, 0, userns))
		return err_sys(errno, "map the ids of the template '%s'", name);
	*out_tree = take_fd(&tree);
	return OK;
}

static bool templates_is_unfinished(const struct templates *all, const char *name)
{
	if (!str_starts(str_of(name), ORDER_UNFINISHED))
		return false;
	list_each (at, &all->jobs)
		if (!strcmp(link_of(at, struct template_job, link)->temp, name))
			return false;
	return true;
}

fallible templates_unfinished(struct templates *all, void (*each)(void *arg, const char *name),
			      void *arg)
{
	auto_dir list = NULL;
	struct dirent *entry;

	TRY(templates_names(all, &list));
	while ((entry = path_next(list)))
		if (templates_is_unfinished(all, entry->d_name))
			each(arg, entry->d_name);
	return OK;
}

fallible template_forget(struct templates *all, const char *name)
{
	struct stat st;

	if (templates_is_unfinished(all, name))
		return trash_put(all->trash, all->layers.dir, name);

	if (!strcmp(name, "host"))
		return err_new(CONFLICT, "host_template", "the host's own template stays");
	if ((!id_is_template(str_of(name)) && !order_is_layer(str_of(name))) ||
	    fstatat(all->layers.dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return template_none(all, name);
	return template_retire(all, name);
}

// Whether a page after `after` has the name: of layers, if that is one, or of steps.
static bool template_is_listed(struct str after, struct str name)
{
	return str_starts(after, ORDER_LAYERS)	? order_is_layer(name)
	       : str_starts(after, ORDER_STEPS) ? order_is_step(name)
						: id_is_template(name);
}

// Keeps the page sorted, with the first names after `after`.
static void add_entry(struct answer *out, const char *after, const char *name)
{
	struct order_template *list = out->templates;
	uint32_t count = out->template_count, at = 0;

	if (!template_is_listed(str_of(after), str_of(name)) || strcmp(name, after) <= 0)
		return;
	while (at < count && strcmp(list[at].name, name) < 0)
		at++;
	if (at == ORDER_LIST_PAGE)
		return;
	if (count == ORDER_LIST_PAGE)
		count--;
	memmove(list + at + 1, list + at, (count - at) * sizeof(*list));
	list[at] = (struct order_template){0};
	snprintf(list[at].name, sizeof(list[at].name), "%s", name);
	out->template_count = count + 1;
}

fallible template_list(struct templates *all, const char *after, struct answer *out)
{
	auto_dir list = NULL;
	struct dirent *entry;

	out->template_count = 0;
	TRY(templates_names(all, &list));
	while ((entry = path_next(list)))
		add_entry(out, after ? after : "", entry->d_name);
	add_entry(out, after ? after : "", "host");
	if (all->host_root >= 0)
		TRY(template_update_host(all));
	for (uint32_t i = 0; i < out->template_count; i++)
		templates_describe(all, &out->templates[i], NULL, NULL);
	return OK;
}
