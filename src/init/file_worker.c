// Forks a file worker: it keeps one socket, closes all other fds, takes the ids and groups of the
// user, becomes undumpable and loads the filter of commands. A worker that fails in a step exits
// with 1, and the daemon sees its socket close.
#include "init/file_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/run.h"
#include "init/serve.h"
#include "os/fd.h"

#define FILE_WORKER_FD 3

static bool init_file_worker_become(const struct drop_privileges *setup, const struct user *user)
{
	struct sock_fprog program = {
		.len = setup->filter_len,
		.filter = (struct sock_filter *)setup->filter,
	};
	gid_t group = user->gid;
	sigset_t none;

	if (syscall(SYS_setgroups, user->group_count, user->groups) < 0 ||
	    syscall(SYS_setresgid, group, group, group) < 0 ||
	    syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return false;
	if (program.len > 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return false;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	return true;
}

static void be_worker(const struct drop_privileges *setup, const struct user *user, int sock)
{
	prctl(PR_SET_NAME, "cove-files", 0, 0, 0);
	setsid();
	if (sock != FILE_WORKER_FD && dup2(sock, FILE_WORKER_FD) < 0)
		_exit(1);
	if (syscall(SYS_close_range, FILE_WORKER_FD + 1, ~0u, 0) < 0 ||
	    fcntl(FILE_WORKER_FD, F_SETFD, FD_CLOEXEC) < 0 || !init_file_worker_become(setup, user))
		_exit(1);
	serve_run(FILE_WORKER_FD);
	_exit(0);
}

bool file_worker_start(const struct drop_privileges *setup, struct str word, int *out,
		       enum talk_step *step)
{
	static struct user user;
	int pair[2];
	int pid, kept;

	*step = TALK_STEP_USER;
	errno = ENOENT;
	if (!user_find(word, false, &user))
		return false;
	*step = TALK_STEP_PIPE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	run_raise_oom(setup, true);
	pid = fork();
	kept = errno;
	if (pid == 0)
		be_worker(setup, &user, pair[1]);
	run_raise_oom(setup, false);
	close(pair[1]);
	if (pid > 0) {
		*out = pair[0];
		return true;
	}
	close(pair[0]);
	*step = TALK_STEP_FORK;
	errno = kept;
	return false;
}
