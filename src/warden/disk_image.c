// A file system image per box: exact limits in bytes and inodes, and a sync affects no other box.
// mke2fs runs once per pair of limits and leaves a template in DATA/boxes. A box's image is a
// sparse copy of it (some 150 KiB of data) on an autoclear loop device, mounted detached, without
// journal. An ephemeral image is mounted without barriers, because it is never mounted twice. A
// lasting one has barriers; after an unclean unmount a child checks and repairs it while the warden
// goes on. For the default limits two images are kept ready and mounted, refilled in idle time.
//
// mke2fs rounds inodes up, so the template is filled to the exact number with empty files that no
// box can see. All other orders wait meanwhile: limits that would take long are refused.
//
// syscalls: openat close ftruncate renameat renameat2 unlinkat fstat fstatfs syncfs mkdirat
// syscalls: fchmod ioctl lseek copy_file_range pread64 pwrite64 fsopen fsconfig fsmount
// syscalls: getdents64 wait4 fsync
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/loopdev.h"
#include "os/mount.h"
#include "os/path.h"
#include "warden/disk_driver.h"
#include "warden/helper.h"

#define MIB (1ull << 20)
#define PREPARED 2
#define NAME_SIZE 64
#define OWN_INODES 32 // the reserved ones, the four directories and those above them
#define BYTES_PER_INODE 16384
#define INODES_MAX (1ull << 28)
#define BYTES_MAX (1ull << 40)	   // mke2fs takes some 30 ms for that
#define GROUP_BYTES (128ull << 20) // a block group
#define GROUP_INODES 16		   // of one block: each group has a multiple of it
#define FILL_MAX 4096
#define TEMPLATES_MAX 4
#define SUPERBLOCK_MAGIC (1024 + 0x38)
#define SUPERBLOCK_STATE (1024 + 0x3a)
#define STATE_VALID 1
#define SUPERBLOCK_BLOCKS (1024 + 0x4)
#define SUPERBLOCK_FREE (1024 + 0xc)

struct image {
	struct disk_place place;
	struct {
		int tree; // -1: empty
		bool lasting;
		char name[NAME_SIZE];
	} prepared[PREPARED];
	struct limits templates[TEMPLATES_MAX]; // the last used first; disk 0: none
	uint64_t number;
	bool wanted;  // a box of default size was made here: keep some ready
	bool lasting; // of the kind that was made last
};

static void template_name(char out[NAME_SIZE], const struct limits *limits)
{
	snprintf(out, NAME_SIZE, ".template-%llu-%llu", (unsigned long long)limits->disk,
		 (unsigned long long)limits->inodes);
}

static const char features[] = "none,filetype,extent,flex_bg,sparse_super,large_file,huge_file,"
			       "dir_nlink,dir_index,extra_isize,uninit_bg";

static fallible format(int file, const struct limits *limits)
{
	char inodes[24], blocks[24];
	const char *const argv[] = {
		"mke2fs",
		"-q",
		"-F",
		"-b",
		"4096",
		"-I",
		"256",
		"-m",
		"0",
		"-O",
		features,
		"-E",
		"lazy_itable_init=1,nodiscard",
		"-N",
		inodes,
		"/proc/self/fd/3",
		blocks,
		NULL,
	};

	snprintf(inodes, sizeof(inodes), "%llu",
		 (unsigned long long)(limits->inodes ? limits->inodes + OWN_INODES
						     : limits->disk / BYTES_PER_INODE));
	snprintf(blocks, sizeof(blocks), "%llu", (unsigned long long)(limits->disk / 4096));
	if (ftruncate(file, (off_t)limits->disk))
		return err_sys(errno, "size a template image");
	return helper_run(argv, file);
}

static fallible mount_image(int file, bool lasting, int *out_tree)
{
	char path[LOOPDEV_PATH];
	const struct mount_option options[] = {{"source", path},
					       {"noinit_itable", NULL},
					       {"noauto_da_alloc", NULL},
					       {lasting ? NULL : "nobarrier", NULL},
					       {NULL, NULL}};
	auto_fd device = -1;
	int tree;

	TRY(loopdev_attach(file, &device, path));
	tree = mount_new("ext4", options, MOUNT_SAFE | MOUNT_ATTR_NOATIME);
	if (tree < 0)
		return err_sys(errno, "mount an image");
	*out_tree = tree;
	return OK;
}

