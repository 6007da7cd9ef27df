// Starts a command by clone3(CLONE_VM | CLONE_VFORK): pid 1 sleeps until the child has executed or
// failed, and an error comes back through shared memory. A child that is stopped meanwhile blocks
// pid 1 until the daemon has its exec cgroup killed. A child killed before execve is a failed
// start, EINTR.
//
// Most commands are not started here, but by a preforked worker (prefork.c).
#include "init/run.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/weak.h"
#include "init/raw_syscall.h"
#include "os/fd.h"
#include "os/thread.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

static int run_child(void *arg)
{
	int status = child_prepare(arg);

	return status ? status : child_execute(arg);
}

void run_raise_oom(const struct drop_privileges *setup, bool up)
{
	const char *text = up ? "500" : setup->oom_own;
	ssize_t n = 0;

	if (setup->oom >= 0)
		n = pwrite(setup->oom, text, strlen(text), 0);
	(void)n; // the host may forbid it: then size alone decides
}

bool run_is_dead(int pid)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
	       info.si_pid == pid;
}

bool run_is_unexecuted(int pid, bool *out_stopped)
{
	struct thread_look look;

	if (weak(EXECUTED) || !thread_look_process(pid, &look))
		return false;
	if (out_stopped)
		*out_stopped = look.state == THREAD_STOPPED;
	return look.unexecuted;
}

static bool init_run_spawn(struct child *child, int *out_pid)
{
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_VFORK,
		.exit_signal = SIGCHLD,
		.stack = (uintptr_t)child->stack,
		.stack_size = sizeof(child->stack),
	};
	long pid;

	if (child->setup->joins_by_clone) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)child->exec_cgroup->join[0];
	}
	run_raise_oom(child->setup, true);
	pid = raw_clone3(&args, run_child, child);
	run_raise_oom(child->setup, false);
	if (pid < 0) {
		errno = (int)-pid;
		child->step = errno == EAGAIN || errno == ENOMEM ? TALK_STEP_FORK : TALK_STEP_JOIN;
		return false;
	}
	*out_pid = (int)pid;
	errno = child->errnum;
	if (child->step != TALK_STEP_NONE)
		return false;
	if (!run_is_dead((int)pid) || !run_is_unexecuted((int)pid, NULL))
		return true;
	waitpid((int)pid, NULL, __WALL);
	child->step = TALK_STEP_SETUP;
	errno = EINTR;
	return false;
}

static void add_home(struct run_order *order)
{
	struct talk_exec *exec = &order->exec;
	const struct user *user = &order->user;

	if (!child_env(exec, "HOME")) {
		memcpy(order->home, "HOME=", 5);
		memcpy(order->home + 5, user->home, strlen(user->home) + 1);
		exec->env[exec->envc++] = order->home;
	}
	if (!child_env(exec, "USER")) {
		memcpy(order->name, "USER=", 5);
		memcpy(order->name + 5, user->name, strlen(user->name) + 1);
		exec->env[exec->envc++] = order->name;
	}
	exec->env[exec->envc] = NULL;
}

bool run_find_user(struct run_order *order)
{
	bool with_home = order->exec.flags & TALK_EXEC_HOME;

	if (!user_find(order->exec.user, with_home, &order->user))
		return false;
	if (with_home)
		add_home(order);
	return true;
}

// The user may open the pipe again by its name, /dev/stdout.
static bool pipe_give(const int ends[2], uint32_t uid)
{
	return uid == 0 || ends[0] < 0 || fchown(ends[0], uid, (gid_t)-1) == 0;
}

// Pipes for its output, and as stdin a pipe, the socket of a dialogue, or none.
static bool make_pipes(uint32_t flags, uint32_t uid, struct run *out, struct child *child)
{
	int to[2] = {-1, -1}, err[2] = {-1, -1}, in[2] = {-1, -1};
	bool made = pipe2(to, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0;

	if (made && (flags & TALK_EXEC_DIALOGUE))
		made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) == 0;
	else if (made && (flags & TALK_EXEC_STDIN))
		made = pipe2(in, O_CLOEXEC) == 0 && pipe_give(in, uid);
	made = made && pipe_give(to, uid) && pipe_give(err, uid);
	*out = (struct run){.out = to[0], .err = err[0], .in = in[1]};
	child->out = to[1];
	child->err = err[1];
	child->in = in[0];
	return made;
}

void run_set_size(int master, const struct talk_exec *exec)
{
	struct winsize size = {.ws_row = exec->rows, .ws_col = exec->cols};

	ioctl(master, TIOCSWINSZ, &size);
}

// The slave is opened by TIOCGPTPEER, so no path is looked up that the box could have changed.
static bool make_pty(const struct talk_exec *exec, uint32_t uid, struct run *out,
		     struct child *child)
{
	int unlocked = 0, slave = -1, spool[2] = {-1, -1};
	bool made;

	*out = RUN_NONE;
	out->out = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (out->out >= 0 && ioctl(out->out, TIOCSPTLCK, &unlocked) == 0) {
		run_set_size(out->out, exec);
		slave = ioctl(out->out, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	}
	child->in = child->out = child->err = slave;
	// Output waits here between the pty, which drops bytes once read, and the disk.
	made = slave >= 0 && (!(exec->flags & TALK_EXEC_SPOOL) || pipe2(spool, O_CLOEXEC) == 0);
	out->err = spool[0];
	out->in = spool[1];
	// As grantpt() does: the slave belongs to the user.
	return made && (uid == 0 || fchown(slave, uid, (gid_t)-1) == 0);
}

void run_drop_ends(struct child *child)
{
	if (child->stdio_kind == TALK_EXEC_PTY)
		child->err = child->in = -1; // one fd, three times
	fd_drop(&child->out);
	fd_drop(&child->err);
	fd_drop(&child->in);
}

void run_drop(struct run *run)
{
	fd_drop(&run->out);
	fd_drop(&run->err);
	fd_drop(&run->in);
}

bool run_make_ends(const struct talk_exec *exec, uint32_t uid, struct run *out, struct child *child)
{
	child->stdio_kind = exec->flags & (TALK_EXEC_PTY | TALK_EXEC_DIALOGUE);
	if (child->stdio_kind == TALK_EXEC_PTY)
		return make_pty(exec, uid, out, child);
	return make_pipes(exec->flags, uid, out, child);
}

bool run_start(const struct drop_privileges *setup, const struct exec_cgroup *exec_cgroup,
	       const struct run_order *order, struct run *out, enum talk_step *step)
{
	static struct child child;
	struct run run = RUN_NONE;
	bool started = false;
	int kept;

	child.setup = setup;
	child.exec_cgroup = exec_cgroup;
	child.enlisted = false;
	child.exec = &order->exec;
	child.user = &order->user;
	child.step = TALK_STEP_NONE;
	child.errnum = 0;
	if (run_make_ends(&order->exec, order->user.uid, &run, &child))
		started = init_run_spawn(&child, &run.pid);
	else
		child.step = TALK_STEP_PIPE;
	kept = errno;
	run_drop_ends(&child);
	if (started) {
		*out = run;
		return true;
	}
	run_drop(&run);
	*step = (enum talk_step)child.step;
	errno = kept;
	return false;
}
