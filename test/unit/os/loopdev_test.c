#include "os/loopdev.h"

#include "base/auto.h"
#include "scratch.h"
#include "tap.h"

TEST(attach, "a file is bound, found again by its inode, and free once the device is closed")
{
	char path[LOOPDEV_PATH] = "", found_path[LOOPDEV_PATH] = "";
	auto_fd file = openat(scratch, "disk", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	auto_fd device = -1;
	auto_fd found = -1;

	CHECK(file >= 0 && ftruncate(file, 1 << 20) == 0);
	CHECK_OK(loopdev_find(file, &found, found_path));
	CHECK(found == -1);
	CHECK_OK(loopdev_attach(file, &device, path));
	CHECK_OK(loopdev_find(file, &found, found_path));
	CHECK(found >= 0);
	CHECK_STR(found_path, path);
	CHECK(ftruncate(file, 2 << 20) == 0);
	CHECK_OK(loopdev_grow(device));
	CHECK(lseek(device, 0, SEEK_END) == 2 << 20);

	close(take_fd(&device));
	close(take_fd(&found));
	for (int i = 0; i < 100; i++) {
		CHECK_OK(loopdev_find(file, &found, found_path));
		if (found < 0)
			break;
		close(take_fd(&found));
		usleep(10000);
	}
	CHECK(found == -1);
}
