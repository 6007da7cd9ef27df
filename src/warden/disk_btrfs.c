// One pool file for the host, a subvolume with a simple quota for each box.
//
// The file is preallocated, grows in preallocated steps and is truncated at its end (pool_size.c).
// Discard is off, so a box meets its own EDQUOT or the pool's ENOSPC, never the EIO of a hole that
// the host's disk cannot fill. Barriers are on: the pool outlives the warden. The file gets its
// name when it is complete: one that cannot be mounted holds disks, and is never replaced. A
// truncate at the limit needs two tree blocks within the quota, so a part of each limit is held
// back: idle() grants a box at its limit a step of that, and takes it back once there is room. The
// sum never exceeds the limit. unlink always works. One empty subvolume is kept ready: making a
// disk is then a rename.
//
// syscalls: openat fallocate fstat fstatfs ioctl umount2 close getdents64 mkdirat unlinkat
// syscalls: fchmod faccessat faccessat2 newfstatat fsopen fsconfig fsmount open_tree move_mount
// syscalls: lseek fcntl renameat renameat2 syncfs
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "os/btrfs.h"
#include "os/loopdev.h"
#include "os/mount.h"
#include "os/path.h"
#include "warden/disk_driver.h"
#include "warden/helper.h"
#include "warden/pool_size.h"
#include "warden/private_dir.h"

#define POOL "pool.img"
#define POOL_NEW "pool.new"
#define READY "ready"	      // no box id: leftovers of an earlier warden are removed as leaked
#define READY_MS 20	      // after a box was made: its first command has run by then
#define SAVED "snap-"	      // and a number: the disk of a snapshot, see pool_sweep()
#define LOADED "load-"	      // and a box's id: a copy of one, that gets the box's name
#define INHERITED "inherited" // file of a loaded disk: bytes that its quota group does not count
#define MIB (1ull << 20)
#define FREE_LEAST (32 * MIB) // no new box below this in a pool that cannot grow

#define BRIM (128 << 10) // closer than this to the limit, a truncate may fail
#define GRANT (256 << 10)
#define BLOCKED_CALL_MAX (16 * GRANT)

// A new subvolume is durable after this time plus the time of one commit, however much data is
// dirty: see warden/disk_sync.c.
#define COMMIT_SECONDS "3"

#define NEAR_MS 50
#define FAR_MS 1000

struct tenant {
	char box[ID_BOX_LEN + 1];
	uint64_t id;
	uint64_t limit, held; // the box's limit, and the part of it that is held back
	uint64_t inherited;   // of the limit, used by a snapshot's extents, which its group lacks
};

struct pool {
	struct disk_place place;
	int file, device, root, lock;
	bool fresh;		    // the file was made by this warden
	struct pool_size *size;	    // NULL: not open yet
	struct map *by_box, *by_id; // to struct tenant, which by_box owns
	int64_t look_after;	    // when usage is checked next
	int64_t ready_after;	    // when to make one ready; 0: there is one, or none is needed
	uint64_t ready_id;	    // 0: none is ready
	unsigned int saved;	    // part of the name of the next snapshot
};

static struct str id_key(const uint64_t *id)
{
	return (struct str){(const char *)id, sizeof(*id)};
}

