#include "warden/disk_sync.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "os/fd.h"
#include "os/path.h"
#include "scratch.h"
#include "tap.h"

// The child that syncs; 0: there is none.
static int sync_child(void)
{
	DIR *all = opendir("/proc");
	struct dirent *entry;
	char path[64], text[256], parent[32];
	uint64_t pid = 0, found = 0;

	snprintf(parent, sizeof(parent), " %d ", (int)getpid());
	while (all && !found && (entry = readdir(all))) {
		const char *name;

		snprintf(path, sizeof(path), "/proc/%.20s/stat", entry->d_name);
		if (!str_to_u64(str_of(entry->d_name), 1, INT32_MAX, &pid) ||
		    fd_get(AT_FDCWD, path, text, sizeof(text)) <= 0)
			continue;
		name = strstr(text, "(cove-sync) ");
		if (name && !strncmp(name + strlen("(cove-sync) S"), parent, strlen(parent)))
			found = pid;
	}
	if (all)
		closedir(all);
	return (int)found;
}

// It has its name a moment after the fork.
static int sync_child_soon(void)
{
	int pid = 0;

	for (int tries = 0; tries < 500 && !pid; tries++, usleep(10000))
		pid = sync_child();
	return pid;
}

TEST(syncs, "a process syncs the disks; one that was killed is replaced, and it ends when told")
{
	struct disk_sync *sync;
	auto_fd boxes = -1;
	int pid, next;

	CHECK_OK(path_dir(scratch, "boxes", 0700, &boxes));
	sync = disk_sync_new(-1, boxes);
	disk_sync_keep(sync);
	pid = sync_child_soon();
	CHECK(pid > 0);
	disk_sync_keep(sync);
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	CHECK(!disk_sync_reaped(sync, 1) && disk_sync_reaped(sync, pid));
	CHECK(sync_child() == 0);
	disk_sync_keep(sync);
	next = sync_child_soon();
	CHECK(next > 0 && next != pid);
	disk_sync_stop(sync);
	CHECK(sync_child() == 0);
}
