// docs/ISOLATION.md STEP-6 to STEP-8, by pid 1 itself; the order is the security. Before: the exec
// (STEP-5), in the zygote's mount namespace with the builder's capabilities. Next: the user
// namespace (STEP-9). pid 1 waits here for its rootfs mounts, which may never come.
//	/h/dev /h/proc      made for this box, to be moved
//	/h/l0 /h/l1 /h/up   lowers and disk, idmapped, so that overlay can name them
//	/h/t                the box's one small tmpfs: shm, run and its /proc/meminfo
// The overlay is mounted over the zygote's root, then chroot: a break-out from it reaches the
// topmost mount of the root, which is the overlay. From then on names are the image's, so mount
// points are opened O_NOFOLLOW as directories and mounted on by fd, except beneath our own /proc
// and /dev.
#include "init/setup_rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/weak.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/set_ids.h"
#include "protocol/rootfs_mounts.h"
#include "protocol/talk.h"

#define SCRATCH_MAX (64ull << 20)
#define SCRATCH_INODES "4096"
#define DIR_FLAGS (O_PATH | O_DIRECTORY | (weak(NOFOLLOW) ? 0 : O_NOFOLLOW) | O_CLOEXEC)
#define VOLUME_RESOLVE (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#define ROOT_FLAGS ((weak(NOSUID) ? 0 : MOUNT_ATTR_NOSUID) | (weak(NODEV) ? 0 : MOUNT_ATTR_NODEV))

struct setup_rootfs {
	struct rootfs_mounts_base_rootfs base_rootfs;
	struct rootfs_mounts mounts;
	int fds[ROOTFS_MOUNTS_FDS_MAX];
	int root, usr;		      // overlays
	int dev, proc, shm, run, sys; // to be attached inside
	int meminfo;
};

static int write_meminfo(uint64_t memory)
{
	static const char *const zeros[] = {
		"Buffers:",	"Cached:",     "SwapCached:", "Active:",       "Inactive:",
		"SwapTotal:",	"SwapFree:",   "Dirty:",      "Writeback:",    "AnonPages:",
		"Mapped:",	"Shmem:",      "Slab:",	      "SReclaimable:", "SUnreclaim:",
		"KernelStack:", "PageTables:",
	};
	unsigned long long kib = memory / 1024;
	char text[1024];
	size_t len;
	int fd, result;

	len = (size_t)snprintf(text, sizeof(text),
			       "MemTotal:       %8llu kB\nMemFree:        %8llu kB\n"
			       "MemAvailable:   %8llu kB\n",
			       kib, kib, kib);
	for (size_t i = 0; i < sizeof(zeros) / sizeof(*zeros); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%-15s %8u kB\n", zeros[i],
					0u);
	fd = open("/h/t/meminfo", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0)
		return -1;
	result = fd_write_all(fd, text, len);
	close(fd);
	return result;
}

static int make_scratch(uint32_t base, uint64_t memory)
{
	uint64_t size = memory / 8 < SCRATCH_MAX ? memory / 8 : SCRATCH_MAX;
	char bytes[24], id[16];
	const struct mount_option options[] = {
		{"source", "tmpfs"}, {"size", bytes}, {"nr_inodes", SCRATCH_INODES},
		{"mode", "0755"},    {"uid", id},     {"gid", id},
		{NULL, NULL},
	};
	int tree;

	snprintf(bytes, sizeof(bytes), "%llu", weak(SCRATCH) ? 0 : (unsigned long long)size);
	snprintf(id, sizeof(id), "%u", base);
	tree = mount_new("tmpfs", options, MOUNT_SAFE);
	if (tree < 0 || mount_attach(tree, AT_FDCWD, "/h/t"))
		return -1;
	if (mkdir("/h/t/shm", 01777) || mkdir("/h/t/run", 0755) || mkdir("/h/t/run/lock", 01777))
		return -1;
	return write_meminfo(memory);
}

static int attach_layers(struct setup_rootfs *f)
{
	if (mount_attach(f->fds[ROOTFS_MOUNTS_ROOT], AT_FDCWD, "/h/l0"))
		return -1;
	if (f->mounts.has_usr && mount_attach(f->fds[ROOTFS_MOUNTS_USR], AT_FDCWD, "/h/l1"))
		return -1;
	return mount_attach(f->fds[ROOTFS_MOUNTS_DISK], AT_FDCWD, "/h/up");
}

// The size was a guess, before the order came.
static int fit_scratch(struct setup_rootfs *f)
{
	if (f->mounts.memory == f->base_rootfs.memory)
		return 0;
	return umount2("/h/t", MNT_DETACH) ? -1
					   : make_scratch(f->base_rootfs.base, f->mounts.memory);
}

