// The mount API of Linux 5.2 and later by raw system calls, because not every C library has
// wrappers. No allocation; errors as errno.
#include "os/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int config(int fs, unsigned command, const char *key, const void *value)
{
	return (int)syscall(SYS_fsconfig, fs, command, key, value, 0);
}

static int configure(int fs, const struct mount_option *options)
{
	for (; options->key; options++) {
		if (options->value ? config(fs, FSCONFIG_SET_STRING, options->key, options->value)
				   : config(fs, FSCONFIG_SET_FLAG, options->key, NULL))
			return -1;
	}
	return config(fs, FSCONFIG_CMD_CREATE, NULL, NULL);
}

int mount_new(const char *type, const struct mount_option *options, uint64_t attributes)
{
	int fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
	int tree = -1;
	int kept;

	if (fs < 0)
		return -1;
	if (configure(fs, options) == 0)
		tree = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, (unsigned)attributes);
	kept = errno;
	close(fs);
	errno = kept;
	return tree;
}

int mount_copy(int dir, const char *path)
{
	return (int)syscall(SYS_open_tree, dir, path,
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (*path ? 0 : AT_EMPTY_PATH));
}

int mount_copy_all(const char *path)
{
	return (int)syscall(SYS_open_tree, AT_FDCWD, path,
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

int mount_change(int tree, uint64_t set, uint64_t clear, int userns)
{
	struct mount_attr attr = {
		.attr_set = set | (userns >= 0 ? MOUNT_ATTR_IDMAP : 0),
		.attr_clr = clear,
		.userns_fd = userns >= 0 ? (uint64_t)userns : 0,
	};

	return (int)syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
}

int mount_attach(int tree, int dir, const char *path)
{
	unsigned to = *path ? 0 : MOVE_MOUNT_T_EMPTY_PATH;

	return (int)syscall(SYS_move_mount, tree, "", dir, path, MOVE_MOUNT_F_EMPTY_PATH | to);
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
