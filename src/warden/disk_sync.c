// A sync of a busy disk takes as long as the disk needs, so a child of the warden does it. The
// child keeps two descriptors and finds the rest:
//	pool         syncfs: data first, while transactions go on, then a short commit. A commit by
//	             btrfs itself (disk_btrfs.c) then has no unwritten data to wait for.
//	images       BLKFLSBUF on each loop device of a file in DATA/boxes: the kernel syncs the
//	             file system that is mounted from it, wherever that is.
//	directories  syncfs of the host's file system, if there are any.
//
// syscalls: clone close_range dup2 dup3 prctl exit_group syncfs fsync ioctl openat close getdents64
// syscalls: clock_nanosleep nanosleep getppid set_robust_list kill wait4 fcntl faccessat faccessat2
// syscalls: fstat newfstatat write
#include "warden/disk_sync.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "os/loopdev.h"
#include "warden/disk_driver.h"
#include "warden/helper.h"

struct disk_sync {
	int pool, boxes;
	int pid; // 0: not running
};

static void count_disk(void *arg, const char *box)
{
	(void)box;
	++*(int *)arg;
}

static int count_disks(int boxes, const char *suffix)
{
	int count = 0;

	err_free(disk_list(boxes, suffix, count_disk, &count));
	return count;
}

// 0, or the first errno.
static int sync_all(int pool, int boxes)
{
	int failed = pool >= 0 && syncfs(pool) ? errno : 0;

	if (count_disks(boxes, ".img")) {
		int images = loopdev_sync_all(boxes);

		failed = failed ? failed : images;
		if (fsync(boxes) && !failed)
			failed = errno;
	}
	if (count_disks(boxes, "") && syncfs(boxes) && !failed)
		failed = errno;
	return failed;
}

static _Noreturn void sync_run(int pool, int boxes, int parent)
{
	const struct timespec pause = {DISK_SYNC_MS / 1000, DISK_SYNC_MS % 1000 * 1000000};
	int fds[] = {boxes, pool >= 0 ? pool : boxes}, told = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cove-sync");
	if (helper_keep(fds, 2))
		_exit(1);
	while (getppid() == parent) {
		int failed = sync_all(pool >= 0 ? fds[1] : -1, fds[0]);

		if (failed && failed != told)
			log_event(LOG_ERROR, "disk.sync_failed", "error", strerror(failed), NULL);
		told = failed;
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

struct disk_sync *disk_sync_new(int pool, int boxes)
{
	struct disk_sync *sync = mem_new_of(struct disk_sync);

	*sync = (struct disk_sync){.pool = pool, .boxes = boxes};
	return sync;
}

void disk_sync_keep(struct disk_sync *sync)
{
	int parent = getpid(), pid;

	if (sync->pid)
		return;
	pid = fork();
	if (pid == 0)
		sync_run(sync->pool, sync->boxes, parent);
	// fork failed: the next call tries again.
	sync->pid = pid > 0 ? pid : 0;
}

bool disk_sync_reaped(struct disk_sync *sync, int pid)
{
	if (!sync->pid || sync->pid != pid)
		return false;
	log_event(LOG_WARN, "disk.sync_ended", NULL);
	sync->pid = 0;
	return true;
}

void disk_sync_stop(struct disk_sync *sync)
{
	if (sync)
		helper_end(sync->pid);
	free(sync);
}
