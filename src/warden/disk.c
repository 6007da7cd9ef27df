// Chooses the disk driver and passes calls on to it. A driver is usable if a box's disk was made,
// idmapped and dropped with it, on this host, now: no version number is consulted. Beside the pool
// the image driver stays open for boxes with an inode limit, which btrfs cannot enforce. The
// directory driver stays open for boxes that were made without a limit.
//
// syscalls: umount2 ioctl faccessat faccessat2 fstatfs
// syscalls: openat close mount_setattr clone3 waitid pipe2 read write
#include "warden/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/loopdev.h"
#include "os/mount.h"
#include "os/ns.h"
#include "warden/disk_copy.h"
#include "warden/disk_driver.h"
#include "warden/disk_sync.h"
#include "warden/private_dir.h"

#define LIMIT_MOST (16ull << 40)
#define PROBE_BOX "probe"
#define PROBE_BASE (1u << 20)
#define UNBIND_MAX 16 // stacked mounts, loop devices of one file

enum role { MAIN, INODES, PLAIN, ROLES };

struct disk {
	struct disk_place place;
	struct private_dir boxes;
	struct {
		const struct disk_driver *driver; // NULL: none
		void *self;
	} by[ROLES];
	struct disk_sync *sync; // NULL: not open yet
};

#define DRIVERS 3

static const struct disk_driver *const drivers[DRIVERS] = {&disk_btrfs, &disk_image, &disk_dir};

// A limit that this host could never keep is refused. The default limit is exempt: it was not asked
// for.
static fallible disk_check_limit(uint64_t limit, uint64_t total)
{
	uint64_t most = total < LIMIT_MOST ? total : LIMIT_MOST;

	if (limit <= most || limit <= LIMITS_DEFAULT.disk)
		return OK;
	return err_hint(
		err_new(INVALID, "bad_field", "'limits.diskMB' is more than the disk of this host"),
		"at most %llu", (unsigned long long)(most >> 20));
}

// Makes the disk and idmaps it; all or nothing.
static fallible warden_disk_make(struct disk *disk, enum role role, const char *box,
				 const struct limits *limits, bool lasting, int userns,
				 int *out_tree)
{
	const struct disk_driver *driver = disk->by[role].driver;
	auto_fd tree = -1;
	struct err *err;

	TRY(driver->make(disk->by[role].self, box, limits, lasting, &tree));
	if (mount_change(tree, MOUNT_SAFE | MOUNT_ATTR_NOATIME, MOUNT_ATTR__ATIME, userns)) {
		err = err_sys(errno, "map the ids of the disk of %s", box);
		close(take_fd(&tree));
		err_free(driver->drop(disk->by[role].self, box));
		return err;
	}
	*out_tree = take_fd(&tree);
	return OK;
}

static void put_down(struct disk *disk, enum role role)
{
	if (disk->by[role].driver)
		disk->by[role].driver->close(disk->by[role].self);
	disk->by[role].driver = NULL;
}

// Opens `driver` and makes a disk with it, as for a box.
static fallible disk_take_up(struct disk *disk, enum role role, const struct disk_driver *driver)
{
	struct limits limits = {.disk = driver->limits_bytes ? LIMITS_DEFAULT.disk : 0};

	if (role == INODES)
		limits = (struct limits){.disk = 16 << 20, .inodes = 1024};
	auto_fd userns = -1;
	auto_fd tree = -1;
	struct err *err;

	TRY(driver->open(&disk->place, &disk->by[role].self));
	disk->by[role].driver = driver;
	err = ns_user(PROBE_BASE, &userns);
	if (!err)
		err = warden_disk_make(disk, role, PROBE_BOX, &limits, false, userns, &tree);
	if (tree >= 0)
		close(take_fd(&tree));
	if (!err)
		err = driver->drop(disk->by[role].self, PROBE_BOX);
	if (err)
		put_down(disk, role);
	return err;
}

