// Grows and shrinks the pool file, in a child of the warden. Growth: fallocate a step, resize the
// loop device, then btrfs. It is driven by the space that no chunk has taken: chunks are allocated
// when a write is accepted, statfs() counts data only after writeback. A writer that outruns it
// waits in the kernel for writeback and a commit. One request for more than there is (fallocate)
// fails and takes every chunk: that is detected, and for some seconds one sandbox's remaining limit
// is kept free. Shrinking: compact nearly empty chunks, move those beyond the new end (btrfs does
// so in the resize), commit, only then truncate. Another child does it, so that growth can cancel
// it. After a crash at any step the file is at least as large as its file system, without holes.
//
// syscalls: clone close_range dup2 dup3 prctl exit_group syncfs fallocate ftruncate fstat fstatfs
// syscalls: newfstatat ioctl ppoll pipe2 read write getppid set_robust_list kill wait4 fcntl setpriority
#include "warden/pool_size.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "os/btrfs.h"
#include "os/fd.h"
#include "os/loopdev.h"
#include "warden/helper.h"
#include "warden/private_dir.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define ROUND (64 * MIB)
#define STEP_MIN (256 * MIB)
#define STEP_MAX (4 * GIB)
#define FREE_MIN (128 * MIB)	   // at least so much is kept free of chunks
#define FREE_MAX (GIB + 128 * MIB) // at most: a chunk of a large pool is 1 GiB
#define FREE_NONE (32 * MIB)	   // less than this: a request was larger than the free space
#define FREE_SHRINK (64 * MIB)	   // less than this ends a shrink: moving needs one more chunk
#define FREE_MARGIN (8 * MIB) // shrinking leaves this much above the mark at which growth begins
#define UNSPENT_MAX (8 * GIB)

#define FAST_MS 10  // while something writes
#define WATCH_MS 50 // while something could
#define REST_MS 500 // while there is no disk, and the file could shrink
#define WRITING_MS 1000
#define UNSPENT_MS 10000
#define AWAKE_MS                                                                                   \
	2000 // after the last disk: a host that creates and deletes often need not wake the child
	     // each time
#define RETRY_MS 1000	// after a failed step
#define SETTLED_MS 3000 // no shrinking for so long after the last growth
#define AGAIN_MS 15000	// after a shrink without result; doubled after the next one
#define AGAIN_MAX_MS 600000
#define SHRINK_ROUNDS 32
#define LOCK_MS 120000
#define LOCK_STEP_MS 10

// Shared between the warden and its child.
struct pool_shared {
	_Atomic uint64_t disks, unspent;
	_Atomic bool stuck;
	_Atomic bool resting; // the child waits to be woken
};

struct pool_size {
	struct pool_files files;
	struct pool_bounds bounds;
	struct pool_shared *shared;
	int wake;  // an eventfd: there are disks again
	int pid;   // 0: the child is not running
	int alive; // read end of a pipe that hangs up when the child and its own child are gone;
		   // -1: none
};

// State of the child process that watches the pool.
struct pool_watch {
	struct pool_files files;
	struct pool_bounds bounds;
	struct pool_shared *shared;
	int wake;
	struct btrfs_space seen;
	int64_t awake_until, writing_until, unspent_until, grow_after, shrink_after;
	int64_t again_ms; // delay of the next shrink after one without result
	int shrinker;	  // pid; 0: none
	bool told;	  // that the pool cannot grow
};

static uint64_t round_down(uint64_t bytes)
{
	return bytes / ROUND * ROUND;
}

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
	return value < low ? low : value > high ? high : value;
}

// How much of a pool of that size is kept free of chunks.
static uint64_t pool_free_mark(uint64_t size)
{
	return clamp(size / 8, FREE_MIN, FREE_MAX);
}

fallible pool_size_step(int data, const struct pool_bounds *bounds, uint64_t size, uint64_t chunks,
			uint64_t *out)
{
	uint64_t room = 0, step;

	TRY(private_dir_room(data, NULL, &room));
	step = size < bounds->start ? bounds->start - size
				    : clamp(round_down(chunks), STEP_MIN, STEP_MAX);
	if (bounds->max && size + step > bounds->max)
		step = bounds->max > size ? round_down(bounds->max - size) : 0;
	// Other programs need the free space of the host's disk, too.
	if (step > room / 10 && step > STEP_MIN)
		step = clamp(round_down(room / 10), STEP_MIN, step);
	if (step > room)
		step = 0;
	*out = step;
	return OK;
}

