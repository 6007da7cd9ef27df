// Loop devices. A device of an earlier process is found by its file's device and inode, never by
// the path in sysfs, which is relative to another mount namespace.
#include "os/loopdev.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"

#define TRIES 64 // another process may take the free device between query and bind

static fallible open_device(int number, int *out_fd, char path[LOOPDEV_PATH])
{
	snprintf(path, LOOPDEV_PATH, "/dev/loop%d", number);
	*out_fd = open(path, O_RDWR | O_CLOEXEC);
	if (*out_fd < 0)
		return err_sys(errno, "open %s", path);
	return OK;
}

fallible loopdev_attach(int file, int *out_fd, char out_path[LOOPDEV_PATH])
{
	struct loop_config config = {
		.fd = (__u32)file,
		.block_size = 4096,
		// Direct I/O: the inner file system caches already.
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
	};
	auto_fd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	char path[LOOPDEV_PATH];

	if (control < 0)
		return err_hint(err_new(NOT_OFFERED, "no_loop", "this host has no loop devices"),
				"load the kernel module 'loop'");
	for (int i = 0; i < TRIES; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		auto_fd fd = -1;

		if (number < 0 && errno == ENOSPC)
			break;
		if (number < 0)
			return err_sys(errno, "find a free loop device");
		TRY(open_device(number, &fd, path));
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
			memcpy(out_path, path, LOOPDEV_PATH);
			*out_fd = take_fd(&fd);
			return OK;
		}
		if (errno != EBUSY && errno != ENXIO)
			return err_sys(errno, "bind a file to %s", path);
	}
	return err_new(EXHAUSTED, "no_loop", "no loop device is free");
}

static bool is_bound_to(int fd, const struct stat *st)
{
	struct loop_info64 info;

	return ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == st->st_dev &&
	       info.lo_inode == st->st_ino;
}

// The number of the next bound device; -1: no more.
static int next_bound(DIR *block)
{
	struct dirent *entry;

	while (block && (entry = readdir(block))) {
		struct str name = str_of(entry->d_name);
		uint64_t number;
		char bound[300];

		if (!str_starts(name, "loop") ||
		    !str_to_u64(str_skip(name, 4), 0, 1u << 20, &number))
			continue;
		snprintf(bound, sizeof(bound), "%s/loop/backing_file", entry->d_name);
		if (faccessat(dirfd(block), bound, F_OK, 0) == 0)
			return (int)number; // opening a free one would have side effects
	}
	return -1;
}

fallible loopdev_find(int file, int *out_fd, char out_path[LOOPDEV_PATH])
{
	struct stat st;
	DIR *block;
	int found = -1, number;

	if (fstat(file, &st))
		return err_sys(errno, "look at the file of a loop device");
	block = opendir("/sys/block");
	while (found < 0 && (number = next_bound(block)) >= 0) {
		char path[LOOPDEV_PATH];

		snprintf(path, sizeof(path), "/dev/loop%d", number);
		auto_fd fd = open(path, O_RDWR | O_CLOEXEC);

		if (fd >= 0 && is_bound_to(fd, &st)) {
			memcpy(out_path, path, LOOPDEV_PATH);
			found = take_fd(&fd);
		}
	}
	if (block)
		closedir(block);
	*out_fd = found;
	return OK;
}

// The file in the directory that a device is bound to. False: none.
static bool name_in(int fd, int dir, char out[NAME_MAX + 1])
{
	auto_fd again = -1;
	struct loop_info64 info;
	struct dirent *entry;
	struct stat st;
	DIR *entries;
	bool found = false;

	if (ioctl(fd, LOOP_GET_STATUS64, &info) || fstat(dir, &st) || info.lo_device != st.st_dev)
		return false;
	again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	entries = again < 0 ? NULL : fdopendir(again);
	if (!entries)
		return false;
	take_fd(&again);
	while (!found && (entry = readdir(entries))) {
		found = entry->d_ino == info.lo_inode;
		if (found)
			snprintf(out, NAME_MAX + 1, "%s", entry->d_name);
	}
	closedir(entries);
	return found;
}

void loopdev_each(int dir, void (*each)(void *arg, const char *name), void *arg)
{
	DIR *block = opendir("/sys/block");
	int number;

	while ((number = next_bound(block)) >= 0) {
		char path[LOOPDEV_PATH], name[NAME_MAX + 1];

		snprintf(path, sizeof(path), "/dev/loop%d", number);
		auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd >= 0 && name_in(fd, dir, name))
			each(arg, name);
	}
	if (block)
		closedir(block);
}

int loopdev_sync_all(int dir)
{
	DIR *block = opendir("/sys/block");
	int number, failed = 0;

	while ((number = next_bound(block)) >= 0) {
		char path[LOOPDEV_PATH], name[NAME_MAX + 1];

		snprintf(path, sizeof(path), "/dev/loop%d", number);
		auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);

		// The kernel syncs the mounted file system too, not only the device's buffers.
		if (fd >= 0 && name_in(fd, dir, name) && ioctl(fd, BLKFLSBUF, 0) && !failed)
			failed = errno;
	}
	if (block)
		closedir(block);
	return failed;
}

struct counting {
	const char *name;
	unsigned count;
};

static void count_one(void *arg, const char *name)
{
	struct counting *counting = arg;

	counting->count += !counting->name || !strcmp(counting->name, name);
}

unsigned loopdev_count(int dir, const char *name)
{
	struct counting counting = {.name = name};

	loopdev_each(dir, count_one, &counting);
	return counting.count;
}

fallible loopdev_grow(int fd)
{
	if (ioctl(fd, LOOP_SET_CAPACITY, 0))
		return err_sys(errno, "tell a loop device that its file grew");
	return OK;
}

void loopdev_detach(int fd)
{
	// Fails only if it is already detached.
	(void)ioctl(fd, LOOP_CLR_FD, 0);
}