// The helper process was killed: nothing is known about the driver.
static bool is_helper_lost(const struct err *err)
{
	return str_is(str_of(err_reason(err)), NS_HELPER_LOST);
}

static fallible disk_choose(struct disk *disk, const char *want)
{
	struct err *last = OK;

	for (size_t i = 0; i < DRIVERS; i++) {
		if (want && strcmp(want, drivers[i]->word) != 0)
			continue;
		err_free(last);
		last = disk_take_up(disk, MAIN, drivers[i]);
		if (!last || str_is(str_of(err_reason(last)), DISK_LOST) || is_helper_lost(last))
			break; // it holds disks, so no other driver can replace it
		log_event(LOG_WARN, "disk.unfit", "driver", drivers[i]->word, "error",
			  err_trail(last), NULL);
	}
	if (last)
		return last;
	if (!disk->by[MAIN].driver)
		return err_hint(err_new(INVALID, "no_driver", "there is no disk driver '%s'", want),
				"btrfs, ext4-image or directory");
	if (disk->by[MAIN].driver == &disk_btrfs) {
		auto_err err = disk_take_up(disk, INODES, &disk_image);

		if (err && is_helper_lost(err))
			return take_ptr(err);
		if (err)
			log_event(LOG_WARN, "disk.no_inode_limit", "error", err_trail(err), NULL);
	}
	if (disk->by[MAIN].driver != &disk_dir) {
		TRY(disk_dir.open(&disk->place, &disk->by[PLAIN].self));
		disk->by[PLAIN].driver = &disk_dir;
	}
	log_event(LOG_INFO, "disk.open", "driver", disk_word(disk), "inodes",
		  disk_limits_inodes(disk) ? "limited" : "unlimited", NULL);
	return OK;
}

// Names that are no box's: prepared by a driver, or half made.
static bool is_leaked(const char *name)
{
	return name[0] == '.' || !strcmp(name, PROBE_BOX) || !strcmp(name, PROBE_BOX ".img");
}

static fallible disk_start(struct disk *disk, const char *want)
{
	TRY(private_dir_open(disk->place.data, "boxes", &disk->boxes));
	disk->place.boxes = disk->boxes.dir;
	TRY(trash_open(disk->place.data, "trash", &disk->place.trash));
	TRY(trash_put_all(disk->place.trash, disk->boxes.dir, is_leaked), "remove leftovers");
	TRY(disk_choose(disk, want));
	disk->sync = disk_sync_new(
		disk->by[MAIN].driver->pool ? disk->by[MAIN].driver->pool(disk->by[MAIN].self) : -1,
		disk->boxes.dir);
	return OK;
}

