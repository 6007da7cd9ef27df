// Loop devices. A device of an earlier process is found by its file's device and inode, never by
// the path in sysfs, which is relative to another mount namespace.
#include "os/loopdev.h"

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
#include "os/path.h"

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
	auto_dir block = opendir("/sys/block");
	int found = -1, number;
	struct stat st;

	if (fstat(file, &st))
		return err_sys(errno, "look at the file of a loop device");
	while (found < 0 && (number = next_bound(block)) >= 0) {
		char path[LOOPDEV_PATH];

		snprintf(path, sizeof(path), "/dev/loop%d", number);
		auto_fd fd = open(path, O_RDWR | O_CLOEXEC);

		if (fd >= 0 && is_bound_to(fd, &st)) {
			memcpy(out_path, path, LOOPDEV_PATH);
			found = take_fd(&fd);
		}
	}
	*out_fd = found;
	return OK;
}

// The file in the directory that a device is bound to. False: none.
static bool name_in(int fd, int dir, char out[NAME_MAX + 1])
{
	auto_dir list = NULL;
	struct loop_info64 info;
	struct dirent *entry;
	struct stat st;

	if (ioctl(fd, LOOP_GET_STATUS64, &info) || fstat(dir, &st) || info.lo_device != st.st_dev)
		return false;
	list = path_list(dir, ".");
	while (list && (entry = path_next(list)))
		if (entry->d_ino == info.lo_inode) {
			snprintf(out, NAME_MAX + 1, "%s", entry->d_name);
			return true;
		}
	return false;
}

void loopdev_each(int dir, void (*each)(void *arg, int fd, const char *name), void *arg)
{
	auto_dir block = opendir("/sys/block");
	int number;

	while ((number = next_bound(block)) >= 0) {
		char path[LOOPDEV_PATH], name[NAME_MAX + 1];

		snprintf(path, sizeof(path), "/dev/loop%d", number);
		auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd >= 0 && name_in(fd, dir, name))
			each(arg, fd, name);
	}
}

// The kernel syncs the mounted file system too, not only the device's buffers.
static void sync_one(void *arg, int fd, const char *name)
{
	int *failed = arg;

	(void)name;
	if (ioctl(fd, BLKFLSBUF, 0) && !*failed)
		*failed = errno;
}

int loopdev_sync_all(int dir)
{
	int failed = 0;

	loopdev_each(dir, sync_one, &failed);
	return failed;
}

struct counting {
	const char *name;
	unsigned count;
};

static void count_one(void *arg, int fd, const char *name)
{
	struct counting *counting = arg;

	(void)fd;
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