static fallible pool_file_size(const struct pool_files *files, uint64_t *out)
{
	struct stat st;

	if (fstat(files->file, &st))
		return err_sys(errno, "look at the pool file");
	*out = (uint64_t)st.st_size;
	return OK;
}

// Resizes the device, then the file system, to the size of the file.
static fallible pool_fit(const struct pool_files *files)
{
	TRY(loopdev_grow(files->device));
	kill_point("pool.grow", "device");
	TRY(btrfs_grow(files->root));
	kill_point("pool.grow", "done");
	return OK;
}

static fallible pool_grow(const struct pool_watch *watch)
{
	uint64_t size = 0, step = 0;

	TRY(pool_file_size(&watch->files, &size));
	TRY(pool_size_step(watch->files.data, &watch->bounds, size, watch->seen.chunks, &step));
	if (!step)
		return err_sys(ENOSPC, "find room for the pool");
	if (fallocate(watch->files.file, 0, (off_t)size, (off_t)step)) {
		int errnum = errno;

		// A part of it may be allocated. Nothing uses that yet.
		(void)!ftruncate(watch->files.file, (off_t)size);
		return err_sys(errnum, "preallocate more of the pool");
	}
	kill_point("pool.grow", "allocated");
	return pool_fit(&watch->files);
}

// ------------------------------------------------------------------------------------ shrinking

// The size that the pool could have, by its chunks. The same or larger: do not shrink.
static uint64_t pool_target(const struct pool_watch *watch, const struct btrfs_space *space,
			    uint64_t taken)
{
	uint64_t want = taken + FREE_MARGIN;

	// So that pool_free_mark() of the result is free.
	want += clamp(want / 7, FREE_MIN, FREE_MAX);
	want = (want + ROUND - 1) / ROUND * ROUND;
	if (want < watch->bounds.start)
		want = watch->bounds.start;
	return want + clamp(space->size / 8, ROUND, GIB) <= space->size ||
			       (want == watch->bounds.start && want < space->size)
		       ? want
		       : space->size;
}

static fallible pool_truncate(const struct pool_files *files, uint64_t size)
{
	TRY(btrfs_shrink(files->root, size));
	kill_point("pool.shrink", "resized");
	// The smaller size is in every superblock before the file is truncated.
	if (syncfs(files->root))
		return err_sys(errno, "sync the pool");
	kill_point("pool.shrink", "synced");
	if (ftruncate(files->file, (off_t)size))
		return err_sys(errno, "truncate the pool file");
	kill_point("pool.shrink", "truncated");
	return loopdev_grow(files->device);
}

// The size that the pool could have if all chunks were full.
static uint64_t pool_ideal(const struct pool_watch *watch, const struct btrfs_space *space)
{
	struct statfs fs;
	uint64_t room;

	if (fstatfs(watch->files.root, &fs))
		return space->size;
	room = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	return room < space->size ? pool_target(watch, space, space->size - room) : space->size;
}

// First the end without chunks, then nearly empty chunks: a chunk is a tenth of the file system, so
// they move into smaller ones once the file system is smaller.
static fallible pool_shrink(const struct pool_watch *watch)
{
	static const unsigned int percents[] = {5, 30, 60};
	size_t compacted = 0;

	for (int round = 0; round < SHRINK_ROUNDS; round++) {
		struct btrfs_space space = {0};
		uint64_t target;

		TRY(btrfs_measure(watch->files.root, &space));
		target = pool_target(watch, &space, space.chunks);
		if (target < space.size) {
			TRY(pool_truncate(&watch->files, target));
			compacted = 0;
			continue;
		}
		if (compacted == sizeof(percents) / sizeof(*percents) ||
		    pool_ideal(watch, &space) == space.size)
			break;
		TRY(btrfs_compact(watch->files.root, percents[compacted++]));
		kill_point("pool.shrink", "compacted");
	}
	return OK;
}

static _Noreturn void pool_shrinker(const struct pool_watch *watch, int parent)
{
	struct btrfs_space before = {0}, after = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cove-pool-shrink");
	setpriority(PRIO_PROCESS, 0, 19);
	if (getppid() != parent)
		_exit(1);
	err_free(btrfs_measure(watch->files.root, &before));
	auto_err err = pool_shrink(watch);

	// Cancelled by growth, or chunks that fit nowhere: try later.
	if (err)
		log_event(LOG_DEBUG, "pool.not_shrunk", "error", err_trail(err), NULL);
	err_free(btrfs_measure(watch->files.root, &after));
	_exit(after.size < before.size ? 0 : 1);
}

