#include "cli/stdio.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "tap.h"

TEST(there_and_back, "bytes are read as they were written, up to the end")
{
	int ends[2];
	char room[16];
	size_t n = 9;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	CHECK_OK(stdio_write(ends[1], "\0\xff\n", 3));
	CHECK_OK(stdio_read(ends[0], room, sizeof(room), &n));
	CHECK(n == 3 && memcmp(room, "\0\xff\n", 3) == 0);
	close(ends[1]);
	CHECK_OK(stdio_read(ends[0], room, sizeof(room), &n));
	CHECK(n == 0);
	close(ends[0]);
}

TEST(no_reader, "a closed reader is distinguished from other failures")
{
	int ends[2];

	signal(SIGPIPE, SIG_IGN);
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	close(ends[0]);
	auto_err gone = stdio_write(ends[1], "x", 1);
	auto_err full = OK;
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	full = stdio_write(fd, "x", 1);
	CHECK(gone && strcmp(err_reason(gone), "pipe_closed") == 0);
	CHECK(full && err_kind(full) == ERR_NO_SPACE);
	close(fd);
	close(ends[1]);
}