fallible disk_open(int data, const char *want, const struct pool_bounds *pool, struct disk **out)
{
	struct disk *disk = mem_new_of(struct disk);
	struct err *err;

	disk->boxes = PRIVATE_DIR_NONE;
	disk->place.pool = pool ? *pool : (struct pool_bounds){.start = POOL_START};
	disk->place.data = openat(data, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = disk->place.data < 0 ? err_sys(errno, "open the state directory")
				   : disk_start(disk, want);
	if (err) {
		disk_close(disk);
		return err_while(err, "open the disks");
	}
	*out = disk;
	return OK;
}

void disk_close(struct disk *disk)
{
	if (!disk)
		return;
	disk_sync_stop(disk->sync);
	for (int role = ROLES - 1; role >= MAIN; role--)
		put_down(disk, (enum role)role);
	trash_close(disk->place.trash);
	private_dir_close(&disk->boxes);
	if (disk->place.data >= 0)
		close(disk->place.data);
	free(disk);
}

const char *disk_word(const struct disk *disk)
{
	return disk->by[MAIN].driver->word;
}

bool disk_limits_bytes(const struct disk *disk)
{
	return disk->by[MAIN].driver->limits_bytes;
}

bool disk_limits_inodes(const struct disk *disk)
{
	return disk->by[MAIN].driver->limits_inodes || disk->by[INODES].driver;
}

fallible disk_make(struct disk *disk, const char *box, const struct limits *limits, bool lasting,
		   int userns, int *out_tree)
{
	enum role role = limits->inodes && disk->by[INODES].driver ? INODES : MAIN;
	uint64_t room = 0, total = 0;

	if (limits->inodes && !disk_limits_inodes(disk))
		return err_hint(
			err_new(INVALID, "no_disk_limit",
				"this host cannot enforce a limit on inodes"),
			"leave the inode limit out, or give the host loop devices and mke2fs");
	TRY(private_dir_room(disk->place.data, &total, &room));
	TRY(disk_check_limit(limits->disk, total));
	if (!room && !disk->by[role].driver->preallocates)
		return err_hint(
			err_new(NO_SPACE, "host_disk_full", "the disk of the host is nearly full"),
			"delete boxes or templates, or free space on the host");
	return warden_disk_make(disk, role, box, limits, lasting, userns, out_tree);
}

fallible disk_repair(struct disk *disk, const char *box, int *out_pid)
{
	int pid = 0;

	for (enum role role = MAIN; role < ROLES && !pid; role++)
		if (disk->by[role].driver && disk->by[role].driver->repair)
			TRY(disk->by[role].driver->repair(disk->by[role].self, box, &pid));
	*out_pid = pid;
	return OK;
}

// Exit status 1: there were errors, and they are repaired.
bool disk_is_repaired(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) <= 1;
}

fallible disk_share(struct disk *disk, const char *volume, const struct limits *limits,
		    int *out_tree)
{
	struct err *err = disk_none(volume);
	auto_fd tree = -1;

	for (enum role role = MAIN; role < ROLES && err && err_kind(err) == ERR_NOT_FOUND; role++) {
		const struct disk_driver *driver = disk->by[role].driver;
		void *self = disk->by[role].self;

		if (!driver)
			continue;
		err_free(err);
		err = driver->share ? driver->share(self, volume, &tree)
				    : driver->again(self, volume, limits, &tree);
	}
	if (err)
		return err;
	if (!disk_is_whole(tree))
		return disk_none(volume);
	if (mount_change(tree, MOUNT_SAFE | MOUNT_ATTR_NOATIME, MOUNT_ATTR__ATIME, -1))
		return err_sys(errno, "change the mount of the volume %s", volume);
	*out_tree = take_fd(&tree);
	return OK;
}

static fallible take_again(struct disk *disk, const char *box, const struct limits *limits,
			   int userns, bool is_loaded, int *out_tree)
{
	struct err *err = OK;
	auto_fd tree = -1;

	// The driver of a box is not stored: the first driver that knows the box has it.
	for (enum role role = MAIN; role < ROLES; role++) {
		if (!disk->by[role].driver)
			continue;
		err_free(err);
		err = disk->by[role].driver->again(disk->by[role].self, box, limits, &tree);
		if (!err || err_kind(err) != ERR_NOT_FOUND)
			break;
	}
	if (err)
		return err;
	if (!disk_is_whole(tree))
		return disk_none(box);
	if (is_loaded)
		TRY(disk_renew_work(tree));
	if (mount_change(tree, MOUNT_SAFE | MOUNT_ATTR_NOATIME, MOUNT_ATTR__ATIME, userns))
		return err_sys(errno, "map the ids of the disk of %s", box);
	*out_tree = take_fd(&tree);
	return OK;
}

fallible disk_again(struct disk *disk, const char *box, const struct limits *limits, int userns,
		    int *out_tree)
{
	return take_again(disk, box, limits, userns, false, out_tree);
}

// ------------------------------------------------------------------------------------- snapshots

