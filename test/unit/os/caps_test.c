#include "os/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

// Runs `body` in a child; its exit status.
static int apart(int (*body)(void))
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(body());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int keep_two(void)
{
	uint64_t now;
	auto_err err = caps_keep(CAPS_BIT(CAP_CHOWN) | CAPS_BIT(CAP_KILL));
	auto_err seen = err ? NULL : caps_now(&now);

	if (err || seen)
		return 1;
	if (now != (CAPS_BIT(CAP_CHOWN) | CAPS_BIT(CAP_KILL)))
		return 2;
	if (prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) != 0 ||
	    prctl(PR_CAPBSET_READ, CAP_CHOWN, 0, 0, 0) != 1)
		return 3;
	return unshare(CLONE_NEWNS) == -1 && errno == EPERM ? 0 : 4;
}

TEST(keep, "what is not kept is gone from every set, the bounding set too")
{
	if (geteuid() != 0)
		printf("# skipped: only root has capabilities to give up\n");
	else
		CHECK(apart(keep_two) == 0);
}

static char dir[64];

static int fence(void)
{
	struct caps_path paths[] = {{dir, true}, {"/etc", false}, {"/no/such/place", true}};
	char inside[96];
	auto_err nnp = caps_no_new_privs();
	auto_err err = caps_landlock(paths, 3);

	if (nnp || err)
		return 1;
	snprintf(inside, sizeof(inside), "%s/file", dir);
	if (open(inside, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0)
		return 2;
	if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0)
		return 3;
	if (open("/etc/cove-test", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 || errno != EACCES)
		return 4;
	return open("/usr/bin/env", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES ? 0 : 5;
}

TEST(landlock, "behind Landlock only the named trees remain, each with its rights")
{
	char inside[96];

	if (caps_landlock_version() == 0) {
		printf("# skipped: this kernel has no Landlock\n");
		return;
	}
	snprintf(dir, sizeof(dir), "/tmp/cove-caps-%d", getpid());
	CHECK(mkdir(dir, 0700) == 0);
	CHECK(apart(fence) == 0);
	snprintf(inside, sizeof(inside), "%s/file", dir);
	unlink(inside);
	rmdir(dir);
}
