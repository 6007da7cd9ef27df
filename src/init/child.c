// The steps of a child from clone to execve: join its cgroup, load the filter, set stdio, ids, cwd.
// Box root may stop or kill the child meanwhile. A child killed before execve has run nothing: its
// start failed, or is tried again (run.c, prefork.c). Its memory is pid 1's or a copy of it, and
// undumpable, so no process of the box can trace it. On cgroup v2 it is cloned into its exec
// cgroup; on v1 it joins first of all. Only children load the filter that forbids clone3, because
// pid 1 needs that call. The child shares errno with its parent, beside which it may run
// (prefork.c): system calls are raw.
#include "init/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include "base/weak.h"
#include "init/raw_syscall.h"

#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define SIGSET_SIZE 8 // the kernel's, not libc's
#define STDIN_KEPT 3  // where the second stdin is kept

static int child_fail(struct child *child, enum talk_step step, long error)
{
	child->errnum = (int)-error;
	child->step = (int)step;
	return 127;
}

// "0" to `tasks`, never to cgroup.procs, which waits for an RCU grace period of milliseconds.
static long child_join(const struct exec_cgroup *exec_cgroup)
{
	for (int i = 0; i < 2; i++) {
		long n = RAW_3(SYS_write, exec_cgroup->join[i], "0", 1);

		if (n < 0)
			return n;
	}
	return 0;
}

// All fds of pid 1 are above 2, so no dup3 here has equal arguments, which would fail.
static long take_stdio(const struct child *child)
{
	long n = RAW_3(SYS_dup3, child->out, 1, 0);

	if (n >= 0)
		n = RAW_3(SYS_dup3, child->err, 2, 0);
	if (n >= 0 && child->in >= 0)
		n = RAW_3(SYS_dup3, child->in, STDIN_KEPT, O_CLOEXEC);
	// Before cwd: no fd of pid 1 may lead to a directory.
	if (n >= 0 && !weak(FDS))
		n = RAW_3(SYS_close_range, child->in >= 0 ? STDIN_KEPT + 1 : STDIN_KEPT, ~0u, 0);
	return n;
}

