// A directory of the test's own, in a mount namespace of its own; both go when the test ends. Needs
// root: without it the test program says so and skips everything.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "os/path.h"

static char scratch_path[128];
static int scratch = -1;

// The test goes on in a child. However that ends, by a signal too, its directory is removed here.
static inline void scratch_guard(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	int status = 0, pid, parent = getpid();

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		(void)signal(numbers[i], SIG_IGN);
	pid = fork();
	if (pid <= 0) {
		for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
			(void)signal(numbers[i], SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pid < 0 || getppid() != parent)
			_exit(1);
		return;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	err_free(path_remove(AT_FDCWD, scratch_path));
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

__attribute__((constructor(101))) static void scratch_begin(void)
{
	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root\n");
		exit(getenv("COVE_TEST_MUST") ? 1 : 0);
	}
	setbuf(stdout, NULL);
	setenv("COVE_LOG_LEVEL", "error", 0);
	log_open("test", 2);
	snprintf(scratch_path, sizeof(scratch_path) - 6, "%s/cove-test-",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	memset(scratch_path + strlen(scratch_path), 'X', 6); // mkdtemp fills these
	if (!mkdtemp(scratch_path)) {
		perror("scratch");
		exit(1);
	}
	scratch_guard();
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    chmod(scratch_path, 0755)) {
		perror("scratch");
		exit(1);
	}
	scratch = open(scratch_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

__attribute__((destructor)) static void scratch_end(void)
{
	char line[1024];
	FILE *mounts;

	// What a test that failed left running goes with this process.
	for (int i = 0; i < 1000 && waitpid(-1, NULL, WNOHANG) >= 0; i++)
		usleep(10000);
	// A test that failed half-way leaves its mounts; they are ours alone.
	mounts = fopen("/proc/self/mountinfo", "re");
	while (mounts && fgets(line, sizeof(line), mounts)) {
		char at[512];

		if (sscanf(line, "%*s %*s %*s %*s %511s", at) == 1 &&
		    strncmp(at, scratch_path, strlen(scratch_path)) == 0)
			(void)umount2(at, MNT_DETACH);
	}
	if (mounts)
		fclose(mounts);
	auto_err err = path_remove(AT_FDCWD, scratch_path);

	if (err)
		printf("# left behind: %s\n", err_trail(err));
}

// A command of the test itself, as a shell takes it; its exit status.
static inline int scratch_run(const char *command)
{
	int status, pid = fork();

	if (pid == 0) {
		if (fchdir(scratch))
			_exit(125);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
