#include "os/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int configure(int fs, const struct mount_option *options)
{
	for (; options->key; options++) {
		if (options->value
			    ? fsconfig(fs, FSCONFIG_SET_STRING, options->key, options->value, 0)
			    : fsconfig(fs, FSCONFIG_SET_FLAG, options->key, NULL, 0))
			return -1;
	}
	return fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
}

int mount_new(const char *type, const struct mount_option *options, uint64_t attributes)
{
	int fs = fsopen(type, FSOPEN_CLOEXEC);
	int tree = -1;
	int kept;

	if (fs < 0)
		return -1;
	if (configure(fs, options) == 0)
		tree = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attributes);
	kept = errno;
	close(fs);
	errno = kept;
	return tree;
}

int mount_copy(int dir, const char *path)
{
	return open_tree(dir, path,
			 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (*path ? 0 : AT_EMPTY_PATH));
}

int mount_copy_all(const char *path)
{
	return open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

int mount_change(int tree, uint64_t set, uint64_t clear, int userns)
{
	struct mount_attr attr = {
		.attr_set = set | (userns >= 0 ? MOUNT_ATTR_IDMAP : 0),
		.attr_clr = clear,
		.userns_fd = userns >= 0 ? (uint64_t)userns : 0,
	};

	return mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
}

int mount_attach(int tree, int dir, const char *path)
{
	unsigned to = *path ? 0 : MOVE_MOUNT_T_EMPTY_PATH;

	return move_mount(tree, "", dir, path, MOVE_MOUNT_F_EMPTY_PATH | to);
}

int mount_private(void)
{
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

int mount_own_proc(void)
{
	static const struct mount_option options[] = {{"source", "proc"}, {NULL, NULL}};

	return mount_new("proc", options, MOUNT_SAFE | MOUNT_ATTR_NOEXEC);
}