// Opened while names are ours, attached when the root is the box's.
static int take_mounts(struct setup_rootfs *f)
{
	f->dev = open("/h/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	f->proc = open("/h/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	f->sys = mount_copy(AT_FDCWD, "/sys");
	f->shm = mount_copy(AT_FDCWD, "/h/t/shm");
	f->run = mount_copy(AT_FDCWD, "/h/t/run");
	f->meminfo = mount_copy(AT_FDCWD, "/h/t/meminfo");
	if (f->dev < 0 || f->proc < 0 || f->sys < 0)
		return -1;
	if (f->shm < 0 || f->run < 0 || f->meminfo < 0)
		return -1;
	return mount_change(f->meminfo, MOUNT_STILL, 0, -1);
}

// Relative names: the box reads them in its own mountinfo.
static int make_overlays(struct setup_rootfs *f)
{
	struct mount_option options[] = {
		{"source", "overlay"},
		{"lowerdir", "l0"},
		{"upperdir", "up/r/u"},
		{"workdir", "up/r/w"},
		{f->mounts.is_volatile ? "volatile" : NULL, NULL},
		{NULL, NULL},
	};

	if (chdir("/h"))
		return -1;
	f->root = weak(OVERLAY) ? mount_copy(AT_FDCWD, "l0")
				: mount_new("overlay", options, ROOT_FLAGS);
	if (f->root < 0 || !f->mounts.has_usr)
		return f->root < 0 ? -1 : 0;
	options[1].value = "l1";
	options[2].value = "up/usr/u";
	options[3].value = "up/usr/w";
	f->usr = mount_new("overlay", options, MOUNT_SAFE);
	return f->usr < 0 ? -1 : 0;
}

static int switch_root(struct setup_rootfs *f)
{
	if (mount_attach(f->root, AT_FDCWD, weak(ROOT) ? "/e" : "/"))
		return -1;
	if (fchdir(f->root))
		return -1;
	return chroot(".");
}

// Directories that commands rely on and an image may lack.
static int make_homes(struct setup_rootfs *f)
{
	(void)f;
	if (mkdir("/workspace", 0755) && errno != EEXIST)
		return -1;
	return mkdir("/tmp", 01777) && errno != EEXIST ? -1 : 0;
}

// Mounts `tree` on `name` of the image, which must be a directory.
static int mount_inside(int tree, const char *name)
{
	int at = openat(AT_FDCWD, name, DIR_FLAGS);
	int result;

	if (at < 0 && errno == ENOENT && mkdir(name, 0755) == 0)
		at = openat(AT_FDCWD, name, DIR_FLAGS);
	if (at < 0)
		return -1;
	result = mount_attach(tree, at, "");
	close(at);
	return result;
}

static int mount_usr(struct setup_rootfs *f)
{
	return f->mounts.has_usr ? mount_inside(f->usr, "usr") : 0;
}

// Sends a copy of the overlays: its holder decides when they are unmounted, see
// warden/deferred_unmount.h.
static int send_overlays(struct setup_rootfs *f)
{
	struct rootfs_mounts_witness witness = {.number = f->mounts.number};
	int tree, result;

	if (f->mounts.is_volatile)
		return 0;
	tree = mount_copy_all("/");
	if (tree < 0)
		return -1;
	memcpy(witness.box, f->mounts.box, sizeof(witness.box));
	result = fd_send(TALK_FD_WITNESS, &witness, sizeof(witness), &tree, 1, 0) < 0 ? -1 : 0;
	close(tree);
	return result;
}

static int mount_dev(struct setup_rootfs *f)
{
	return mount_inside(f->dev, "dev") ? -1 : mount_attach(f->shm, AT_FDCWD, "/dev/shm");
}

static int mount_rest(struct setup_rootfs *f)
{
	return mount_inside(f->run, "run") ? -1 : mount_inside(f->sys, "sys");
}

static int mount_proc(struct setup_rootfs *f)
{
	if (mount_inside(f->proc, "proc"))
		return -1;
	return weak(MASKS) ? 0 : mount_attach(f->meminfo, AT_FDCWD, "/proc/meminfo");
}

// The directory `path` beneath `dir`; what is missing of it is made, as the box's root. No link is
// followed: both the disk of a box that starts again and a volume have what its commands wrote.
static int open_beneath(int dir, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
			       .resolve = VOLUME_RESOLVE};
	char part[ROOTFS_MOUNTS_PATH];
	int at = -1;

	for (const char *rest = path; *rest; rest += *rest == '/') {
		size_t len = strcspn(rest, "/");
		int next;

		memcpy(part, rest, len);
		part[len] = '\0';
		next = (int)syscall(SYS_openat2, at < 0 ? dir : at, part, &how, sizeof(how));
		if (next < 0 && errno == ENOENT && !mkdirat(at < 0 ? dir : at, part, 0755))
			next = (int)syscall(SYS_openat2, at < 0 ? dir : at, part, &how,
					    sizeof(how));
		if (at >= 0)
			close(at);
		if (next < 0)
			return -1;
		at = next;
		rest += len;
	}
	return at;
}