// A copy takes as much as its origin; in a pool it takes nothing yet.
static fallible disk_check_room(struct disk *disk, enum role role, uint64_t bytes)
{
	uint64_t room = 0;

	if (disk->by[role].driver->preallocates)
		return OK;
	TRY(private_dir_room(disk->place.data, NULL, &room));
	if (room > bytes)
		return OK;
	return err_hint(err_new(NO_SPACE, "host_disk_full", "the disk of the host is nearly full"),
			"delete sandboxes, snapshots or templates, or free space on the host");
}

fallible disk_save_begin(struct disk *disk, const char *box, int dir, struct disk_copy *out)
{
	struct err *err = disk_none(box);
	uint64_t used = 0;

	for (enum role role = MAIN; role < ROLES && err && err_kind(err) == ERR_NOT_FOUND; role++) {
		if (!disk->by[role].driver)
			continue;
		err_free(err);
		disk_used(disk, box, &used);
		err = disk_check_room(disk, role, used);
		if (!err)
			err = disk->by[role].driver->save(disk->by[role].self, box, dir, out);
	}
	return err;
}

fallible disk_save_complete(int dir, int *out_pid)
{
	return disk_image.complete(dir, out_pid);
}

fallible disk_unsave(struct disk *disk, int dir)
{
	for (enum role role = MAIN; role < ROLES; role++)
		if (disk->by[role].driver && disk->by[role].driver->unsave)
			TRY(disk->by[role].driver->unsave(disk->by[role].self, dir));
	return OK;
}

void disk_sweep_saved(struct disk *disk, const struct map *known)
{
	for (enum role role = MAIN; role < ROLES; role++)
		if (disk->by[role].driver && disk->by[role].driver->sweep)
			disk->by[role].driver->sweep(disk->by[role].self, known);
}

// NOT_FOUND of every driver.
static fallible explain_saved(struct err *err)
{
	if (!err || err_kind(err) != ERR_NOT_FOUND)
		return err;
	return err_hint(err_recast(err, ERR_NOT_OFFERED, "not_offered",
				   "the snapshot was made with another disk driver"),
			"start cove with the --disk of that time");
}

fallible disk_load_begin(struct disk *disk, int dir, const char *box, const struct limits *limits,
			 uint64_t bytes, struct disk_copy *out)
{
	struct err *err = disk_none(box);

	for (enum role role = MAIN; role < ROLES && err && err_kind(err) == ERR_NOT_FOUND; role++) {
		if (!disk->by[role].driver)
			continue;
		err_free(err);
		err = disk_check_room(disk, role, bytes);
		if (!err)
			err = disk->by[role].driver->load(disk->by[role].self, dir, box, limits,
							  bytes, out);
	}
	return explain_saved(err);
}

fallible disk_view(struct disk *disk, int dir, int userns, int *out_tree)
{
	struct err *err = disk_none("a snapshot");
	auto_fd tree = -1;

	for (enum role role = MAIN; role < ROLES && err && err_kind(err) == ERR_NOT_FOUND; role++) {
		if (!disk->by[role].driver)
			continue;
		err_free(err);
		err = disk->by[role].driver->view(disk->by[role].self, dir, &tree);
	}
	TRY(explain_saved(err));
	if (mount_change(tree, MOUNT_STILL, 0, userns))
		return err_sys(errno, "map the ids of a saved disk");
	*out_tree = take_fd(&tree);
	return OK;
}

fallible disk_load_end(struct disk *disk, const char *box, const struct limits *limits, int userns,
		       int *out_tree)
{
	bool found = false;
	struct err *err;

	for (enum role role = MAIN; role < ROLES && !found; role++)
		if (disk->by[role].driver)
			TRY(disk->by[role].driver->place(disk->by[role].self, box, &found));
	if (!found)
		return disk_none(box);
	err = take_again(disk, box, limits, userns, true, out_tree);
	if (err)
		err_free(disk_drop(disk, box));
	return err;
}

void disk_load_undo(struct disk *disk, const char *box)
{
	for (enum role role = MAIN; role < ROLES; role++)
		if (disk->by[role].driver)
			disk->by[role].driver->unload(disk->by[role].self, box);
}

