// Keeps the table of volumes, and the mounts that boxes are about to get. A volume's directory is
// durable before its disk is made, and renamed before its disk is dropped, so that nothing is left
// that no record names. A child writes a new disk out: that takes as long as what other boxes have
// written needs.
//
// syscalls: openat mkdirat renameat close fchmod syncfs getdents64 unlinkat umount2 fstat
// syscalls: open_tree move_mount mount_setattr newfstatat readlinkat
#include "warden/volumes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/path.h"
#include "warden/disk.h"
#include "warden/disk_copy.h"
#include "warden/helper.h"
#include "warden/jail.h"
#include "warden/private_dir.h"
#include "warden/reply_queue.h"

#define VOLUMES_MAX 4096
#define PENDING_MAX 256 // boxes
#define SIZE_FILE "size"
#define MOUNT_POINT "m"
#define FILES "r/u" // of a disk: what a box sees of a volume

struct warden_volume {
	char id[ID_BOX_LEN + 1];
	uint64_t size; // 0: no limit
	int root;      // of its files, beneath the mount; -1: not mounted
	int repair;    // pid of e2fsck; 0: none
};

// A volume that is being made.
struct volume_job {
	struct link link;
	uint32_t order; // 0: its daemon is gone
	char id[ID_BOX_LEN + 1];
	char trace[ORDER_TRACE_MAX];
	uint64_t size;
	int pid, report; // of the child that writes its disk out
};

struct pending_mounts {
	struct link link;
	uint32_t count;
	struct order orders[VOLUME_MOUNTS_MAX];
};

struct volumes {
	struct private_dir dir;
	struct map *by_id;
	struct link pending, jobs;
	size_t job_count;
};

static struct warden_volume *volume_find(const struct volumes *volumes, const char *id)
{
	return map_get(volumes->by_id, str_of(id));
}

bool volumes_has(const struct volumes *volumes, struct str id)
{
	return map_get(volumes->by_id, id) != NULL;
}

static struct warden_volume *volume_add(struct volumes *volumes, const char *id, uint64_t size)
{
	struct warden_volume *volume = mem_new_of(struct warden_volume);

	*volume = (struct warden_volume){.size = size, .root = -1};
	snprintf(volume->id, sizeof(volume->id), "%s", id);
	map_put(volumes->by_id, str_of(volume->id), volume);
	return volume;
}

static struct limits volume_limits(uint64_t size)
{
	return (struct limits){.disk = size};
}

// ".ID": no volume of that name is in the table.
static void volume_hidden(char out[ID_BOX_LEN + 2], const char *id)
{
	snprintf(out, ID_BOX_LEN + 2, ".%s", id);
}

static void volume_path(char out[ID_BOX_LEN + 16], const char *name)
{
	snprintf(out, ID_BOX_LEN + 16, "%s/" MOUNT_POINT, name);
}

static void volume_unmount(struct warden_volume *volume, int dir, const char *name)
{
	char path[ID_BOX_LEN + 16];
	auto_fd root = -1;

	if (volume->root < 0)
		return;
	fd_drop(&volume->root);
	volume_path(path, name);
	root = openat(dir, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root >= 0)
		private_dir_unmount(root);
}

static fallible volume_busy(void)
{
	return err_hint(err_new(EXHAUSTED, "volume_busy", "the volume is being made or repaired"),
			"try again in a moment");
}

// ------------------------------------------------------------------------------------------- make

static fallible volume_dir_write(const struct volumes *volumes, const char *name, uint64_t size)
{
	auto_fd dir = -1;
	char text[24];

	TRY(path_dir(volumes->dir.dir, name, 0700, &dir));
	if (mkdirat(dir, MOUNT_POINT, 0700) && errno != EEXIST)
		return err_sys(errno, "make the mount point of a volume");
	snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
	TRY(path_write_sync(dir, SIZE_FILE, 0600, str_of(text)));
	return path_sync(volumes->dir.dir);
}

