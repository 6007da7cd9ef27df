#include "os/btrfs.h"

#include "base/auto.h"
#include "os/loopdev.h"
#include "os/mount.h"
#include "scratch.h"
#include "tap.h"

static int fs = -1;

static bool mounted(void)
{
	char path[LOOPDEV_PATH];
	const struct mount_option options[] = {{"source", path}, {"nodiscard", NULL}, {NULL, NULL}};
	auto_fd file = -1;
	auto_fd device = -1;
	auto_fd tree = -1;

	if (fs >= 0)
		return true;
	if (scratch_run("fallocate -l 256M disk && mkfs.btrfs -q -f disk >/dev/null && mkdir m"))
		return false;
	file = openat(scratch, "disk", O_RDWR | O_CLOEXEC);
	err_free(loopdev_attach(file, &device, path));
	tree = mount_new("btrfs", options, 0);
	if (tree < 0 || mount_attach(tree, scratch, "m"))
		return false;
	fs = openat(scratch, "m", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fs >= 0;
}

static uint64_t seen_id, seen_used;

static void each(void *arg, uint64_t id, uint64_t used)
{
	(void)arg;
	if (id == seen_id)
		seen_used = used;
}

TEST(quota, "a subvolume keeps its limit, and its use is told")
{
	static char piece[1 << 16];
	auto_fd box = -1;
	auto_fd file = -1;
	size_t wrote = 0;

	if (!mounted()) {
		printf("# SKIP no btrfs here\n");
		return;
	}
	CHECK_OK(btrfs_quota_on(fs));
	CHECK_OK(btrfs_quota_on(fs));
	CHECK_OK(btrfs_make(fs, "box"));
	box = openat(fs, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(box >= 0);
	CHECK_OK(btrfs_id(box, &seen_id));
	CHECK(seen_id >= 256);
	CHECK_OK(btrfs_quota_limit(fs, seen_id, 20 << 20));
	file = openat(box, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (ssize_t n; (n = write(file, piece, sizeof(piece))) > 0;)
		wrote += (size_t)n;
	CHECK(errno == EDQUOT && wrote <= 20 << 20 && wrote > 19 << 20);
	CHECK_OK(btrfs_quota_walk(fs, each, NULL));
	CHECK(seen_used > 19 << 20 && seen_used <= 20 << 20);
	close(take_fd(&file));
	close(take_fd(&box));
	CHECK_OK(btrfs_drop(fs, "box"));
	CHECK_OK(btrfs_drop(fs, "box"));
}

TEST(grows, "the file system follows its device")
{
	if (fs < 0)
		return;
	CHECK(scratch_run("fallocate -l 512M disk && losetup -c $(findmnt -no SOURCE m)") == 0);
	CHECK_OK(btrfs_grow(fs));
	CHECK(scratch_run("test $(df --output=size -k m | tail -1) -gt 500000") == 0);
	close(fs);
	CHECK(scratch_run("umount m") == 0);
}
