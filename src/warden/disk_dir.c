// The simplest driver: a directory on the state file system. It enforces no limit, so it refuses
// every box that names one.
//
// syscalls: mkdirat openat fchmod open_tree close
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/mem.h"
#include "os/mount.h"
#include "os/path.h"
#include "warden/disk_driver.h"

static fallible dir_open(const struct disk_place *place, void **out)
{
	struct disk_place *self = mem_new_of(struct disk_place);

	*self = *place;
	*out = self;
	return OK;
}

static void dir_close(void *self)
{
	free(self);
}

static fallible dir_make(void *self, const char *box, const struct limits *limits, bool lasting,
			 int *out_tree)
{
	const struct disk_place *place = self;
	struct err *err;

	(void)lasting;
	if (limits->disk || limits->inodes)
		return err_hint(
			err_new(INVALID, "no_disk_limit", "this host cannot keep a disk limit"),
			"leave the disk limit out, or give the host btrfs (Linux 6.7) or loop "
			"devices");
	if (mkdirat(place->boxes, box, 0755))
		return err_sys(errno, "make the directory of %s", box);
	auto_fd root = -1;
	auto_fd tree = -1;

	err = path_dir(place->boxes, box, 0755, &root);
	if (!err && fchmod(root, 0755))
		err = err_sys(errno, "set the mode of a box's directory");
	if (!err)
		err = disk_make_directories(root);
	if (!err) {
		tree = mount_copy(root, "");
		err = tree < 0 ? err_sys(errno, "copy the mount of a box's directory") : OK;
	}
	if (err) {
		err_free(trash_put(place->trash, place->boxes, box));
		return err_while(err, "make the disk of %s", box);
	}
	*out_tree = take_fd(&tree);
	return OK;
}

static fallible dir_again(void *self, const char *box, const struct limits *limits, int *out_tree)
{
	const struct disk_place *place = self;
	auto_fd root = openat(place->boxes, box, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd tree = -1;

	(void)limits;
	if (root < 0)
		return errno == ENOENT ? disk_none(box) : err_sys(errno, "open a box's directory");
	tree = mount_copy(root, "");
	if (tree < 0)
		return err_sys(errno, "copy the mount of a box's directory");
	*out_tree = take_fd(&tree);
	return OK;
}

static fallible dir_list(void *self, void (*each)(void *arg, const char *box), void *arg)
{
	const struct disk_place *place = self;

	return disk_list(place->boxes, "", each, arg);
}

static fallible dir_drop(void *self, const char *box)
{
	const struct disk_place *place = self;

	return trash_put(place->trash, place->boxes, box);
}

const struct disk_driver disk_dir = {
	.word = "directory",
	.open = dir_open,
	.close = dir_close,
	.make = dir_make,
	.again = dir_again,
	.drop = dir_drop,
	.list = dir_list,
};