// Any user of a box may write to a new volume, as to /tmp.
static fallible volume_open_to_all(int tree, int *out_files)
{
	*out_files = openat(tree, FILES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*out_files < 0 || fchmod(*out_files, 01777))
		return err_sys(errno, "set the mode of a volume");
	return OK;
}

static fallible volume_drop(struct warden *warden, const char *id)
{
	struct volumes *volumes = warden->volumes;
	char hidden[ID_BOX_LEN + 2];

	volume_hidden(hidden, id);
	TRY(disk_drop(warden->disk, id));
	TRY(path_remove(volumes->dir.dir, hidden));
	return path_sync(volumes->dir.dir);
}

static struct volume_job *volume_job_find(const struct volumes *volumes, const char *id, int pid)
{
	list_each (at, &volumes->jobs) {
		struct volume_job *job = link_of(at, struct volume_job, link);

		if (id ? !strcmp(job->id, id) : job->pid == pid)
			return job;
	}
	return NULL;
}

static void volume_job_drop(struct volumes *volumes, struct volume_job *job)
{
	link_drop(&job->link);
	volumes->job_count--;
	fd_drop(&job->report);
	free(job);
}

static fallible volume_flush(struct disk_copy *copy)
{
	return syncfs(copy->fds[0]) ? err_sys(errno, "write a volume out") : OK;
}

static fallible volume_begin(struct warden *warden, struct volume_job *job)
{
	struct disk_copy flush = {.run = volume_flush, .fds = {-1}, .count = 1};
	const struct limits limits = volume_limits(job->size);
	char hidden[ID_BOX_LEN + 2];
	auto_fd tree = -1;

	volume_hidden(hidden, job->id);
	TRY(volume_dir_write(warden->volumes, hidden, job->size));
	kill_point("warden.volume", "named");
	TRY(disk_make(warden->disk, job->id, &limits, true, -1, &tree));
	TRY(volume_open_to_all(tree, &flush.fds[0]));
	return disk_copy_start(&flush, &job->pid, &job->report);
}

fallible volumes_make(struct warden *warden, const struct order *order)
{
	struct volumes *volumes = warden->volumes;
	struct volume_job *job;
	struct err *err;

	if (volume_find(volumes, order->volume)) {
		reply_queue_done(warden, ORDER_VOLUME, order->id);
		return OK;
	}
	if (volume_job_find(volumes, order->volume, 0))
		return volume_busy();
	if (map_count(volumes->by_id) + volumes->job_count >= VOLUMES_MAX)
		return err_hint(err_new(EXHAUSTED, "too_many_volumes",
					"this host holds %d volumes and no more", VOLUMES_MAX),
				"delete volumes first");
	job = mem_new_of(struct volume_job);
	*job = (struct volume_job){.order = order->id, .size = order->size, .report = -1};
	memcpy(job->id, order->volume, sizeof(job->id));
	memcpy(job->trace, order->trace, sizeof(job->trace));
	link_add(&volumes->jobs, &job->link);
	volumes->job_count++;
	err = volume_begin(warden, job);
	if (!err)
		return OK;
	volume_job_drop(volumes, job);
	err_free(volume_drop(warden, order->volume));
	return err_while(err, "make the volume %s", order->volume);
}

static fallible volume_name(struct warden *warden, const struct volume_job *job)
{
	int dir = warden->volumes->dir.dir;
	char hidden[ID_BOX_LEN + 2];

	volume_hidden(hidden, job->id);
	kill_point("warden.volume", "made");
	if (renameat(dir, hidden, dir, job->id))
		return err_sys(errno, "name a volume");
	return path_sync(dir);
}

// The disk of a new volume is written out, or could not be.
static void volume_made(struct warden *warden, struct volume_job *job, int status)
{
	auto_free struct answer *sums = mem_new_of(struct answer);
	struct err *err = jail_report_read(job->report, status, sums);

	log_trace(job->trace);
	if (!err && job->order)
		err = volume_name(warden, job);
	if (!err && job->order) {
		volume_add(warden->volumes, job->id, job->size);
		reply_queue_done(warden, ORDER_VOLUME, job->order);
	} else {
		err_free(volume_drop(warden, job->id));
		if (job->order)
			reply_queue_refusal(warden, ORDER_VOLUME, job->order, NULL, err);
		else
			err_free(err);
	}
	volume_job_drop(warden->volumes, job);
	log_trace(NULL);
}