// A directory of a volume is cloned while the whole volume is mounted at the same place.
static int mount_subpath(int tree, int at, const char *path, const char *subpath)
{
	int inside, part, whole = -1, result = -1;

	if (mount_attach(tree, at, ""))
		return -1;
	whole = open_beneath(AT_FDCWD, path);
	inside = whole < 0 ? -1 : open_beneath(whole, subpath);
	part = inside < 0 ? -1 : mount_copy(inside, "");
	if (part >= 0 && !fchdir(whole) && !umount2(".", MNT_DETACH | UMOUNT_NOFOLLOW) &&
	    !chdir("/"))
		result = mount_attach(part, at, "");
	if (whole >= 0)
		close(whole);
	if (inside >= 0)
		close(inside);
	if (part >= 0)
		close(part);
	return result;
}

static int mount_volume(void)
{
	struct rootfs_mounts_volume volume;
	int tree = -1, count = 1, at, result;

	errno = EPROTO;
	if (fd_recv(TALK_FD_CONTROL, &volume, sizeof(volume), &tree, &count, 0) != sizeof(volume) ||
	    count != 1)
		return -1;
	volume.path[sizeof(volume.path) - 1] = volume.subpath[sizeof(volume.subpath) - 1] = '\0';
	at = open_beneath(AT_FDCWD, volume.path + 1); // we are in /
	if (at < 0)
		result = -1;
	else if (volume.subpath[0])
		result = mount_subpath(tree, at, volume.path + 1, volume.subpath);
	else
		result = mount_attach(tree, at, "");
	if (at >= 0)
		close(at);
	close(tree);
	return result;
}

static int mount_volumes(struct setup_rootfs *f)
{
	for (uint32_t i = 0; i < f->mounts.volumes; i++)
		if (mount_volume())
			return -1;
	return 0;
}

static int name_host(struct setup_rootfs *f)
{
	return sethostname(f->mounts.host, strnlen(f->mounts.host, sizeof(f->mounts.host)));
}

// fs.file-max of the host bounds the open files of all processes of a box together.
static int bound_files(struct setup_rootfs *f)
{
	struct rlimit now;

	if (getrlimit(RLIMIT_NOFILE, &now) < 0)
		return -1;
	if (weak(NOFILE) || f->mounts.nofile >= now.rlim_max)
		return 0;
	now.rlim_max = f->mounts.nofile;
	if (now.rlim_cur > now.rlim_max)
		now.rlim_cur = now.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &now);
}

static const struct {
	const char *note; // the daemon reads this when the step fails
	int (*run)(struct setup_rootfs *f);
} steps[] = {
	{"attach the layers", attach_layers},
	{"fit the scratch file system", fit_scratch},
	{"open the mounts to be moved", take_mounts},
	{"make the overlay", make_overlays},
	{"switch to the new root", switch_root},
	{"bad_image: make /workspace and /tmp", make_homes},
	{"bad_image: mount /usr", mount_usr},
	{"send the overlays", send_overlays},
	{"bad_image: mount /dev", mount_dev},
	{"bad_image: mount /run and /sys", mount_rest},
	{"bad_image: mount /proc", mount_proc},
	{"bad_volume: mount the volumes", mount_volumes},
	{"name the host", name_host},
	{"limit files", bound_files},
};

// Files are made as the box's root: if the maker's id has no mapping, overlay becomes read-only and
// mkdir fails with EOVERFLOW.
static const char *setup_rootfs_lay(struct setup_rootfs *f)
{
	if (set_ids_files(f->base_rootfs.base) < 0)
		return "take the box's ids";
	if (make_scratch(f->base_rootfs.base, f->base_rootfs.memory) < 0)
		return "make the scratch file system";
	return NULL;
}

// The warden closed the socket without a configuration: this prebuilt box was never used. Exit
// quietly.
static void await_mounts(struct setup_rootfs *f)
{
	int count = ROOTFS_MOUNTS_FDS_MAX;

	if (fd_recv(TALK_FD_CONTROL, &f->mounts, sizeof(f->mounts), f->fds, &count, 0) !=
		    sizeof(f->mounts) ||
	    count != rootfs_mounts_fds(&f->mounts))
		_exit(0);
}

const char *setup_rootfs_box(void)
{
	struct setup_rootfs f = {0};
	const char *failed;
	int none = 0;

	errno = EPROTO;
	if (fd_recv(TALK_FD_CONTROL, &f.base_rootfs, sizeof(f.base_rootfs), NULL, &none, 0) !=
	    sizeof(f.base_rootfs))
		return "read the base configuration";
	if (f.base_rootfs.is_set_up)
		return NULL;
	prctl(PR_SET_NAME, "cove-prebuilt", 0, 0, 0);
	failed = setup_rootfs_lay(&f);
	if (failed)
		return failed;
	await_mounts(&f);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		if (steps[i].run(&f) < 0)
			return steps[i].note;
	close(TALK_FD_WITNESS);
	return NULL;
}