static bool pool_could_shrink(const struct pool_watch *watch)
{
	return watch->seen.size > watch->bounds.start &&
	       pool_ideal(watch, &watch->seen) < watch->seen.size;
}

static void pool_shrink_begin(struct pool_watch *watch)
{
	int self = getpid(), pid = fork();

	if (pid == 0)
		pool_shrinker(watch, self);
	watch->shrinker = pid > 0 ? pid : 0;
}

// A child may have died between two steps and left a file larger than its file system. Nothing uses
// the rest. The sizes that the child gave to btrfs are durable.
static void pool_settle(struct pool_watch *watch)
{
	uint64_t size = 0;
	auto_err err = btrfs_measure(watch->files.root, &watch->seen);

	if (!err)
		err = pool_file_size(&watch->files, &size);
	if (!err && size > watch->seen.size &&
	    !ftruncate(watch->files.file, (off_t)watch->seen.size))
		err = loopdev_grow(watch->files.device);
	if (err)
		log_event(LOG_WARN, "pool.not_shrunk", "error", err_trail(err), NULL);
}

static void pool_shrink_reap(struct pool_watch *watch, bool wait)
{
	int status = 0;

	if (!watch->shrinker || waitpid(watch->shrinker, &status, wait ? 0 : WNOHANG) == 0)
		return;
	watch->shrinker = 0;
	pool_settle(watch);
	if (status) {
		watch->shrink_after = clock_ms() + watch->again_ms;
		watch->again_ms = (int64_t)clamp((uint64_t)watch->again_ms * 2, AGAIN_MS,
						 AGAIN_MAX_MS);
		return;
	}
	// There may be more to give back.
	watch->shrink_after = clock_ms() + RETRY_MS;
	watch->again_ms = AGAIN_MS;
}

// ------------------------------------------------------------------------------------- watching

static uint64_t pool_wanted(struct pool_watch *watch, int64_t now, uint64_t free)
{
	uint64_t mark = pool_free_mark(watch->seen.size), unspent, room = 0;

	if (watch->shrinker)
		return FREE_SHRINK;
	if (free < FREE_NONE)
		watch->unspent_until = now + UNSPENT_MS;
	if (now >= watch->unspent_until)
		return mark;
	err_free(private_dir_room(watch->files.data, NULL, &room));
	unspent = clamp(atomic_load(&watch->shared->unspent), mark, UNSPENT_MAX);
	// Beyond the mark this takes at most half of the host's free space.
	return unspent > free + room / 2 ? clamp(free + room / 2, mark, unspent) : unspent;
}

// Checks the pool. True: it grew, check again at once.
static bool pool_look(struct pool_watch *watch)
{
	struct btrfs_space before = watch->seen;
	int64_t now = clock_ms();
	uint64_t free;
	auto_err err = btrfs_measure(watch->files.root, &watch->seen);

	if (err)
		return false;
	if (watch->seen.chunks > before.chunks)
		watch->writing_until = now + WRITING_MS;
	free = watch->seen.size > watch->seen.chunks ? watch->seen.size - watch->seen.chunks : 0;
	if (free >= pool_wanted(watch, now, free) && watch->seen.size >= watch->bounds.start) {
		atomic_store(&watch->shared->stuck, false);
		watch->told = false;
		return false;
	}
	if (now < watch->grow_after)
		return false;
	if (watch->shrinker) {
		btrfs_cancel(watch->files.root);
		pool_shrink_reap(watch, true);
		return true;
	}
	err = pool_grow(watch);
	watch->shrink_after = now + SETTLED_MS;
	watch->again_ms = AGAIN_MS;
	atomic_store(&watch->shared->stuck, err != NULL);
	if (!err)
		return true;
	watch->grow_after = now + RETRY_MS;
	if (!watch->told)
		log_event(LOG_WARN, "pool.not_grown", "error", err_trail(err), NULL);
	watch->told = true;
	return false;
}

static int pool_pause(struct pool_watch *watch)
{
	struct pool_shared *shared = watch->shared;
	int64_t now = clock_ms();

	if (atomic_load(&shared->disks))
		watch->awake_until = now + AWAKE_MS;
	if (now < watch->writing_until || watch->shrinker)
		return FAST_MS;
	if (now < watch->awake_until)
		return WATCH_MS;
	atomic_store(&shared->resting, true);
	if (atomic_load(&shared->disks) && atomic_exchange(&shared->resting, false))
		return WATCH_MS;
	return watch->seen.size > watch->bounds.start ? REST_MS : -1;
}