// -------------------------------------------------------------------------------------- new limits

fallible disk_limit_begin(struct disk *disk, const char *box, const struct limits *limits,
			  bool is_mounted, struct disk_copy *out)
{
	struct err *err = disk_none(box);
	uint64_t total = 0, room = 0, used = 0;

	TRY(private_dir_room(disk->place.data, &total, &room));
	TRY(disk_check_limit(limits->disk, total));
	for (enum role role = MAIN; role < ROLES && err && err_kind(err) == ERR_NOT_FOUND; role++) {
		const struct disk_driver *driver = disk->by[role].driver;

		if (!driver || !driver->limit)
			continue;
		err_free(err);
		err = driver->limit(disk->by[role].self, box, limits, is_mounted, out);
		if (!err && out->run && disk_used(disk, box, &used))
			err = disk_check_room(disk, role, used);
	}
	if (err) {
		disk_copy_done(out);
		disk_limit_undo(disk, box);
	}
	return err;
}

fallible disk_limit_end(struct disk *disk, const char *box, const struct limits *limits,
			bool copied)
{
	struct err *err = disk_none(box);

	for (enum role role = MAIN; role < ROLES && err && err_kind(err) == ERR_NOT_FOUND; role++) {
		if (!disk->by[role].driver || !disk->by[role].driver->limit)
			continue;
		err_free(err);
		err = disk->by[role].driver->limit_end(disk->by[role].self, box, limits, copied);
	}
	return err;
}

void disk_limit_undo(struct disk *disk, const char *box)
{
	for (enum role role = MAIN; role < ROLES; role++)
		if (disk->by[role].driver && disk->by[role].driver->limit_undo)
			disk->by[role].driver->limit_undo(disk->by[role].self, box);
}

// The driver that has the disk of the box, and the bytes in use; NULL: there is none.
static const struct disk_driver *disk_driver_of(const struct disk *disk, const char *box,
						void **out_self, uint64_t *out_bytes)
{
	for (enum role role = MAIN; role < ROLES; role++) {
		const struct disk_driver *driver = disk->by[role].driver;

		*out_self = disk->by[role].self;
		if (driver && driver->used && driver->used(*out_self, box, out_bytes))
			return driver;
	}
	return NULL;
}

bool disk_used(struct disk *disk, const char *box, uint64_t *out)
{
	void *self;

	return disk_driver_of(disk, box, &self, out) != NULL;
}

void disk_inodes(struct disk *disk, const char *box, int mounts, uint64_t *out_all,
		 uint64_t *out_free)
{
	void *self;
	uint64_t bytes;
	const struct disk_driver *driver = disk_driver_of(disk, box, &self, &bytes);
	struct statfs fs;
	auto_fd tree = -1;

	if (!driver || !driver->limits_inodes)
		return;
	if (mounts < 0) {
		auto_err err = driver->share(self, box, &tree);

		if (err)
			return;
	}
	if (fstatfs(mounts < 0 ? tree : mounts, &fs) || !fs.f_files)
		return;
	*out_all = (uint64_t)fs.f_files;
	*out_free = (uint64_t)fs.f_ffree;
}

void disk_adopt(struct disk *disk, const char *box, const struct limits *limits)
{
	for (enum role role = MAIN; role < ROLES; role++)
		if (disk->by[role].driver && disk->by[role].driver->adopt)
			disk->by[role].driver->adopt(disk->by[role].self, box, limits);
}

bool disk_is_unmounted(struct disk *disk, const char *box)
{
	for (enum role role = MAIN; role < ROLES; role++) {
		const struct disk_driver *driver = disk->by[role].driver;

		if (driver && driver->is_unmounted &&
		    !driver->is_unmounted(disk->by[role].self, box))
			return false;
	}
	return true;
}

