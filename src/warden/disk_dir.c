// The simplest driver: a directory on the state file system. It enforces no limit, so it refuses
// every box that names one.
//
// syscalls: mkdirat openat fchmod open_tree close syncfs
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
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

static fallible dir_copy(struct disk_copy *copy)
{
	struct path_copied sum = {0};

	TRY(path_copy_whole(copy->fds[0], copy->fds[1], &sum));
	copy->bytes = sum.bytes;
	copy->files = sum.files;
	return syncfs(copy->fds[1]) ? err_sys(errno, "write a copied disk out") : OK;
}

// Opens both ends: `name` in `from`, and the new directory `as` in `to`.
static fallible dir_prepare(int from, const char *name, int to, const char *as,
			    struct disk_copy *out)
{
	auto_fd in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd made = -1;

	if (in < 0)
		return errno == ENOENT || errno == ENOTDIR ? disk_none(name)
							   : err_sys(errno, "open a disk to copy");
	TRY(path_dir(to, as, 0755, &made));
	*out = (struct disk_copy){
		.run = dir_copy, .fds = {take_fd(&in), take_fd(&made)}, .count = 2};
	return OK;
}

static fallible dir_save(void *self, const char *box, int dir, struct disk_copy *out)
{
	const struct disk_place *place = self;

	return dir_prepare(place->boxes, box, dir, DISK_SAVED_TREE, out);
}

static void dir_loaded(char out[ID_BOX_LEN + 8], const char *box)
{
	snprintf(out, ID_BOX_LEN + 8, ".load-%s", box);
}

static fallible dir_load(void *self, int dir, const char *box, const struct limits *limits,
			 uint64_t bytes, struct disk_copy *out)
{
	const struct disk_place *place = self;
	char name[ID_BOX_LEN + 8];

	(void)limits;
	(void)bytes;
	dir_loaded(name, box);
	return dir_prepare(dir, DISK_SAVED_TREE, place->boxes, name, out);
}

static fallible dir_place(void *self, const char *box, bool *out_found)
{
	const struct disk_place *place = self;
	char name[ID_BOX_LEN + 8];

	dir_loaded(name, box);
	return disk_name(place->boxes, name, box, out_found);
}

static fallible dir_view(void *self, int dir, int *out_tree)
{
	int tree = mount_copy(dir, DISK_SAVED_TREE);

	(void)self;
	if (tree < 0)
		return errno == ENOENT ? disk_none("a snapshot")
				       : err_sys(errno, "open a saved disk");
	*out_tree = tree;
	return OK;
}

static void dir_unload(void *self, const char *box)
{
	const struct disk_place *place = self;
	char name[ID_BOX_LEN + 8];

	dir_loaded(name, box);
	err_free(trash_put(place->trash, place->boxes, name));
}

const struct disk_driver disk_dir = {
	.word = "directory",
	.open = dir_open,
	.close = dir_close,
	.make = dir_make,
	.again = dir_again,
	.drop = dir_drop,
	.save = dir_save,
	.load = dir_load,
	.place = dir_place,
	.unload = dir_unload,
	.view = dir_view,
	.list = dir_list,
};