fallible volumes_remove(struct warden *warden, const struct order *order)
{
	struct volumes *volumes = warden->volumes;
	struct warden_volume *volume = volume_find(volumes, order->volume);
	char hidden[ID_BOX_LEN + 2];

	volume_hidden(hidden, order->volume);
	if ((volume && volume->repair) || volume_job_find(volumes, order->volume, 0))
		return volume_busy();
	if (volume) {
		volume_unmount(volume, volumes->dir.dir, volume->id);
		if (renameat(volumes->dir.dir, volume->id, volumes->dir.dir, hidden) &&
		    errno != ENOENT)
			return err_sys(errno, "hide the volume %s", volume->id);
		TRY(path_sync(volumes->dir.dir));
		map_take(volumes->by_id, str_of(order->volume));
		free(volume);
		kill_point("warden.volume", "hidden");
	}
	// Also what is left of a removal that has failed.
	TRY(volume_drop(warden, order->volume), "remove the volume %s", order->volume);
	if (disk_exists(warden->disk, order->volume))
		return err_sys(EBUSY, "remove the disk of %s", order->volume);
	reply_queue_done(warden, ORDER_UNVOLUME, order->id);
	return OK;
}

// ------------------------------------------------------------------------------------------- list

static int volume_compare(const void *a, const void *b)
{
	const struct warden_volume *const *one = a, *const *two = b;

	return strcmp((*one)->id, (*two)->id);
}

fallible volumes_list(struct warden *warden, const struct order *order)
{
	const struct volumes *volumes = warden->volumes;
	auto_free const struct warden_volume **all = mem_new((map_count(volumes->by_id) + 1) *
							     sizeof(void *));
	struct answer *answer = &warden->answer;
	size_t count = 0, at = 0;
	struct str key;
	void *value;

	while (map_next(volumes->by_id, &at, &key, &value))
		if (strcmp(((struct warden_volume *)value)->id, order->volume) > 0)
			all[count++] = value;
	qsort(all, count, sizeof(void *), volume_compare);
	*answer = (struct answer){.kind = ANSWER_DONE, .to = ORDER_VOLUMES, .id = order->id};
	for (size_t i = 0; i < count && i < ORDER_VOLUMES_PAGE; i++) {
		struct order_volume *row = &answer->volumes[answer->volume_count++];

		memcpy(row->volume, all[i]->id, sizeof(row->volume));
		if (!disk_used(warden->disk, all[i]->id, &row->bytes))
			row->bytes = ORDER_USAGE_UNKNOWN;
	}
	reply_queue_answer(warden, answer, NULL, 0);
	return OK;
}

struct comparison {
	struct warden *warden;
	struct map *seen;
	void (*odd)(struct answer *answer, const char *what, const char *name);
	struct answer *answer;
};

static void volume_disk_see(void *arg, const char *id)
{
	struct comparison *all = arg;

	map_put(all->seen, str_of(id), all);
	all->answer->inventory.volumes++;
	if (!volume_find(all->warden->volumes, id) && !volume_job_find(all->warden->volumes, id, 0))
		all->odd(all->answer, "disk_without_volume", id);
}

fallible volumes_compare(struct warden *warden,
			 void (*odd)(struct answer *answer, const char *what, const char *name),
			 struct answer *answer)
{
	struct comparison all = {warden, map_new(), odd, answer};
	struct err *err = disk_each_volume(warden->disk, volume_disk_see, &all);
	struct str key;
	size_t at = 0;
	void *value;

	while (!err && map_next(warden->volumes->by_id, &at, &key, &value))
		if (!map_get(all.seen, key))
			odd(answer, "volume_without_disk", ((struct warden_volume *)value)->id);
	map_free(all.seen);
	return err;
}

