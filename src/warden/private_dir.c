// Makes a directory root's with mode 0700, and binds it over itself nosuid,nodev. `dir` is the
// directory beneath the bind: renames between two such directories work through it, because
// renameat(2) does not cross mounts. Tells the free space of the host's file system as well.
//
// syscalls: fstatfs openat mkdirat fstat fchmod fchown ioctl umount2 open_tree move_mount mount_setattr close
#include "warden/private_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/weak.h"
#include "os/mount.h"
#include "os/path.h"

#define WATERMARK (2ull << 30)

fallible private_dir_open(int data, const char *name, struct private_dir *out)
{
	auto_fd dir = -1;
	auto_fd bound = -1;

	TRY(path_dir(data, name, 0700, &dir));
	if (fchown(dir, 0, 0) || fchmod(dir, weak(PRIVATE_DIR) ? 0755 : 0700))
		return err_sys(errno, "close '%s' to others", name);
	path_spread(dir);
	auto_fd tree = mount_copy(dir, "");

	if (tree < 0 || mount_change(tree, MOUNT_SAFE, 0, -1) || mount_attach(tree, data, name))
		return err_sys(errno, "cover '%s' nosuid,nodev", name);
	bound = openat(data, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (bound < 0)
		return err_sys(errno, "open the cover of '%s'", name);
	out->dir = take_fd(&dir);
	out->bound = take_fd(&bound);
	return OK;
}

void private_dir_unmount(int fd)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	// ENOENT or EINVAL: somebody has unmounted it already.
	(void)umount2(path, MNT_DETACH);
}

void private_dir_close(struct private_dir *private_dir)
{
	if (private_dir->bound >= 0) {
		private_dir_unmount(private_dir->bound);
		close(private_dir->bound);
	}
	if (private_dir->dir >= 0)
		close(private_dir->dir);
	*private_dir = PRIVATE_DIR_NONE;
}

fallible private_dir_room(int data, uint64_t *out_total, uint64_t *out_room)
{
	uint64_t room, total, mark;
	struct statfs fs;

	if (fstatfs(data, &fs))
		return err_sys(errno, "ask the state file system for its free space");
	total = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	room = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	mark = total / 20 < WATERMARK ? total / 20 : WATERMARK;
	if (out_total)
		*out_total = total;
	*out_room = room > mark ? room - mark : 0;
	return OK;
}
