// Deletes files in a child, one at a time. The child exits when the directory is empty; entries
// that came meanwhile start the next. After a failure none is started before a new entry arrives,
// so a directory that cannot be removed does not fork for ever. The child measures what it is about
// to delete, and shares the sum with the warden.
//
// syscalls: renameat2 openat getdents64 close clone close_range dup2 dup3 prctl setpriority mmap
// syscalls: exit_group newfstatat fstat lseek fcntl getpid unlinkat set_robust_list munmap
#include "warden/trash.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/path.h"

#define MEASURE_DEPTH 200 // of a tree, each level with an open directory

// Between the warden and its child.
struct trash_shared {
	_Atomic uint64_t bytes; // of all entries; TRASH_UNKNOWN
	atomic_bool stale;	// an entry came after they were measured
};

struct trash {
	int dir;
	struct trash_shared *shared;
	int reaper; // 0: none
	uint64_t count, number;
};

static uint64_t warden_trash_count(int dir)
{
	auto_dir list = path_list(dir, ".");
	uint64_t n = 0;

	while (list && path_next(list))
		n++;
	return n;
}

// Adds what is freed when the last name of a file goes; false: the tree is too deep, or unreadable.
static bool trash_measure(int dir, const char *name, int depth, uint64_t *sum)
{
	struct stat st;
	struct dirent *entry;
	bool is_measured = true;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT;
	if (S_ISDIR(st.st_mode) || st.st_nlink == 1)
		*sum += (uint64_t)st.st_blocks * 512;
	if (!S_ISDIR(st.st_mode))
		return true;
	auto_dir list = depth < MEASURE_DEPTH ? path_list(dir, name) : NULL;

	if (!list)
		return false;
	while (is_measured && (entry = path_next(list)))
		is_measured = trash_measure(dirfd(list), entry->d_name, depth + 1, sum);
	return is_measured && !errno;
}

static void trash_measure_all(int dir, struct trash_shared *shared)
{
	auto_dir list = path_list(dir, ".");
	struct dirent *entry;
	uint64_t sum = 0;
	bool is_measured = list != NULL;

	atomic_store(&shared->stale, false);
	while (is_measured && (entry = path_next(list)))
		is_measured = trash_measure(dir, entry->d_name, 0, &sum);
	atomic_store(&shared->bytes, is_measured ? sum : TRASH_UNKNOWN);
}

// One of the entries that were measured: what it had goes with it.
static fallible trash_remove(int dir, const char *name, struct trash_shared *shared)
{
	uint64_t bytes = 0, all = atomic_load(&shared->bytes);
	bool is_measured = trash_measure(dir, name, 0, &bytes);

	TRY(path_remove(dir, name));
	if (all != TRASH_UNKNOWN)
		atomic_store(&shared->bytes, is_measured && bytes <= all ? all - bytes : 0);
	return OK;
}

static _Noreturn void trash_reap(int dir, struct trash_shared *shared)
{
	bool failed = false, found = true;
	DIR *entries;

	// The reaper dies with the warden: the next warden starts another.
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpriority(PRIO_PROCESS, 0, 19);
	// Close all other fds of the warden: this child runs long.
	if (dup2(dir, 3) < 0 || close_range(4, ~0u, 0))
		_exit(1);
	dir = 3;
	entries = path_list(dir, ".");
	if (!entries)
		_exit(1);
	while (found && !failed) {
		struct dirent *entry;

		found = false;
		trash_measure_all(dir, shared);
		rewinddir(entries);
		while ((entry = path_next(entries))) {
			auto_err err = trash_remove(dir, entry->d_name, shared);

			found = true;
			if (!err)
				continue;
			failed = true;
			log_event(LOG_ERROR, "trash.stuck", "error", err_trail(err), NULL);
		}
	}
	_exit(failed);
}

static void trash_start(struct trash *trash)
{
	int pid;

	if (trash->reaper || !trash->count)
		return;
	pid = fork();
	if (pid == 0)
		trash_reap(trash->dir, trash->shared);
	// fork failed: the next entry tries again.
	trash->reaper = pid > 0 ? pid : 0;
}

fallible trash_open(int parent, const char *name, struct trash **out)
{
	auto_fd dir = -1;
	struct trash *trash;
	void *shared;

	TRY(path_dir(parent, name, 0700, &dir));
	shared = mmap(NULL, sizeof(struct trash_shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return err_sys(errno, "make what the trash shares with its child");
	trash = mem_new_of(struct trash);
	trash->dir = take_fd(&dir);
	trash->shared = shared;
	atomic_store(&trash->shared->stale, true);
	trash->count = warden_trash_count(trash->dir);
	// Names differ from those of earlier wardens.
	trash->number = (uint64_t)clock_wall_ms() << 10;
	trash_start(trash);
	*out = trash;
	return OK;
}

void trash_close(struct trash *trash)
{
	if (!trash)
		return;
	munmap(trash->shared, sizeof(*trash->shared));
	close(trash->dir);
	free(trash);
}

static fallible trash_move(struct trash *trash, int dir, const char *name)
{
	char target[NAME_MAX + 1];

	snprintf(target, sizeof(target), "%.64s.%llx", name, (unsigned long long)trash->number++);
	if (renameat2(dir, name, trash->dir, target, RENAME_NOREPLACE) == 0) {
		trash->count++;
		atomic_store(&trash->shared->stale, true);
		kill_point("warden.disk_renamed", "trash");
		return OK;
	}
	return errno == ENOENT ? OK : err_sys(errno, "move '%s' to the trash", name);
}

fallible trash_put(struct trash *trash, int dir, const char *name)
{
	TRY(trash_move(trash, dir, name));
	trash_start(trash);
	return OK;
}

fallible trash_put_all(struct trash *trash, int dir, bool (*which)(const char *name))
{
	auto_dir list = path_list(dir, ".");
	struct err *err = OK;
	struct dirent *entry;

	if (!list)
		return err_sys(errno, "list leftovers");
	while (!err && (entry = path_next(list)))
		if (which(entry->d_name))
			err = trash_move(trash, dir, entry->d_name);
	trash_start(trash);
	return err;
}

uint64_t trash_count(const struct trash *trash)
{
	return trash->count;
}

uint64_t trash_bytes(const struct trash *trash)
{
	if (!trash->count)
		return 0;
	return atomic_load(&trash->shared->stale) ? TRASH_UNKNOWN
						  : atomic_load(&trash->shared->bytes);
}

bool trash_reaped(struct trash *trash, int pid)
{
	uint64_t before = trash->count;

	if (!trash->reaper || pid != trash->reaper)
		return false;
	trash->reaper = 0;
	trash->count = warden_trash_count(trash->dir);
	if (trash->count < before)
		trash_start(trash);
	return true;
}