static fallible pool_file(struct pool *pool)
{
	uint64_t size = 0;
	struct stat st;

	pool->file = openat(pool->place.data, POOL, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	pool->fresh = pool->file < 0 && errno == ENOENT;
	if (pool->fresh)
		pool->file = openat(pool->place.data, POOL_NEW,
				    O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (pool->file < 0)
		return err_sys(errno, "open the pool file");
	TRY(pool_size_lock(pool->place.data, pool->fresh ? POOL_NEW : POOL, &pool->lock));
	if (fstat(pool->file, &st))
		return err_sys(errno, "look at the pool file");
	size = (uint64_t)st.st_size;
	if (pool->fresh) {
		btrfs_no_cow(pool->file); // on a btrfs host, preallocation has no effect on
					  // copy-on-write files
		TRY(pool_size_step(pool->place.data, &pool->place.pool, 0, 0, &size));
	}
	if (!size)
		return err_new(NO_SPACE, "host_disk_full", "too little room for a pool of disks");
	// Also on an old file: holes in it are filled before anything relies on them.
	if (fallocate(pool->file, 0, 0, (off_t)size))
		return err_sys(errno, "preallocate the pool");
	return OK;
}

static fallible pool_format(const char *device)
{
	const char *const argv[] = {"mkfs.btrfs", "-q", "-f",	  "-K",	  "-m",
				    "single",	  "-d", "single", device, NULL};

	return helper_run(argv, -1);
}

static fallible pool_mount(struct pool *pool, const char *device)
{
	const struct mount_option options[] = {{"source", device},
					       {"nodiscard", NULL},
					       {"skip_balance", NULL},
					       {"commit", COMMIT_SECONDS},
					       {NULL, NULL}};
	auto_fd dir = -1;
	auto_fd tree = -1;

	TRY(path_dir(pool->place.data, "pool", 0700, &dir));
	tree = mount_new("btrfs", options, MOUNT_SAFE | MOUNT_ATTR_NOATIME);
	if (tree < 0)
		return err_sys(errno, "mount the pool");
	if (mount_attach(tree, pool->place.data, "pool"))
		return err_sys(errno, "attach the pool");
	pool->root = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return pool->root < 0 ? err_sys(errno, "open the pool") : OK;
}

// Removes leftovers of an earlier warden that are no box's disk: the probe's.
static fallible pool_destroy(struct pool *pool)
{
	auto_dir list = path_list(pool->root, ".");
	struct dirent *entry;

	if (!list)
		return err_sys(errno, "list the pool");
	while ((entry = path_next(list))) {
		if (entry->d_name[0] == '.' || id_is_box(str_of(entry->d_name)) ||
		    id_is_volume(str_of(entry->d_name)) || str_starts(str_of(entry->d_name), SAVED))
			continue;
		auto_err err = btrfs_drop(pool->root, entry->d_name);

		if (err)
			log_event(LOG_WARN, "disk.leaked", "error", err_trail(err), NULL);
	}
	return OK;
}

// Durable before the first box is made in it: a pool without its name is made anew.
static fallible pool_name(struct pool *pool)
{
	if (syncfs(pool->root) || fsync(pool->file))
		return err_sys(errno, "sync the pool");
	if (renameat(pool->place.data, POOL_NEW, pool->place.data, POOL))
		return err_sys(errno, "name the pool");
	return path_sync(pool->place.data);
}

static fallible pool_start(struct pool *pool)
{
	char path[LOOPDEV_PATH];

	TRY(pool_file(pool));
	TRY(loopdev_find(pool->file, &pool->device, path));
	if (pool->device < 0)
		TRY(loopdev_attach(pool->file, &pool->device, path));
	else
		TRY(loopdev_grow(pool->device));
	if (pool->fresh)
		TRY(pool_format(path), "format the pool");
	TRY(pool_mount(pool, path));
	TRY(btrfs_quota_on(pool->root));
	btrfs_cancel(pool->root);    // a resize that a power cut interrupted
	TRY(btrfs_grow(pool->root)); // a crash may have come between the file's growth and this
	TRY(pool_destroy(pool));
	TRY(pool_size_new(&(struct pool_files){pool->place.data, pool->file, pool->device,
					       pool->root, pool->lock},
			  &pool->place.pool, &pool->size));
	return pool->fresh ? pool_name(pool) : OK;
}

// Wraps the reason why an existing pool cannot be used. The disks in it stay untouched until then.
static fallible pool_lost(struct err *err)
{
	return err_hint(err_recast(err, ERR_UNAVAILABLE, DISK_LOST,
				   "the pool with the disks of sandboxes cannot be used"),
			"see the log; if its disks are not wanted any more, move DATA/" POOL
			" away, or name another driver with --disk");
}

static void pool_close(void *self)
{
	struct pool *pool = self;
	struct str key;
	void *tenant;
	size_t at = 0;

	pool_size_stop(pool->size);
	if (pool->root >= 0) {
		private_dir_unmount(pool->root);
		close(pool->root);
	}
	if (pool->device >= 0)
		close(pool->device); // autoclear detaches it
	if (pool->file >= 0)
		close(pool->file);
	if (pool->lock >= 0)
		close(pool->lock);
	while (map_next(pool->by_box, &at, &key, &tenant))
		free(tenant);
	map_free(pool->by_box);
	map_free(pool->by_id);
	free(pool);
}

static fallible pool_open(const struct disk_place *place, void **out)
{
	struct pool *pool = mem_new_of(struct pool);
	struct err *err;

	*pool = (struct pool){.place = *place,
			      .file = -1,
			      .device = -1,
			      .root = -1,
			      .lock = -1,
			      .by_box = map_new(),
			      .by_id = map_new()};
	err = pool_start(pool);
	if (err) {
		// A host that cannot use a pool must not lose the space of one.
		if (pool->fresh)
			unlinkat(place->data, POOL_NEW, 0);
		else
			err = pool_lost(err);
		pool_close(pool);
		return err;
	}
	*out = pool;
	return OK;
}

// No more boxes in a pool that is full and cannot grow. A pool that has merely not grown yet
// accepts them: a new disk needs little.
static fallible pool_admit(const struct pool *pool)
{
	struct statfs fs;

	if (!pool_size_is_stuck(pool->size))
		return OK;
	if (fstatfs(pool->root, &fs))
		return err_sys(errno, "ask the pool for its free space");
	if ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= FREE_LEAST)
		return OK;
	return err_hint(err_new(NO_SPACE, "disk_full", "the disks' pool cannot grow"),
			"free space on the host, or raise --pool-max");
}

static uint64_t blocked_call_of(uint64_t limit)
{
	uint64_t held = limit / 64 / GRANT * GRANT;

	return held < 2 * GRANT ? 2 * GRANT : held > BLOCKED_CALL_MAX ? BLOCKED_CALL_MAX : held;
}

static fallible tenant_limit(struct pool *pool, const struct tenant *tenant)
{
	return btrfs_quota_limit(pool->root, tenant->id,
				 tenant->limit - tenant->inherited - tenant->held);
}

// 0: the disk was not loaded from a snapshot.
static uint64_t inherited_of(int subvolume)
{
	auto_buf text = BUF_INIT(32);
	auto_err err = path_read(subvolume, INHERITED, &text);
	uint64_t bytes = 0;

	if (!err && !str_to_u64(buf_view(&text), 0, UINT64_MAX >> 1, &bytes))
		bytes = 0;
	return bytes;
}

// What a disk with such a limit may inherit.
static uint64_t inherited_max(uint64_t limit)
{
	return limit - blocked_call_of(limit) - MIB;
}

static fallible disk_btrfs_settle(struct pool *pool, struct tenant *tenant, int *out_tree)
{
	auto_fd root = -1;
	auto_fd tree = -1;

	root = openat(pool->root, tenant->box, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root < 0)
		return err_sys(errno, "open a subvolume");
	TRY(btrfs_id(root, &tenant->id));
	tenant->inherited = inherited_of(root);
	if (tenant->inherited > inherited_max(tenant->limit))
		tenant->inherited = inherited_max(tenant->limit);
	TRY(tenant_limit(pool, tenant));
	if (!out_tree)
		return OK;
	tree = mount_copy(root, "");
	if (tree < 0)
		return err_sys(errno, "copy the mount of a box's disk");
	*out_tree = take_fd(&tree);
	return OK;
}

static struct tenant *tenant_new(const char *box, const struct limits *limits)
{
	struct tenant *tenant = mem_new_of(struct tenant);
	uint64_t limit = limits->disk ? limits->disk : LIMITS_DEFAULT.disk;

	*tenant = (struct tenant){.limit = limit, .held = blocked_call_of(limit)};
	snprintf(tenant->box, sizeof(tenant->box), "%s", box);
	return tenant;
}

static void tenant_enter(struct pool *pool, struct tenant *tenant)
{
	map_put(pool->by_box, str_of(tenant->box), tenant);
	map_put(pool->by_id, id_key(&tenant->id), tenant);
	pool_size_set_disks(pool->size, map_count(pool->by_box));
	if (pool->look_after > clock_ms() + NEAR_MS)
		pool->look_after = clock_ms() + NEAR_MS; // the box may use its whole limit at once
}

static void tenant_leave(struct pool *pool, const char *box)
{
	struct tenant *tenant = map_take(pool->by_box, str_of(box));

	if (tenant)
		map_take(pool->by_id, id_key(&tenant->id));
	pool_size_set_disks(pool->size, map_count(pool->by_box));
	free(tenant);
}

// An empty subvolume with the directories of a disk.
static fallible disk_btrfs_set_up(struct pool *pool, const char *name, uint64_t *out_id)
{
	auto_fd root = -1;
	struct err *err;

	TRY(btrfs_make(pool->root, name));
	root = openat(pool->root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root < 0 || fchmod(root, 0755))
		err = err_sys(errno, "open a new subvolume");
	else
		err = disk_make_directories(root);
	if (!err)
		err = btrfs_id(root, out_id);
	if (err)
		err_free(btrfs_drop(pool->root, name));
	return err;
}

static fallible take_subvolume(struct pool *pool, const char *box)
{
	bool ready = pool->ready_id && renameat(pool->root, READY, pool->root, box) == 0;
	uint64_t id;

	kill_point("warden.disk_renamed", "ready");
	pool->ready_id = 0;
	pool->ready_after = clock_ms() + READY_MS;
	return ready ? OK : disk_btrfs_set_up(pool, box, &id);
}

// On failure the next box takes longer, and reports the error.
static void make_ready(struct pool *pool)
{
	auto_err err = btrfs_drop(pool->root, READY);

	if (!err)
		err = disk_btrfs_set_up(pool, READY, &pool->ready_id);
	if (err)
		pool->ready_id = 0;
	pool->ready_after = 0;
}

static fallible pool_make(void *self, const char *box, const struct limits *limits, bool lasting,
			  int *out_tree)
{
	struct pool *pool = self;
	struct tenant *tenant;
	struct err *err;

	(void)lasting;
	if (limits->disk && limits->disk < 4 * MIB)
		return err_new(INVALID, "disk_too_small", "a disk has at least 4 MiB");
	TRY(pool_admit(pool));
	TRY(take_subvolume(pool, box));
	tenant = tenant_new(box, limits);
	err = disk_btrfs_settle(pool, tenant, out_tree);
	if (err) {
		free(tenant);
		err_free(btrfs_drop(pool->root, box));
		return err_while(err, "make the disk of %s", box);
	}
	tenant_enter(pool, tenant);
	return OK;
}

static bool pool_has(const struct pool *pool, const char *box)
{
	struct stat st;

	return fstatat(pool->root, box, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static fallible pool_again(void *self, const char *box, const struct limits *limits, int *out_tree)
{
	struct pool *pool = self;
	struct tenant *tenant;
	struct err *err;

	if (!pool_has(pool, box))
		return disk_none(box);
	TRY(pool_admit(pool));
	tenant_leave(pool, box);
	tenant = tenant_new(box, limits);
	err = disk_btrfs_settle(pool, tenant, out_tree);
	if (err) {
		free(tenant);
		return err_while(err, "take the disk of %s again", box);
	}
	tenant_enter(pool, tenant);
	return OK;
}

static void pool_adopt(void *self, const char *box, const struct limits *limits)
{
	struct pool *pool = self;
	struct tenant *tenant;
	struct err *err;

	if (!pool_has(pool, box))
		return;
	tenant = tenant_new(box, limits);
	err = disk_btrfs_settle(pool, tenant, NULL);
	if (!err) {
		tenant_enter(pool, tenant);
		return;
	}
	// The box keeps its limit, but is not watched as it nears that limit.
	log_event(LOG_WARN, "disk.unwatched", "sandbox", box, "error", err_trail(err), NULL);
	err_free(err);
	free(tenant);
}

static fallible pool_list(void *self, void (*each)(void *arg, const char *box), void *arg)
{
	const struct pool *pool = self;

	return disk_list(pool->root, "", each, arg);
}

static int pool_shared(void *self)
{
	const struct pool *pool = self;

	return pool->root;
}

static bool pool_used(void *self, const char *box, uint64_t *out)
{
	const struct pool *pool = self;
	const struct tenant *tenant = map_get(pool->by_box, str_of(box));
	auto_fd subvolume = -1;
	auto_err err = NULL;
	uint64_t id;

	if (tenant) {
		if (!btrfs_quota_used(pool->root, tenant->id, out))
			return false;
		*out += tenant->inherited;
		return true;
	}
	subvolume = openat(pool->root, box, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (subvolume < 0)
		return false;
	err = btrfs_id(subvolume, &id);
	if (err || !btrfs_quota_used(pool->root, id, out))
		return false;
	*out += inherited_of(subvolume);
	return true;
}

// The kernel knows what is in use once the file system is written out.
static fallible pool_flush(struct disk_copy *copy)
{
	return syncfs(copy->fds[0]) ? err_sys(errno, "write the pool out") : OK;
}

static fallible pool_limit(void *self, const char *box, const struct limits *limits,
			   bool is_mounted, struct disk_copy *out)
{
	struct pool *pool = self;
	const struct tenant *tenant = map_get(pool->by_box, str_of(box));
	auto_fd disk = openat(pool->root, box, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	(void)is_mounted;
	if (disk < 0)
		return errno == ENOENT ? disk_none(box) : err_sys(errno, "open a disk");
	if (tenant && limits->disk >= tenant->limit)
		return OK;
	*out = (struct disk_copy){.run = pool_flush, .fds = {take_fd(&disk)}, .count = 1};
	return OK;
}

static fallible pool_limit_end(void *self, const char *box, const struct limits *limits,
			       bool copied)
{
	struct pool *pool = self;
	struct tenant *tenant = map_get(pool->by_box, str_of(box));
	uint64_t used = 0;

	if (!pool_has(pool, box))
		return disk_none(box);
	if (copied && !pool_used(pool, box, &used))
		return err_sys(EIO, "measure the disk of %s", box);
	if (used > inherited_max(limits->disk))
		return disk_below_use(used);
	if (!tenant)
		return OK; // its next mount sets the limit
	tenant->limit = limits->disk;
	tenant->held = blocked_call_of(limits->disk);
	if (pool->look_after > clock_ms() + NEAR_MS)
		pool->look_after = clock_ms() + NEAR_MS;
	return tenant_limit(pool, tenant);
}

static fallible pool_drop(void *self, const char *box)
{
	struct pool *pool = self;

	TRY(btrfs_drop(pool->root, box));
	tenant_leave(pool, box);
	return OK;
}

// ------------------------------------------------------------------------------------- snapshots

// Copies `fds[1]` to a new subvolume in `fds[0]`: a snapshot is read-only, the disk of a box is
// not.
static fallible pool_copy(struct disk_copy *copy)
{
	bool is_load = str_starts(str_of(copy->name), LOADED);
	auto_fd made = -1;
	uint64_t id, used = 0;
	char text[24];

	TRY(btrfs_snapshot(copy->fds[0], copy->fds[1], copy->name, !is_load));
	if (is_load) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)copy->inherited);
		made = openat(copy->fds[0], copy->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (made < 0)
			return err_sys(errno, "open a loaded disk");
		return path_write(made, INHERITED, 0600, text);
	}
	TRY(btrfs_id(copy->fds[1], &id));
	if (btrfs_quota_used(copy->fds[0], id, &used))
		copy->bytes = used + inherited_of(copy->fds[1]);
	return OK;
}

static fallible pool_prepare(struct pool *pool, const char *from, struct disk_copy *out)
{
	auto_fd root = openat(pool->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd disk = openat(pool->root, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (disk < 0)
		return errno == ENOENT ? disk_none(from) : err_sys(errno, "open a disk to copy");
	if (root < 0)
		return err_sys(errno, "open the pool");
	out->run = pool_copy;
	out->fds[0] = take_fd(&root);
	out->fds[1] = take_fd(&disk);
	out->count = 2;
	return OK;
}

// The directory names the subvolume before that exists.
static fallible pool_save(void *self, const char *box, int dir, struct disk_copy *out)
{
	struct pool *pool = self;

	if (!pool_has(pool, box))
		return disk_none(box);
	TRY(pool_admit(pool));
	*out = (struct disk_copy){0};
	snprintf(out->name, sizeof(out->name), SAVED "%llx%04x",
		 (unsigned long long)clock_wall_ms(), pool->saved++ & 0xffff);
	TRY(path_write_sync(dir, DISK_SAVED_POOL, 0600, str_of(out->name)));
	return pool_prepare(pool, box, out);
}

static fallible saved_name(int dir, struct buf *out)
{
	return path_read(dir, DISK_SAVED_POOL, out);
}

static fallible pool_load(void *self, int dir, const char *box, const struct limits *limits,
			  uint64_t bytes, struct disk_copy *out)
{
	auto_buf name = BUF_INIT(64);
	struct pool *pool = self;
	uint64_t limit = limits->disk ? limits->disk : LIMITS_DEFAULT.disk;
	auto_err absent = saved_name(dir, &name);

	if (absent)
		return err_kind(absent) == ERR_NOT_FOUND ? disk_none(box) : take_ptr(absent);
	TRY(pool_admit(pool));
	if (limit < 4 * MIB || bytes > inherited_max(limit))
		return err_hint(err_new(INVALID, "bad_field",
					"'limits.diskMB' is too small for this snapshot"),
				"the snapshot holds %llu MiB", (unsigned long long)bytes >> 20);
	*out = (struct disk_copy){.inherited = bytes};
	snprintf(out->name, sizeof(out->name), LOADED "%s", box);
	TRY(btrfs_drop(pool->root, out->name));
	return pool_prepare(pool, name.at, out);
}

static fallible pool_place(void *self, const char *box, bool *out_found)
{
	const struct pool *pool = self;
	char name[ID_BOX_LEN + 8];

	snprintf(name, sizeof(name), LOADED "%s", box);
	return disk_name(pool->root, name, box, out_found);
}

static fallible pool_view(void *self, int dir, int *out_tree)
{
	const struct pool *pool = self;
	auto_buf name = BUF_INIT(64);
	auto_err absent = saved_name(dir, &name);
	int tree;

	if (absent)
		return err_kind(absent) == ERR_NOT_FOUND ? disk_none("a snapshot")
							 : take_ptr(absent);
	tree = str_starts(buf_view(&name), SAVED) ? mount_copy(pool->root, name.at) : -1;
	if (tree < 0)
		return err_sys(errno, "open a saved disk");
	*out_tree = tree;
	return OK;
}

static void pool_unload(void *self, const char *box)
{
	const struct pool *pool = self;
	char name[ID_BOX_LEN + 8];

	snprintf(name, sizeof(name), LOADED "%s", box);
	err_free(btrfs_drop(pool->root, name));
}

static fallible pool_unsave(void *self, int dir)
{
	const struct pool *pool = self;
	auto_buf name = BUF_INIT(64);
	auto_err absent = saved_name(dir, &name);

	if (absent)
		return err_kind(absent) == ERR_NOT_FOUND ? OK : take_ptr(absent);
	return str_starts(buf_view(&name), SAVED) ? btrfs_drop(pool->root, name.at) : OK;
}

static void pool_sweep(void *self, const struct map *known)
{
	const struct pool *pool = self;
	auto_dir list = path_list(pool->root, ".");
	struct dirent *entry;

	while (list && (entry = path_next(list)))
		if (str_starts(str_of(entry->d_name), SAVED) &&
		    !map_get(known, str_of(entry->d_name)))
			err_free(btrfs_drop(pool->root, entry->d_name));
}

struct watch {
	struct pool *pool;
	uint64_t unspent; // the most that any one box may still write
	bool near;
};

static void disk_btrfs_look(void *arg, uint64_t id, uint64_t used)
{
	struct watch *watch = arg;
	struct tenant *tenant = map_get(watch->pool->by_id, id_key(&id));
	uint64_t wanted, room;

	if (!tenant) {
		// Kernels before 6.10 keep the qgroup of a deleted subvolume. Some also drop that
		// of a living one while its usage is not yet written.
		if (!used && id != watch->pool->ready_id)
			btrfs_quota_forget(watch->pool->root, id);
		return;
	}
	used += tenant->inherited;
	room = tenant->limit - tenant->held > used ? tenant->limit - tenant->held - used : 0;
	if (room > watch->unspent)
		watch->unspent = room;
	wanted = tenant->held;
	if (room < BRIM && wanted >= GRANT)
		wanted -= GRANT;
	else if (room > 2 * blocked_call_of(tenant->limit))
		wanted = blocked_call_of(tenant->limit);
	watch->near |= room < 4 * BLOCKED_CALL_MAX;
	if (wanted == tenant->held)
		return;
	tenant->held = wanted;
	err_free(tenant_limit(watch->pool, tenant));
}

static int sooner(const struct pool *pool, int64_t now, int wait)
{
	int64_t ready = pool->ready_after - now;

	return pool->ready_after && (wait < 0 || ready < wait) ? (int)ready : wait;
}

static int pool_idle(void *self)
{
	struct watch watch = {.pool = self};
	struct pool *pool = self;
	int64_t now = clock_ms();
	int wait;

	pool_size_keep(pool->size);
	if (pool->ready_after && now >= pool->ready_after)
		make_ready(pool);
	if (!map_count(pool->by_box))
		return sooner(pool, now, -1);
	if (now < pool->look_after)
		return sooner(pool, now, (int)(pool->look_after - now));
	err_free(btrfs_quota_walk(pool->root, disk_btrfs_look, &watch));
	pool_size_set_unspent(pool->size, watch.unspent);
	wait = watch.near ? NEAR_MS : FAR_MS;
	pool->look_after = now + wait;
	return sooner(pool, now, wait);
}

static bool pool_reaped(void *self, int pid)
{
	const struct pool *pool = self;

	return pool_size_reaped(pool->size, pid);
}

const struct disk_driver disk_btrfs = {
	.word = "btrfs",
	.limits_bytes = true,
	.preallocates = true,
	.open = pool_open,
	.close = pool_close,
	.make = pool_make,
	.again = pool_again,
	.adopt = pool_adopt,
	.used = pool_used,
	.drop = pool_drop,
	.save = pool_save,
	.load = pool_load,
	.place = pool_place,
	.unload = pool_unload,
	.view = pool_view,
	.unsave = pool_unsave,
	.limit = pool_limit,
	.limit_end = pool_limit_end,
	.sweep = pool_sweep,
	.list = pool_list,
	.pool = pool_shared,
	.idle = pool_idle,
	.reaped = pool_reaped,
};