// Makes empty files until exactly `free_inodes` are left.
static fallible disk_image_fill(int root, uint64_t free_inodes)
{
	struct statfs fs;
	auto_fd dir = -1;
	char name[24];

	TRY(path_dir(root, "full", 0700, &dir));
	if (fstatfs(root, &fs))
		return err_sys(errno, "count the inodes of an image");
	for (uint64_t n = (uint64_t)fs.f_ffree; n > free_inodes; n--) {
		snprintf(name, sizeof(name), "%llx", (unsigned long long)n);
		auto_fd file = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);

		if (file < 0)
			return err_sys(errno, "fill an inode");
	}
	return OK;
}

static fallible disk_image_set_up(int file, const struct limits *limits)
{
	auto_fd tree = -1;
	auto_fd root = -1;

	TRY(mount_image(file, false, &tree));
	root = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_sys(errno, "open an image");
	if (fchmod(root, 0755) || unlinkat(root, "lost+found", AT_REMOVEDIR))
		return err_sys(errno, "clear an image");
	TRY(disk_make_directories(root));
	if (limits->inodes)
		TRY(disk_image_fill(root, limits->inodes));
	return syncfs(root) ? err_sys(errno, "write an image out") : OK;
}

// The file gets its name when it is complete.
static fallible template_make(struct image *self, const struct limits *limits, const char *name,
			      int *out)
{
	auto_fd file = openat(self->place.boxes, ".making",
			      O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct err *err;

	if (file < 0)
		return err_sys(errno, "make a template image");
	err = format(file, limits);
	if (!err)
		err = disk_image_set_up(file, limits);
	if (!err && renameat(self->place.boxes, ".making", self->place.boxes, name))
		err = err_sys(errno, "name a template image");
	if (err) {
		unlinkat(self->place.boxes, ".making", 0);
		return err_while(err, "make the template image %s", name);
	}
	*out = take_fd(&file);
	return OK;
}

// Records that the template of these limits was used; the least recently used is dropped.
static void template_used(struct image *self, const struct limits *limits)
{
	struct limits *all = self->templates;
	int at = 0;

	while (at < TEMPLATES_MAX && all[at].disk &&
	       (all[at].disk != limits->disk || all[at].inodes != limits->inodes))
		at++;
	if (at == TEMPLATES_MAX) {
		char name[NAME_SIZE];

		template_name(name, &all[--at]);
		unlinkat(self->place.boxes, name, 0);
	}
	memmove(all + 1, all, (size_t)at * sizeof(*all));
	all[0] = *limits;
}

// The template of these limits, open; made if absent.
static fallible template_open(struct image *self, const struct limits *limits, int *out)
{
	char name[NAME_SIZE];

	template_name(name, limits);
	auto_fd file = openat(self->place.boxes, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	if (file < 0)
		TRY(template_make(self, limits, name, &file));
	template_used(self, limits);
	*out = take_fd(&file);
	return OK;
}

// The image `name`, copied and mounted; removed on failure.
static fallible image_new(struct image *self, const char *name, const struct limits *limits,
			  bool lasting, int *out_tree)
{
	auto_fd from = -1;
	uint64_t bytes;
	struct err *err;

	TRY(template_open(self, limits, &from));
	auto_fd file = openat(self->place.boxes, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (file < 0)
		return err_sys(errno, "make an image");
	err = path_copy_data(from, file, &bytes);
	if (!err)
		err = mount_image(file, lasting, out_tree);
	if (err)
		unlinkat(self->place.boxes, name, 0);
	return err;
}

// Each block group has a share of the inodes, so on a large disk not every number is possible. The
// inodes by which mke2fs rounds up must be filled, one file each.
static fallible check_inodes(const struct limits *limits)
{
	uint64_t groups = (limits->disk + GROUP_BYTES - 1) / GROUP_BYTES;
	uint64_t unit = groups * GROUP_INODES;
	uint64_t made = (limits->inodes + OWN_INODES + unit - 1) / unit * unit;

	// Each inode takes 256 bytes of the image itself.
	if (limits->inodes > INODES_MAX || limits->inodes * 512 > limits->disk)
		return err_hint(err_new(INVALID, "inodes_too_many",
					"so many inodes do not fit on such a disk"),
				"a disk holds at most one inode per 512 bytes");
	if (made - OWN_INODES - limits->inodes > FILL_MAX)
		return err_hint(err_new(INVALID, "bad_field",
					"'limits.inodes' is too small for such a disk"),
				"ask for %llu inodes, or for a smaller disk",
				(unsigned long long)(made - OWN_INODES));
	return OK;
}

// Limits as the image enforces them: whole blocks, and the default where none was named.
static fallible image_limits(const struct limits *limits, struct limits *out)
{
	*out = (struct limits){.inodes = limits->inodes};
	out->disk = (limits->disk ? limits->disk : LIMITS_DEFAULT.disk) & ~4095ull;
	if (out->disk < 4 * MIB)
		return err_new(INVALID, "disk_too_small", "a disk has at least 4 MiB");
	if (out->disk > BYTES_MAX)
		return err_hint(err_new(INVALID, "bad_field",
					"'limits.diskMB' is more than an image can have"),
				"at most %llu here, or with a limit on inodes",
				(unsigned long long)(BYTES_MAX >> 20));
	return out->inodes ? check_inodes(out) : OK;
}

static void box_name(char out[NAME_SIZE], const char *box)
{
	snprintf(out, NAME_SIZE, "%.56s.img", box);
}

// A mounted image from the ready ones, or -1.
static int take_prepared(struct image *self, const char *name, bool lasting)
{
	for (int i = 0; i < PREPARED; i++) {
		if (self->prepared[i].tree < 0 || self->prepared[i].lasting != lasting)
			continue;
		if (renameat2(self->place.boxes, self->prepared[i].name, self->place.boxes, name,
			      RENAME_NOREPLACE) == 0) {
			kill_point("warden.disk_renamed", "ready");
			return take_fd(&self->prepared[i].tree);
		}
	}
	return -1;
}

static bool is_default(const struct limits *limits)
{
	return limits->disk == LIMITS_DEFAULT.disk && limits->inodes == LIMITS_DEFAULT.inodes;
}

static fallible image_make(void *arg, const char *box, const struct limits *limits, bool lasting,
			   int *out_tree)
{
	struct image *self = arg;
	struct limits exact;
	char name[NAME_SIZE];
	int tree;

	TRY(image_limits(limits, &exact));
	box_name(name, box);
	if (is_default(&exact)) {
		self->wanted = true;
		self->lasting = lasting;
		tree = take_prepared(self, name, lasting);
		if (tree >= 0) {
			*out_tree = tree;
			return OK;
		}
	}
	return image_new(self, name, &exact, lasting, out_tree);
}

// Whether the file system was unmounted cleanly, by the state field of the superblock.
static bool is_clean(int file)
{
	uint8_t state[2] = {0};

	return pread(file, state, sizeof(state), SUPERBLOCK_STATE) == sizeof(state) &&
	       state[0] == STATE_VALID && !state[1];
}

// False for an image that was being copied at a power cut, and is truncated.
static bool is_image(int file)
{
	uint8_t magic[2] = {0};

	return pread(file, magic, sizeof(magic), SUPERBLOCK_MAGIC) == sizeof(magic) &&
	       magic[0] == 0x53 && magic[1] == 0xef;
}

static int open_image(const struct image *self, const char *box)
{
	char name[NAME_SIZE];

	box_name(name, box);
	return openat(self->place.boxes, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
}

// The kernel releases a file system some time after its last process.
static bool is_bound(int file)
{
	char path[LOOPDEV_PATH];
	auto_fd device = -1;
	auto_err err = loopdev_find(file, &device, path);

	return err || device >= 0;
}

static bool image_is_unmounted(void *arg, const char *box)
{
	auto_fd file = open_image(arg, box);

	return file < 0 || !is_bound(file);
}

static bool image_used(void *arg, const char *box, uint64_t *out)
{
	auto_fd file = open_image(arg, box);
	struct stat st;

	if (file < 0 || fstat(file, &st))
		return false;
	*out = (uint64_t)st.st_blocks * 512;
	return true;
}

static fallible image_again(void *arg, const char *box, const struct limits *limits, int *out_tree)
{
	auto_fd file = open_image(arg, box);

	(void)limits; // the size of an image never changes
	if (file < 0)
		return errno == ENOENT ? disk_none(box) : err_sys(errno, "open an image");
	if (is_bound(file))
		return err_hint(err_new(UNAVAILABLE, "disk_busy",
					"the sandbox's disk is still being put down"),
				"try again in a moment");
	if (!is_image(file))
		return disk_none(box);
	if (!is_clean(file))
		return err_sys(EUCLEAN, "take the image of %s, which was not repaired", box);
	return mount_image(file, true, out_tree);
}

// The kernel gives every mount of a device the same file system.
static fallible image_share(void *arg, const char *box, int *out_tree)
{
	const struct limits none = {0};
	char path[LOOPDEV_PATH];
	const struct mount_option options[] = {{"source", path}, {NULL, NULL}};
	auto_fd file = open_image(arg, box);
	auto_fd device = -1;
	int tree;

	if (file < 0)
		return errno == ENOENT ? disk_none(box) : err_sys(errno, "open an image");
	TRY(loopdev_find(file, &device, path));
	if (device < 0)
		return image_again(arg, box, &none, out_tree);
	tree = mount_new("ext4", options, MOUNT_SAFE | MOUNT_ATTR_NOATIME);
	if (tree < 0)
		return err_sys(errno, "mount an image again");
	*out_tree = tree;
	return OK;
}

static fallible image_repair(void *arg, const char *box, int *out_pid)
{
	static const char *const argv[] = {"e2fsck", "-f", "-y", "/proc/self/fd/3", NULL};
	auto_fd file = open_image(arg, box);

	if (file < 0 || is_bound(file) || !is_image(file) || is_clean(file))
		return OK; // or image_again() reports the error
	log_event(LOG_WARN, "disk.repair", "sandbox", box, NULL);
	return helper_start(argv, file, out_pid);
}

// The file system is mounted while its box runs: another mount of its device writes out what the
// box has written. There is no journal, so the copy is repaired afterwards.
static fallible image_flush(int file)
{
	char path[LOOPDEV_PATH];
	const struct mount_option options[] = {{"source", path}, {NULL, NULL}};
	auto_fd device = -1;
	auto_fd tree = -1;
	auto_fd root = -1;

	TRY(loopdev_find(file, &device, path));
	if (device < 0)
		return OK;
	tree = mount_new("ext4", options, MOUNT_SAFE | MOUNT_ATTR_NOATIME);
	if (tree >= 0)
		root = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return root < 0 || syncfs(root) ? err_sys(errno, "write an image out") : OK;
}

static fallible image_copy(struct disk_copy *copy)
{
	struct stat st;

	TRY(image_flush(copy->fds[0]));
	TRY(path_copy_data(copy->fds[0], copy->fds[1], &copy->bytes));
	if (fstat(copy->fds[1], &st))
		return err_sys(errno, "measure a copied image");
	copy->bytes = (uint64_t)st.st_blocks * 512;
	return OK;
}

static fallible image_save(void *arg, const char *box, int dir, struct disk_copy *out)
{
	auto_fd from = open_image(arg, box);

	if (from < 0)
		return errno == ENOENT ? disk_none(box) : err_sys(errno, "open an image to copy");
	auto_fd to = openat(dir, DISK_SAVED_IMAGE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (to < 0)
		return err_sys(errno, "make the image of a snapshot");
	*out = (struct disk_copy){
		.run = image_copy, .fds = {take_fd(&from), take_fd(&to)}, .count = 2};
	return OK;
}

static fallible image_complete(int dir, int *out_pid)
{
	static const char *const argv[] = {"e2fsck", "-f", "-y", "/proc/self/fd/3", NULL};
	auto_fd file = openat(dir, DISK_SAVED_IMAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	if (file < 0)
		return errno == ENOENT ? OK : err_sys(errno, "open the image of a snapshot");
	return is_clean(file) ? OK : helper_start(argv, file, out_pid);
}

static void image_loaded(char out[NAME_SIZE], const char *box)
{
	snprintf(out, NAME_SIZE, ".load-%.50s", box);
}

static fallible image_load(void *arg, int dir, const char *box, const struct limits *limits,
			   uint64_t bytes, struct disk_copy *out)
{
	struct image *self = arg;
	char name[NAME_SIZE];
	struct stat st;
	auto_fd from = openat(dir, DISK_SAVED_IMAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	(void)bytes;
	if (from < 0)
		return errno == ENOENT ? disk_none(box) : err_sys(errno, "open a saved image");
	if (fstat(from, &st))
		return err_sys(errno, "look at a saved image");
	if (limits->disk && (limits->disk & ~4095ull) != (uint64_t)st.st_size)
		return err_hint(
			err_new(INVALID, "bad_field",
				"'limits.diskMB' differs from that of the snapshot"),
			"leave it out: on this host the disk is as large as the snapshot's, "
			"%llu",
			(unsigned long long)st.st_size >> 20);
	image_loaded(name, box);
	auto_fd to = openat(self->place.boxes, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (to < 0)
		return err_sys(errno, "make an image");
	*out = (struct disk_copy){
		.run = image_copy, .fds = {take_fd(&from), take_fd(&to)}, .count = 2};
	return OK;
}

static fallible image_place(void *arg, const char *box, bool *out_found)
{
	const struct image *self = arg;
	char from[NAME_SIZE], to[NAME_SIZE];

	image_loaded(from, box);
	box_name(to, box);
	return disk_name(self->place.boxes, from, to, out_found);
}

// No journal is replayed: the image was repaired when it was saved, and others may read it now.
static fallible image_view(void *arg, int dir, int *out_tree)
{
	char path[LOOPDEV_PATH];
	const struct mount_option options[] = {
		{"source", path}, {"ro", NULL}, {"noload", NULL}, {NULL, NULL}};
	auto_fd file = openat(dir, DISK_SAVED_IMAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	auto_fd device = -1;
	int tree;

	(void)arg;
	if (file < 0)
		return errno == ENOENT ? disk_none("a snapshot")
				       : err_sys(errno, "open a saved image");
	TRY(loopdev_attach(file, &device, path));
	tree = mount_new("ext4", options, MOUNT_STILL);
	if (tree < 0)
		return err_sys(errno, "mount a saved image");
	*out_tree = tree;
	return OK;
}

static void image_unload(void *arg, const char *box)
{
	const struct image *self = arg;
	char name[NAME_SIZE];

	image_loaded(name, box);
	unlinkat(self->place.boxes, name, 0);
}

// Resizes a copy, so that a crash leaves the old image or the new one.
static void image_resized(char out[NAME_SIZE], const char *box)
{
	snprintf(out, NAME_SIZE, ".resize-%.52s", box);
}

static fallible image_check(int file)
{
	static const char *const argv[] = {"e2fsck", "-f", "-y", "/proc/self/fd/3", NULL};
	int pid = 0, status = 0;

	TRY(helper_start(argv, file, &pid));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(errno, "wait for e2fsck");
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
		return err_sys(EIO, "check an image: status %d", status);
	return OK;
}

// Bytes of its blocks that are not free, by the superblock of a checked image.
static uint64_t image_taken(int file)
{
	uint32_t blocks = 0, free_blocks = 0;

	if (pread(file, &blocks, sizeof(blocks), SUPERBLOCK_BLOCKS) != sizeof(blocks) ||
	    pread(file, &free_blocks, sizeof(free_blocks), SUPERBLOCK_FREE) != sizeof(free_blocks))
		return 0;
	return (uint64_t)(le32toh(blocks) - le32toh(free_blocks)) * 4096;
}

static fallible image_resize(struct disk_copy *copy)
{
	char size[24];
	const char *const argv[] = {"resize2fs", "-f", "/proc/self/fd/3", size, NULL};
	int from = copy->fds[0], to = copy->fds[1];
	struct stat st;
	struct err *err;

	snprintf(size, sizeof(size), "%lluK", (unsigned long long)copy->size >> 10);
	if (fstat(from, &st))
		return err_sys(errno, "look at an image");
	TRY(path_copy_data(from, to, &copy->bytes));
	TRY(image_check(to));
	if (image_taken(to) > copy->size)
		return disk_below_use(image_taken(to));
	if ((uint64_t)st.st_size < copy->size && ftruncate(to, (off_t)copy->size))
		return err_sys(errno, "enlarge an image");
	err = helper_run(argv, to);
	if (err && (uint64_t)st.st_size > copy->size) {
		err_free(err);
		return disk_below_use(image_taken(to));
	}
	TRY(err);
	if (ftruncate(to, (off_t)copy->size) || fsync(to))
		return err_sys(errno, "write a resized image out");
	return OK;
}

static fallible image_limit(void *arg, const char *box, const struct limits *limits,
			    bool is_mounted, struct disk_copy *out)
{
	struct image *self = arg;
	uint64_t size = limits->disk & ~4095ull;
	auto_fd from = open_image(self, box);
	char name[NAME_SIZE];
	struct stat st;

	if (from < 0)
		return errno == ENOENT ? disk_none(box) : err_sys(errno, "open an image");
	if (fstat(from, &st))
		return err_sys(errno, "look at an image");
	if ((uint64_t)st.st_size == size)
		return OK;
	if (limits->inodes || size > BYTES_MAX)
		return err_hint(err_new(INVALID, "bad_field",
					"'limits.diskMB' of this sandbox cannot be changed so"),
				"a disk with a limit on inodes keeps its size; others have at most "
				"%llu",
				(unsigned long long)(BYTES_MAX >> 20));
	if (is_mounted)
		return err_hint(err_new(CONFLICT, "running",
					"the disk of the sandbox is an image, which cannot be "
					"resized while it is mounted"),
				"stop the sandbox, change diskMB, and start it again");
	if (is_bound(from))
		return err_hint(err_new(UNAVAILABLE, "disk_busy",
					"the sandbox's disk is still being put down"),
				"try again in a moment");
	if (!is_image(from))
		return disk_none(box);
	image_resized(name, box);
	auto_fd to = openat(self->place.boxes, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (to < 0)
		return err_sys(errno, "make an image");
	*out = (struct disk_copy){.run = image_resize,
				  .fds = {take_fd(&from), take_fd(&to)},
				  .count = 2,
				  .size = size};
	return OK;
}

static fallible image_limit_end(void *arg, const char *box, const struct limits *limits,
				bool copied)
{
	const struct image *self = arg;
	auto_fd file = open_image(self, box);
	char from[NAME_SIZE], to[NAME_SIZE];

	(void)limits;
	if (file < 0)
		return errno == ENOENT ? disk_none(box) : err_sys(errno, "open an image");
	if (!copied)
		return OK;
	image_resized(from, box);
	box_name(to, box);
	if (renameat(self->place.boxes, from, self->place.boxes, to))
		return err_sys(errno, "replace the image of %s", box);
	return path_sync(self->place.boxes);
}

static void image_limit_undo(void *arg, const char *box)
{
	const struct image *self = arg;
	char name[NAME_SIZE];

	image_resized(name, box);
	unlinkat(self->place.boxes, name, 0);
}

static fallible image_list(void *arg, void (*each)(void *arg, const char *box), void *each_arg)
{
	const struct image *self = arg;

	return disk_list(self->place.boxes, ".img", each, each_arg);
}

static fallible image_drop(void *arg, const char *box)
{
	struct image *self = arg;
	char name[NAME_SIZE];

	box_name(name, box);
	// Not unlinked here: that waits some 10 ms for the loop device that is being released.
	return trash_put(self->place.trash, self->place.boxes, name);
}

static int image_idle(void *arg)
{
	const struct limits limits = {.disk = LIMITS_DEFAULT.disk, .inodes = LIMITS_DEFAULT.inodes};
	struct image *self = arg;

	for (int i = 0; self->wanted && i < PREPARED; i++) {
		if (self->prepared[i].tree >= 0)
			continue;
		snprintf(self->prepared[i].name, NAME_SIZE, ".ready-%llx",
			 (unsigned long long)self->number++);
		self->prepared[i].lasting = self->lasting;
		err_free(image_new(self, self->prepared[i].name, &limits, self->lasting,
				   &self->prepared[i].tree));
		return 0; // one at a time: an order may be waiting
	}
	return -1;
}

static fallible image_open(const struct disk_place *place, void **out)
{
	struct image *self = mem_new_of(struct image);

	self->place = *place;
	for (int i = 0; i < PREPARED; i++)
		self->prepared[i].tree = -1;
	*out = self;
	return OK;
}

static void image_close(void *arg)
{
	struct image *self = arg;

	for (int i = 0; i < PREPARED; i++)
		if (self->prepared[i].tree >= 0) {
			close(self->prepared[i].tree);
			unlinkat(self->place.boxes, self->prepared[i].name, 0);
		}
	free(self);
}

const struct disk_driver disk_image = {
	.word = "ext4-image",
	.limits_bytes = true,
	.limits_inodes = true,
	.open = image_open,
	.close = image_close,
	.make = image_make,
	.again = image_again,
	.share = image_share,
	.repair = image_repair,
	.is_unmounted = image_is_unmounted,
	.used = image_used,
	.drop = image_drop,
	.save = image_save,
	.complete = image_complete,
	.load = image_load,
	.place = image_place,
	.unload = image_unload,
	.view = image_view,
	.limit = image_limit,
	.limit_end = image_limit_end,
	.limit_undo = image_limit_undo,
	.list = image_list,
	.idle = image_idle,
};