static _Noreturn void pool_watch_run(struct pool_watch watch, int alive, int parent)
{
	int fds[] = {watch.files.data,
		     watch.files.file,
		     watch.files.device,
		     watch.files.root,
		     watch.files.lock,
		     watch.wake,
		     alive};
	struct pollfd wake = {.events = POLLIN};
	uint64_t count;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cove-pool");
	if (helper_keep(fds, sizeof(fds) / sizeof(*fds)))
		_exit(1);
	watch.files = (struct pool_files){fds[0], fds[1], fds[2], fds[3], fds[4]};
	wake.fd = fds[5];
	watch.shrink_after = clock_ms() + SETTLED_MS;
	watch.again_ms = AGAIN_MS;
	pool_settle(&watch);
	while (getppid() == parent) {
		pool_shrink_reap(&watch, false);
		if (pool_look(&watch))
			continue;
		if (!watch.shrinker && clock_ms() >= watch.shrink_after &&
		    clock_ms() >= watch.writing_until && pool_could_shrink(&watch))
			pool_shrink_begin(&watch);
		if (poll(&wake, 1, pool_pause(&watch)) > 0 &&
		    read(wake.fd, &count, sizeof(count)) < 0)
			_exit(1);
	}
	_exit(0);
}

// ------------------------------------------------------------------------------------ the warden

fallible pool_size_lock(int data, const char *name, int *out_fd)
{
	int64_t end = clock_ms() + LOCK_MS;
	auto_fd fd = openat(data, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_sys(errno, "open the pool file");
	while (!weak(LOCK) && flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK || clock_ms() >= end)
			return err_sys(errno, "lock the pool file");
		usleep(LOCK_STEP_MS * 1000);
	}
	*out_fd = take_fd(&fd);
	return OK;
}

fallible pool_size_new(const struct pool_files *files, const struct pool_bounds *bounds,
		       struct pool_size **out)
{
	void *shared = mmap(NULL, sizeof(struct pool_shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	auto_fd wake = eventfd(0, EFD_CLOEXEC);
	struct pool_size *size;

	if (shared == MAP_FAILED || wake < 0)
		return err_sys(errno, "make what the pool's process shares");
	size = mem_new_of(struct pool_size);
	*size = (struct pool_size){
		.files = *files,
		.bounds = *bounds,
		.shared = shared,
		.wake = take_fd(&wake),
		.alive = -1,
	};
	*out = size;
	return OK;
}

void pool_size_keep(struct pool_size *size)
{
	struct pollfd gone = {.fd = size->alive};
	int parent = getpid(), pid, ends[2];

	if (size->pid || (size->alive >= 0 && poll(&gone, 1, 0) == 0) || pipe2(ends, O_CLOEXEC))
		return;
	fd_drop(&size->alive);
	size->alive = ends[0];
	pid = fork();
	if (pid == 0)
		pool_watch_run((struct pool_watch){.files = size->files,
						   .bounds = size->bounds,
						   .shared = size->shared,
						   .wake = size->wake},
			       ends[1], parent);
	close(ends[1]);
	// fork failed: the next call tries again.
	size->pid = pid > 0 ? pid : 0;
}

bool pool_size_reaped(struct pool_size *size, int pid)
{
	if (!size->pid || size->pid != pid)
		return false;
	log_event(LOG_WARN, "pool.process_ended", NULL);
	size->pid = 0;
	return true;
}

void pool_size_set_disks(struct pool_size *size, size_t count)
{
	atomic_store(&size->shared->disks, count);
	if (count && atomic_load(&size->shared->resting) &&
	    atomic_exchange(&size->shared->resting, false))
		fd_wake(size->wake);
}

void pool_size_set_unspent(struct pool_size *size, uint64_t bytes)
{
	atomic_store(&size->shared->unspent, bytes);
}

bool pool_size_is_stuck(const struct pool_size *size)
{
	return atomic_load(&size->shared->stuck);
}

void pool_size_stop(struct pool_size *size)
{
	if (!size)
		return;
	helper_end(size->pid);
	munmap(size->shared, sizeof(*size->shared));
	close(size->wake);
	fd_drop(&size->alive);
	free(size);
}
