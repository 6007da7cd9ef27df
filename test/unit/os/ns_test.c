#include "os/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fd.h"
#include "tap.h"

#define BASE (1u << 20)

static int inside(int userns)
{
	static const int flags[] = {CLONE_NEWUSER, CLONE_NEWNS,	 CLONE_NEWNET,	 CLONE_NEWPID,
				    CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
	int instances = 0;

	if (setns(userns, CLONE_NEWUSER) || setgid(0) || setuid(0))
		return 1;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (unshare(flags[i]) == 0 || errno != ENOSPC)
			return 2;
	while (instances < 1000 && inotify_init1(IN_CLOEXEC) >= 0)
		instances++;
	return instances == 128 ? 0 : 3;
}

TEST(ceilings, "in a box's user namespace no further namespace can be made, and inotify is bounded")
{
	auto_fd userns = -1;
	int status = 0;
	pid_t pid;

	if (geteuid() != 0) {
		printf("# skipped: mapping ids needs root\n");
		return;
	}
	CHECK_OK(ns_user(BASE, &userns));
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(inside(userns));
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	if (WEXITSTATUS(status))
		printf("# step %d\n", WEXITSTATUS(status));
	CHECK(WEXITSTATUS(status) == 0);
}