// ------------------------------------------------------------------------------------------ mount

static fallible volume_attach(struct warden *warden, struct warden_volume *volume)
{
	const struct limits limits = volume_limits(volume->size);
	const struct volumes *volumes = warden->volumes;
	char path[ID_BOX_LEN + 16], files[ID_BOX_LEN + 24];
	auto_fd tree = -1;
	struct err *err;

	if (volume->root >= 0)
		return OK;
	err = disk_share(warden->disk, volume->id, &limits, &tree);
	if (err && err_kind(err) == ERR_NOT_FOUND) // never of the disk of the box
		return err_hint(
			err_recast(err, ERR_UNAVAILABLE, "volume_lost",
				   "the files of the volume are missing"),
			"see the log; start cove with the --disk of the time when it was made");
	TRY(err);
	volume_path(path, volume->id);
	if (mount_attach(tree, volumes->dir.dir, path))
		return err_sys(errno, "attach the volume %s", volume->id);
	snprintf(files, sizeof(files), "%s/" FILES, path);
	volume->root = openat(volumes->dir.dir, files,
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return volume->root < 0 ? err_sys(errno, "open the volume %s", volume->id) : OK;
}

static struct pending_mounts *pending_of(const struct volumes *volumes, const char *box)
{
	list_each (at, &volumes->pending) {
		struct pending_mounts *pending = link_of(at, struct pending_mounts, link);

		if (!strcmp(pending->orders[0].box, box))
			return pending;
	}
	return NULL;
}

static size_t pending_count(const struct volumes *volumes)
{
	size_t count = 0;

	list_each (at, &volumes->pending)
		count++;
	return count;
}

static fallible pending_add(struct volumes *volumes, const struct order *order)
{
	struct pending_mounts *pending = pending_of(volumes, order->box);

	if (pending && order->number == 0)
		pending->count = 0;
	if (order->number != (pending ? pending->count : 0))
		return err_new(CONFLICT, "lost_mounts", "a volume of the sandbox is missing");
	if (!pending && pending_count(volumes) >= PENDING_MAX)
		return err_new(EXHAUSTED, "volume_busy", "too many sandboxes wait for volumes");
	if (!pending) {
		pending = mem_new_of(struct pending_mounts);
		link_add(&volumes->pending, &pending->link);
	}
	pending->orders[pending->count++] = *order;
	return OK;
}

fallible volumes_mount(struct warden *warden, const struct order *order)
{
	struct volumes *volumes = warden->volumes;
	struct warden_volume *volume = volume_find(volumes, order->volume);

	if (!volume)
		return err_new(NOT_FOUND, "no_volume", "there is no such volume");
	if (volume->repair)
		return volume_busy();
	if (volume->root < 0)
		TRY(disk_repair(warden->disk, volume->id, &volume->repair));
	if (volume->repair)
		return volume_busy();
	TRY(volume_attach(warden, volume));
	TRY(pending_add(volumes, order));
	reply_queue_done(warden, ORDER_MOUNT, order->id);
	return OK;
}

bool volumes_reaped(struct warden *warden, int pid, int status)
{
	struct volume_job *job = volume_job_find(warden->volumes, NULL, pid);
	struct str key;
	size_t at = 0;
	void *value;

	if (job) {
		volume_made(warden, job, status);
		return true;
	}
	while (map_next(warden->volumes->by_id, &at, &key, &value)) {
		struct warden_volume *volume = value;

		if (volume->repair != pid)
			continue;
		volume->repair = 0;
		if (!disk_is_repaired(status))
			log_event(LOG_ERROR, "volume.not_repaired", "volume", volume->id, NULL);
		return true;
	}
	return false;
}

fallible volumes_pending(const struct warden *warden, const struct order *order)
{
	const struct pending_mounts *pending = order->mounts
						       ? pending_of(warden->volumes, order->box)
						       : NULL;

	if (order->mounts && (!pending || pending->count != order->mounts))
		return err_new(UNAVAILABLE, "lost_mounts", "the volumes must be ordered again");
	return OK;
}

fallible volumes_take(struct warden *warden, const struct order *order, uint32_t at, int userns,
		      const struct order **out, int *out_tree)
{
	const struct order *mount = &pending_of(warden->volumes, order->box)->orders[at];
	struct warden_volume *volume = volume_find(warden->volumes, mount->volume);
	uint64_t set = MOUNT_SAFE | MOUNT_ATTR_NOATIME | (mount->read_only ? MOUNT_ATTR_RDONLY : 0);
	auto_fd tree = -1;

	if (!volume || volume->root < 0)
		return err_new(NOT_FOUND, "no_volume", "there is no such volume");
	tree = mount_copy(volume->root, "");
	if (tree < 0 || mount_change(tree, set, MOUNT_ATTR__ATIME, userns))
		return err_sys(errno, "mount the volume %s", volume->id);
	*out = mount;
	*out_tree = take_fd(&tree);
	return OK;
}

void volumes_forget(struct warden *warden, const char *box)
{
	list_each (at, &warden->volumes->jobs)
		if (!box)
			link_of(at, struct volume_job, link)->order = 0;
	list_each (at, &warden->volumes->pending) {
		struct pending_mounts *pending = link_of(at, struct pending_mounts, link);

		if (box && strcmp(pending->orders[0].box, box) != 0)
			continue;
		link_drop(&pending->link);
		free(pending);
	}
}

// ------------------------------------------------------------------------------------------- open

static fallible volume_dir_load(struct warden *warden, const char *name)
{
	auto_fd dir = openat(warden->volumes->dir.dir, name,
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_buf text = BUF_INIT(32);
	struct limits limits;
	uint64_t size = 0;

	if (dir < 0)
		return err_sys(errno, "open the volume %s", name);
	TRY(path_read(dir, SIZE_FILE, &text));
	if (!str_to_u64(buf_view(&text), 0, ORDER_BYTES_MAX, &size))
		return err_sys(0, "read the size of the volume %s", name);
	limits = volume_limits(size);
	volume_add(warden->volumes, name, size);
	disk_adopt(warden->disk, name, &limits);
	return OK;
}

static fallible volumes_load(struct warden *warden)
{
	auto_dir list = path_list(warden->volumes->dir.dir, ".");
	struct dirent *entry;

	if (!list)
		return err_sys(errno, "list the volumes");
	while ((entry = path_next(list))) {
		const char *name = entry->d_name;

		if (name[0] == '.' && id_is_volume(str_of(name + 1)))
			TRY(volume_drop(warden, name + 1), "remove the volume %s", name + 1);
		else if (id_is_volume(str_of(name)))
			TRY(volume_dir_load(warden, name));
	}
	return OK;
}

fallible volumes_open(struct warden *warden, struct volumes **out)
{
	struct volumes *volumes = mem_new_of(struct volumes);

	volumes->dir = PRIVATE_DIR_NONE;
	volumes->by_id = map_new();
	link_init(&volumes->pending);
	link_init(&volumes->jobs);
	*out = volumes;
	TRY(private_dir_open(warden->data, "volumes", &volumes->dir));
	return volumes_load(warden);
}

void volumes_close(struct volumes *volumes)
{
	struct str key;
	size_t at = 0;
	void *value;

	if (!volumes)
		return;
	while (map_next(volumes->by_id, &at, &key, &value)) {
		struct warden_volume *volume = value;

		volume_unmount(volume, volumes->dir.dir, volume->id);
		free(volume);
	}
	map_free(volumes->by_id);
	list_each (at_job, &volumes->jobs) {
		struct volume_job *job = link_of(at_job, struct volume_job, link);

		helper_end(job->pid);
		volume_job_drop(volumes, job);
	}
	list_each (at_link, &volumes->pending)
		free(link_of(at_link, struct pending_mounts, link));
	private_dir_close(&volumes->dir);
	free(volumes);
}
