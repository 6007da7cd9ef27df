// What /proc says of ourselves, of a child that is dead and not reaped, and of nobody.
#include "os/thread.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

static bool look(pid_t pid, struct thread_look *out)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return thread_look(path, out);
}

TEST(alive, "one that runs is neither dead nor on its way out")
{
	struct thread_look seen;

	CHECK(look(getpid(), &seen));
	CHECK(seen.state == 'R' && !seen.exits);
}

TEST(dead, "one that nobody has reaped is dead, and was on its way out; reaped it is nowhere")
{
	struct thread_look seen;
	siginfo_t info;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	CHECK(pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	CHECK(look(pid, &seen));
	CHECK(seen.state == THREAD_DEAD && seen.exits);
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK(!look(pid, &seen));
}

TEST(other, "a file that says something else is no thread's")
{
	struct thread_look seen;

	CHECK(!thread_look("/proc/uptime", &seen));
}
