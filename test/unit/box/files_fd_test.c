// What a file worker may pass as a file: a file worker that was taken over may pass anything.
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "box/files.h"
#include "tap.h"

TEST(regular, "a regular file on a disk is accepted")
{
	char path[] = "/var/tmp/cove-fd-XXXXXX";
	auto_fd fd = mkstemp(path);

	CHECK(fd >= 0 && unlink(path) == 0);
	CHECK_OK(files_check_fd(fd));
}

TEST(others, "pipes, sockets, events, directories, devices and kernel file systems are refused")
{
	int pipes[2], pair[2];
	auto_fd event = eventfd(0, EFD_CLOEXEC), folder = open("/", O_RDONLY | O_CLOEXEC);
	auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
	auto_fd proc = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	CHECK(pipe2(pipes, O_CLOEXEC) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK_ERR(files_check_fd(pipes[0]), INVALID);
	CHECK_ERR(files_check_fd(pair[0]), INVALID);
	CHECK_ERR(files_check_fd(event), INVALID);
	CHECK_ERR(files_check_fd(folder), INVALID);
	CHECK_ERR(files_check_fd(null), INVALID);
	CHECK_ERR(files_check_fd(proc), INVALID);
	for (int i = 0; i < 2; i++) {
		close(pipes[i]);
		close(pair[i]);
	}
}

// What is written through it is charged to whoever writes, and nothing bounds it.
TEST(memory, "a memfd without a size is refused")
{
	auto_fd fd = memfd_create("x", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_ERR(files_check_fd(fd), INVALID);
}

TEST(bounded, "a file of a tmpfs with a size is accepted")
{
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("x", "/mnt", "tmpfs", 0, "size=1m") != 0) {
		printf("# no rights to mount a tmpfs\n");
		return;
	}
	auto_fd fd = open("/mnt/f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	CHECK_OK(files_check_fd(fd));
}