// The fds of a dialogue get their high numbers by way of 0, 1 and 2: pid 1 may hold fds of any
// number, and one must not overwrite the next.
static long take_dialogue(void)
{
	long n = RAW_3(SYS_dup3, 0, TALK_DIALOGUE_FD, 0);

	if (n >= 0)
		n = RAW_3(SYS_dup3, 1, TALK_DIALOGUE_OUT, 0);
	if (n >= 0)
		n = RAW_3(SYS_dup3, 2, TALK_DIALOGUE_ERR, 0);
	if (n >= 0)
		n = RAW_3(SYS_close_range, 3, TALK_DIALOGUE_FD - 1, 0);
	if (n >= 0)
		n = RAW_3(SYS_close_range, TALK_DIALOGUE_ERR + 1, ~0u, 0);
	if (n >= 0)
		n = RAW_4(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
	if (n >= 0 && RAW_3(SYS_dup3, n, 1, 0) >= 0)
		n = RAW_3(SYS_dup3, n, 2, 0);
	return n < 0 ? n : RAW_3(SYS_close_range, 3, TALK_DIALOGUE_FD - 1, 0);
}

// A pty as controlling terminal, or a dialogue.
static long take_terminal(const struct child *child)
{
	long n = RAW_3(SYS_dup3, child->in, 0, 0);

	if (n >= 0)
		n = RAW_3(SYS_dup3, child->out, 1, 0);
	if (n >= 0)
		n = RAW_3(SYS_dup3, child->err, 2, 0);
	if (n >= 0 && child->stdio_kind == TALK_EXEC_DIALOGUE)
		return take_dialogue();
	if (n >= 0)
		n = RAW_3(SYS_close_range, 3, ~0u, 0);
	if (n >= 0)
		n = RAW_3(SYS_ioctl, 0, TIOCSCTTY, 0);
	return n;
}

long child_load_filter(const struct drop_privileges *setup)
{
	struct sock_fprog program = {
		.len = setup->filter_len,
		.filter = (struct sock_filter *)setup->filter,
	};

	if (program.len == 0)
		return 0;
	return RAW_3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

long child_enlist(const struct drop_privileges *setup, const struct exec_cgroup *exec_cgroup,
		  enum talk_step *step)
{
	long n = setup->joins_by_clone ? 0 : child_join(exec_cgroup);

	*step = n < 0 ? TALK_STEP_JOIN : TALK_STEP_SETUP;
	return n < 0 ? n : child_load_filter(setup);
}

int child_prepare(struct child *child)
{
	enum talk_step step = TALK_STEP_SETUP;
	long n = child->enlisted ? 0 : child_enlist(child->setup, child->exec_cgroup, &step);

	if (n < 0)
		return child_fail(child, step, n);
	RAW_0(SYS_setsid);
	n = child->stdio_kind ? take_terminal(child) : take_stdio(child);
	// pid 1 has a saved gid that no command has (drop_privileges.c). Access checks ignore it,
	// so the memory, still pid 1's or a copy of it, stays undumpable.
	if (n >= 0)
		n = RAW_3(SYS_setresgid, 0, 0, 0);
	return n < 0 ? child_fail(child, TALK_STEP_SETUP, n) : 0;
}

long child_become(const struct user *user)
{
	uint32_t group = user->gid;
	long n = 0;

	// Ids that are already right are not set again: each change of credentials costs
	// microseconds.
	if (group == 0 && user->uid == 0)
		return 0;
	if (group != 0 || user->group_count > 1)
		n = RAW_2(SYS_setgroups, user->group_count, user->groups);
	if (n >= 0)
		n = RAW_3(SYS_setresgid, group, group, group);
	if (n >= 0 && user->uid != 0)
		n = RAW_3(SYS_setresuid, user->uid, user->uid, user->uid);
	// A change of ids resets dumpable to fs.suid_dumpable, and the memory is still pid 1's.
	if (n >= 0)
		n = RAW_2(SYS_prctl, PR_SET_DUMPABLE, 0);
	return n;
}

static long enter_cwd(struct child *child, const char *cwd)
{
	long n = RAW_1(SYS_chdir, cwd);

	if (n >= 0)
		n = RAW_2(SYS_getcwd, child->path, sizeof(child->path));
	// "(unreachable)/…": a directory outside of the box's root (CVE-2024-21626).
	if (n >= 0 && child->path[0] != '/' && !weak(CWD))
		n = -ENOENT;
	return n;
}

const char *child_env(const struct talk_exec *exec, const char *name)
{
	size_t len = strlen(name);

	for (uint32_t i = 0; i < exec->envc; i++)
		if (strncmp(exec->env[i], name, len) == 0 && exec->env[i][len] == '=')
			return exec->env[i] + len + 1;
	return NULL;
}

static long execute(const char *path, const struct talk_exec *exec)
{
	return RAW_3(SYS_execve, path, exec->argv, exec->env);
}

// As a shell: the first that can be executed. EACCES of a candidate is remembered, because
// "permission denied" tells more than "not found".
static long execute_by_path(struct child *child, const struct talk_exec *exec)
{
	const char *name = exec->argv[0];
	const char *dirs = child_env(exec, "PATH");
	struct str rest = str_of(dirs ? dirs : PATH_DEFAULT);
	size_t len = strlen(name);
	bool denied = false;
	struct str dir;

	while (str_cut(&rest, ':', &dir)) {
		long n;

		if (dir.len == 0)
			dir = STR(".");
		if (dir.len + 1 + len >= sizeof(child->path))
			continue;
		memcpy(child->path, dir.at, dir.len);
		child->path[dir.len] = '/';
		memcpy(child->path + dir.len + 1, name, len + 1);
		n = execute(child->path, exec);
		if (n == -EACCES)
			denied = true;
		else if (n != -ENOENT && n != -ENOTDIR && n != -ENAMETOOLONG && n != -ELOOP)
			return n;
	}
	return denied ? -EACCES : -ENOENT;
}

static long execute_shell(struct talk_exec *exec)
{
	long n;

	exec->argv -= 2;
	exec->argv[1] = "-c";
	exec->argv[0] = "bash";
	n = execute("/bin/bash", exec);
	if (n != -ENOENT && n != -EACCES && n != -ENOTDIR)
		return n;
	exec->argv[0] = "sh";
	return execute("/bin/sh", exec);
}

int child_execute(struct child *child)
{
	struct talk_exec exec = *child->exec;
	uint64_t no_signals = 0;
	long n = 0;

	if (exec.flags & TALK_EXEC_STDIN)
		n = RAW_3(SYS_dup3, STDIN_KEPT, 0, 0);
	if (n >= 0)
		n = child_become(child->user);
	if (n < 0)
		return child_fail(child, TALK_STEP_SETUP, n);
	n = enter_cwd(child, exec.cwd.len > 0 ? exec.cwd.at : "/");
	if (n < 0)
		return child_fail(child, TALK_STEP_CWD, n);
	// pid 1 has no handlers and ignores nothing: only the mask has to be reset.
	RAW_4(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, NULL, SIGSET_SIZE);
	if (exec.flags & TALK_EXEC_SHELL)
		n = execute_shell(&exec);
	else if (strchr(exec.argv[0], '/'))
		n = execute(exec.argv[0], &exec);
	else
		n = execute_by_path(child, &exec);
	return child_fail(child, TALK_STEP_EXEC, n);
}
