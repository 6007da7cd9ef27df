// Builds the mount namespace of the zygote: one tmpfs becomes the root, a second one its /dev. Both
// are filled, then made read-only. The host's mounts are left behind, so that a clone of this
// namespace copies two mounts and not the host's hundreds.
#include "warden/base_rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/weak.h"
#include "os/fd.h"
#include "os/mount.h"

#define CPU "/sys/devices/system/cpu/"

static const char *const dirs[] = {
	"h",
	"h/l0",
	"h/l1",
	"h/up",
	"h/t",
	"h/dev",
	"h/proc",
	"e",
	"dev",
	"sys",
	"sys/devices",
	"sys/devices/system",
	"sys/devices/system/cpu",
};
static const char *const copies[] = {CPU "online", CPU "possible", CPU "present"};

static const struct {
	const char *name;
	unsigned major, minor;
} nodes[] = {
	{"null", 1, 3},	  {"zero", 1, 5},    {"full", 1, 7},
	{"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};
static const struct {
	const char *name, *to;
} links[] = {
	{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

static int base_rootfs_write_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	int result;

	if (fd < 0)
		return -1;
	result = fd_write_all(fd, text, strlen(text));
	close(fd);
	return result;
}

static int fill_root(int root)
{
	char text[256];

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		if (mkdirat(root, dirs[i], 0755))
			return -1;
	for (size_t i = 0; i < sizeof(copies) / sizeof(*copies); i++) {
		if (fd_get(AT_FDCWD, copies[i], text, sizeof(text)) < 0)
			continue; // a kernel without SMP has no such file
		if (base_rootfs_write_file(root, copies[i] + 1, text))
			return -1;
	}
	if (base_rootfs_write_file(root, "blank", ""))
		return -1;
	return base_rootfs_write_file(root, "loadavg", "0.00 0.00 0.00 1/1 1\n");
}

static int fill_dev(int dev)
{
	for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++)
		if (mknodat(dev, nodes[i].name, S_IFCHR | 0666,
			    makedev(nodes[i].major, nodes[i].minor)))
			return -1;
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
		if (symlinkat(links[i].to, dev, links[i].name))
			return -1;
	return mkdirat(dev, "pts", 0755) || mkdirat(dev, "shm", 0755) ? -1 : 0;
}

// pivot_root fails on an initramfs. There the old root stays below ours, covered: path lookup
// cannot reach beneath the topmost mount of the root.
static int leave_host(int root)
{
	if (mount_attach(root, AT_FDCWD, "/") || fchdir(root))
		return -1;
	if (syscall(SYS_pivot_root, ".", ".") == 0)
		return umount2(".", MNT_DETACH) || chdir("/") ? -1 : 0;
	if (errno != EINVAL)
		return -1;
	return chroot(".") || chdir("/") ? -1 : 0;
}

int base_rootfs_build(const char **out_step)
{
	static const struct mount_option options[] = {
		{"source", "cove"}, {"size", "256k"}, {"nr_inodes", "64"},
		{"mode", "0755"},   {NULL, NULL},
	};
	int root, dev;

	*out_step = "a mount namespace";
	umask(0);
	if (unshare(CLONE_NEWNS) || mount_private())
		return -1;
	*out_step = "the root";
	root = mount_new("tmpfs", options, MOUNT_SAFE | MOUNT_ATTR_NOEXEC);
	if (root < 0 || fill_root(root))
		return -1;
	*out_step = "/dev";
	dev = weak(DEVICES) ? mount_copy(AT_FDCWD, "/dev")
			    : mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (dev < 0 || (!weak(DEVICES) && fill_dev(dev)))
		return -1;
	*out_step = "leave the host's mounts";
	if (leave_host(root))
		return -1;
	*out_step = "make it read-only";
	if (mount_change(root, MOUNT_STILL, 0, -1) || mount_attach(dev, AT_FDCWD, "/dev") ||
	    mount_change(dev, MOUNT_ATTR_RDONLY, 0, -1))
		return -1;
	close(root);
	close(dev);
	return 0;
}
