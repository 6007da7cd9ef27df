// Starts a child of the supervisor: fork, inherited descriptors, PR_SET_PDEATHSIG, signal mask,
// exec. A child that ends is due again at once after a long life, with backoff after a short one.
#include "serve/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 500
#define LONG_LIFE_MS 3000

// Between fork and exec, in a single-threaded process.
__attribute__((noreturn)) static void serve_child_become(const struct child *child, pid_t parent)
{
	sigprocmask(SIG_SETMASK, &child->blocked, NULL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	for (int i = 0; i < child->keep_count; i++)
		fcntl(child->keep[i], F_SETFD, 0);
	// Set only in the child: our own environment is the operator's, and a reload reads it
	// again.
	if (*child->config->log_level)
		setenv("COVE_LOG_LEVEL", child->config->log_level, 1);
	if (*child->config->log_format)
		setenv("COVE_LOG_FORMAT", child->config->log_format, 1);
	unsetenv("NOTIFY_SOCKET"); // only the supervisor talks to the service manager
	execv("/proc/self/exe", child->argv);
	dprintf(STDERR_FILENO, "cove: exec: %s\n", strerror(errno));
	_exit(127);
}

fallible child_start(struct child *child)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid < 0)
		return err_sys(errno, "start the %s", child->role);
	if (!pid)
		serve_child_become(child, parent);
	child->pid = pid;
	child->again_at = 0;
	child->began_at = clock_ms();
	return OK;
}

void child_ended(struct child *child, int64_t now_ms)
{
	bool long_life = now_ms - child->began_at > LONG_LIFE_MS;

	child->pid = 0;
	child->old = false;
	child->again_at = now_ms + (long_life ? 0 : child->pause_ms);
	child->pause_ms = long_life || !child->pause_ms ? PAUSE_MIN_MS : child->pause_ms * 2;
	if (child->pause_ms > PAUSE_MAX_MS)
		child->pause_ms = PAUSE_MAX_MS;
	if (!child->again_at)
		child->again_at = now_ms;
}

// ----------------------------------------------------------------------- command lines

char **child_daemon_argv(const struct config *config)
{
	char **argv = mem_new((CONFIG_ARGS_MAX + 3) * sizeof(*argv));
	int count = 0;

	argv[count++] = mem_str("cove");
	argv[count++] = mem_str("daemon");
	config_args(config, argv, &count);
	return argv;
}

// The warden gets as little as it needs; see warden/warden.h.
char **child_warden_argv(const struct config *config)
{
	char **argv = mem_new(13 * sizeof(*argv));
	int count = 0;

	argv[count++] = mem_str("cove");
	argv[count++] = mem_str("warden");
	argv[count++] = mem_fmt("--data=%s", config->data);
	argv[count++] = mem_fmt("--run=%s", config->run);
	argv[count++] = mem_fmt("--uid=%u", (unsigned int)config->uid);
	argv[count++] = mem_fmt("--gid=%u", (unsigned int)config->gid);
	argv[count++] = mem_fmt("--fd-lock=%d", (int)config->fd_lock);
	argv[count++] = mem_fmt("--fd-holds=%d", (int)config->fd_holds);
	argv[count++] = mem_fmt("--pool-start=%llu", (unsigned long long)config->pool_start);
	argv[count++] = mem_fmt("--pool-max=%llu", (unsigned long long)config->pool_max);
	if (*config->disk)
		argv[count++] = mem_fmt("--disk=%s", config->disk);
	if (*config->steer)
		argv[count++] = mem_fmt("--steer=%s", config->steer);
	return argv;
}
