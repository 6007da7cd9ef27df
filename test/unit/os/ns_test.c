#include "os/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fd.h"
#include "tap.h"

#define BASE (1u << 20)
#define TIMERS_MAX 1000000 // more than a user may have

static int enter(int userns, unsigned id)
{
	return setns(userns, CLONE_NEWUSER) || setresgid(id, id, id) || setresuid(id, id, id);
}

static int inside(int userns)
{
	static const int flags[] = {CLONE_NEWUSER, CLONE_NEWNS,	 CLONE_NEWNET,	 CLONE_NEWPID,
				    CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
	int instances = 0;

	if (enter(userns, 0))
		return 1;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (unshare(flags[i]) == 0 || errno != ENOSPC)
			return 2;
	while (instances < 1000 && inotify_init1(IN_CLOEXEC) >= 0)
		instances++;
	return instances == 128 ? 0 : 3;
}

static bool passes(int (*run)(int userns), int userns)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(run(userns));
	waitpid(pid, &status, 0);
	if (status)
		printf("# status %#x\n", status);
	return status == 0;
}

static bool skipped(void)
{
	if (geteuid() == 0)
		return false;
	printf("# skipped: mapping ids needs root\n");
	return true;
}

TEST(ceilings, "in a box's user namespace no further namespace can be made, and inotify is bounded")
{
	auto_fd userns = -1;

	if (skipped())
		return;
	CHECK_OK(ns_user(BASE, &userns));
	CHECK(passes(inside, userns));
}

// Makes up to `most` timers; each is a pending signal, of which a user has so many.
static int timers(int most)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	timer_t timer;
	int made = 0;

	while (made < most && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
		made++;
	return made;
}

static int modest(int userns)
{
	if (userns >= 0 && enter(userns, 0))
		return 1;
	if (inotify_init1(IN_CLOEXEC) < 0)
		return 2;
	return timers(4) == 4 ? 0 : 3;
}

static int other; // the next box's namespace

// Holds all that one box can have while root and the other box ask for a little.
static int greedy(int userns)
{
	if (enter(userns, 0))
		return 1;
	while (inotify_init1(IN_CLOEXEC) >= 0)
		;
	return timers(TIMERS_MAX) < TIMERS_MAX ? 0 : 2;
}

static int hold(int userns)
{
	int status = -1, to_parent[2], byte = 0;
	pid_t pid;

	if (pipe(to_parent))
		return 1;
	pid = fork();
	if (pid == 0) {
		byte = greedy(userns);
		if (write(to_parent[1], &byte, sizeof(byte)) == sizeof(byte))
			pause();
		_exit(0);
	}
	if (read(to_parent[0], &byte, sizeof(byte)) != sizeof(byte) || byte != 0)
		byte = 4;
	else if (!passes(modest, -1) || !passes(modest, other))
		byte = 5;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return byte;
}

TEST(counts, "what one box uses up of inotify and timers, root and the next box still have")
{
	auto_fd first = -1;
	auto_fd second = -1;

	if (skipped())
		return;
	CHECK_OK(ns_user(BASE, &first));
	CHECK_OK(ns_user(BASE + NS_IDS, &second));
	other = second;
	CHECK(passes(hold, first));
}

static int count_open(int below)
{
	int count = 0;

	for (int fd = 0; fd < below; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

TEST(many, "among many descriptors it makes one more, and leaves the others as they are")
{
	enum { MANY = 1500 };
	int first = -1, last = -1, before;
	auto_fd userns = -1;

	if (skipped())
		return;
	ns_prepare();
	for (int i = 0; i < MANY; i++) {
		last = fcntl(1, F_DUPFD_CLOEXEC, 3);
		first = first < 0 ? last : first;
	}
	before = count_open(last + 64);
	for (int i = 0; i < 3; i++) {
		fd_drop(&userns);
		CHECK_OK(ns_user(BASE, &userns));
		CHECK(count_open(last + 64) == before + 1);
	}
	CHECK(passes(inside, userns));
	for (int fd = first; fd <= last; fd++)
		close(fd);
}