struct disk_names {
	bool (*is)(struct str name);
	void (*each)(void *arg, const char *name);
	void *arg;
};

static void disk_name_pass(void *arg, const char *name)
{
	const struct disk_names *names = arg;

	if (names->is(str_of(name)))
		names->each(names->arg, name);
}

static fallible disk_each_of(struct disk *disk, struct disk_names names)
{
	for (enum role role = MAIN; role < ROLES; role++)
		if (disk->by[role].driver)
			TRY(disk->by[role].driver->list(disk->by[role].self, disk_name_pass,
							&names));
	return OK;
}

fallible disk_each(struct disk *disk, void (*each)(void *arg, const char *box), void *arg)
{
	return disk_each_of(disk, (struct disk_names){id_is_box, each, arg});
}

fallible disk_each_volume(struct disk *disk, void (*each)(void *arg, const char *volume), void *arg)
{
	return disk_each_of(disk, (struct disk_names){id_is_volume, each, arg});
}

struct disk_search {
	const char *name;
	bool found;
};

static void disk_name_meet(void *arg, const char *name)
{
	struct disk_search *search = arg;

	search->found |= !strcmp(name, search->name);
}

static bool disk_name_any(struct str name)
{
	return name.len > 0;
}

bool disk_exists(struct disk *disk, const char *name)
{
	struct disk_search search = {.name = name};
	auto_err err = disk_each_of(disk,
				    (struct disk_names){disk_name_any, disk_name_meet, &search});

	return err || search.found;
}

fallible disk_drop(struct disk *disk, const char *box)
{
	struct err *err = OK;

	// The driver of a box is not stored: dropping an absent disk costs microseconds.
	for (enum role role = MAIN; role < ROLES; role++)
		if (disk->by[role].driver && !err)
			err = disk->by[role].driver->drop(disk->by[role].self, box);
	return err;
}

// Our mounts are detached and our loop devices clear themselves: these were made by somebody else.
// Unmount by way of the state directory, where others mount: our own fd lies below their mount.
static void disk_unbind(struct disk *disk, const char *box)
{
	char path[sizeof("/proc/self/fd/2147483647/boxes/") + ID_BOX_LEN], image[ID_BOX_LEN + 8];
	char device_path[LOOPDEV_PATH];
	auto_fd file = -1;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/boxes/%s", disk->place.data, box);
	for (int i = 0; i < UNBIND_MAX; i++)
		if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW))
			break;
	snprintf(image, sizeof(image), "%s.img", box);
	file = openat(disk->place.boxes, image, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	for (int i = 0; file >= 0 && i < UNBIND_MAX; i++) {
		auto_fd device = -1;
		auto_err err = loopdev_find(file, &device, device_path);

		if (err || device < 0)
			break;
		loopdev_detach(device);
	}
}

fallible disk_remove_orphan(struct disk *disk, const char *box)
{
	disk_unbind(disk, box);
	return disk_drop(disk, box);
}

int disk_idle(struct disk *disk)
{
	int soonest = -1;

	disk_sync_keep(disk->sync);
	for (enum role role = MAIN; role < ROLES; role++) {
		int wait = -1;

		if (disk->by[role].driver && disk->by[role].driver->idle)
			wait = disk->by[role].driver->idle(disk->by[role].self);
		if (wait >= 0 && (soonest < 0 || wait < soonest))
			soonest = wait;
	}
	return soonest;
}

uint64_t disk_trash(const struct disk *disk)
{
	return trash_count(disk->place.trash);
}

uint64_t disk_trash_bytes(const struct disk *disk)
{
	return trash_bytes(disk->place.trash);
}

bool disk_reaped(struct disk *disk, int pid)
{
	const struct disk_driver *driver = disk->by[MAIN].driver;

	return disk_sync_reaped(disk->sync, pid) || trash_reaped(disk->place.trash, pid) ||
	       (driver->reaped && driver->reaped(disk->by[MAIN].self, pid));
}
