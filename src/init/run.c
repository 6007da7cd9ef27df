// A command is started by clone3(CLONE_VM | CLONE_VFORK): pid 1 sleeps until the child has executed
// or failed, and a failure comes back through the memory that both share. The child runs on a stack
// of its own and shares errno with its sleeping parent, which does no harm.
//
// On cgroup v2 it is born inside its leaf; on v1 it walks there before anything else. The filter
// that forbids clone3 is loaded by the child alone, since pid 1 still needs that call.
//
// Who can disturb the child between birth and execve? Box root may stop or kill it. Killed, it
// looks like a command that died of that signal. Stopped, it holds pid 1 up, and the daemon has the
// leaf killed. Its memory is pid 1's, so nobody can trace it.
#include "init/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/fd.h"

#define CHILD_STACK 16384
#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct start {
	const struct birth *birth;
	const struct leaf *leaf;
	const struct talk_exec *exec;
	const struct user *user;
	int in, out, err; // the command's ends
	volatile enum talk_step step;
	volatile int errnum;
};

// Both are used by one child at a time, while pid 1 sleeps.
static char child_stack[CHILD_STACK] __attribute__((aligned(16)));
static char child_path[PATH_MAX + NAME_MAX + 2];

// Returns the pid, or -errno. The child calls fn(arg) on the stack that `args` names and ends.
static long clone_child(struct clone_args *args, int (*fn)(void *), void *arg)
{
#if defined(__x86_64__)
	long ret = SYS_clone3;

	__asm__ volatile(
		"syscall\n\t"
		"test %%rax, %%rax\n\t"
		"jnz 1f\n\t"
		"mov %[arg], %%rdi\n\t"
		"call *%[fn]\n\t"
		"mov %%eax, %%edi\n\t"
		"mov %[exit], %%eax\n\t"
		"syscall\n\t"
		"hlt\n"
		"1:"
		: "+a"(ret)
		: "D"(args),
		  "S"(sizeof(*args)), [fn] "r"(fn), [arg] "r"(arg), [exit] "i"(SYS_exit_group)
		: "rcx", "r11", "cc", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x0 __asm__("x0") = (long)args;
	register long x1 __asm__("x1") = sizeof(*args);
	register long x8 __asm__("x8") = SYS_clone3;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x0, %[arg]\n\t"
			 "blr %[fn]\n\t"
			 "mov x8, %[exit]\n\t"
			 "svc #0\n\t"
			 "brk #1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x1),
			   "r"(x8), [fn] "r"(fn), [arg] "r"(arg), [exit] "i"(SYS_exit_group)
			 : "cc", "memory");
	return x0;
#else
#error "pid 1 knows x86_64 and aarch64"
#endif
}

// A dup2 onto itself would leave close-on-exec set; our fds are all above 2, so it never happens.
static bool take_stdio(const struct start *start)
{
	return (start->in < 0 || dup2(start->in, 0) >= 0) && dup2(start->out, 1) >= 0 &&
	       dup2(start->err, 2) >= 0;
}

static void default_signals(void)
{
	sigset_t none;

	// Handlers pid 1 has none, and it ignores nothing: what is left to undo is the mask.
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool become(const struct user *user)
{
	gid_t group = user->gid;

	// What pid 1 has already is not set again: each change of credentials costs microseconds.
	// Its saved gid alone is always another.
	if ((group != 0 && syscall(SYS_setgroups, 1, &group) < 0) ||
	    syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0 ||
	    (user->uid != 0 && syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0))
		return false;
	// A change of ids sets the memory, still pid 1's, to the host's fs.suid_dumpable.
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

static bool enter_cwd(const char *cwd)
{
	if (chdir(cwd) < 0)
		return false;
	if (syscall(SYS_getcwd, child_path, sizeof(child_path)) < 0)
		return false;
	// "(unreachable)/…": a directory outside of the box's root (CVE-2024-21626).
	if (child_path[0] != '/') {
		errno = ENOENT;
		return false;
	}
	return true;
}

static bool load_filter(const struct birth *birth)
{
	struct sock_fprog program = {
		.len = birth->filter_len,
		.filter = (struct sock_filter *)birth->filter,
	};

	return program.len == 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

static const char *find_env(const struct talk_exec *exec, const char *name)
{
	size_t len = strlen(name);

	for (uint32_t i = 0; i < exec->envc; i++)
		if (strncmp(exec->env[i], name, len) == 0 && exec->env[i][len] == '=')
			return exec->env[i] + len + 1;
	return NULL;
}

static void execute(const char *path, const char **argv, const char **env)
{
	execve(path, (char *const *)argv, (char *const *)env);
}

// As a shell would look: the first that can be executed; one that is there but may not be executed
// is remembered, for "permission denied" tells more than "not found".
static void execute_by_path(const struct talk_exec *exec)
{
	const char *name = exec->argv[0];
	const char *dirs = find_env(exec, "PATH");
	struct str rest = str_of(dirs ? dirs : PATH_DEFAULT);
	size_t len = strlen(name);
	bool denied = false;
	struct str dir;

	while (str_cut(&rest, ':', &dir)) {
		if (dir.len == 0)
			dir = STR(".");
		if (dir.len + 1 + len >= sizeof(child_path))
			continue;
		memcpy(child_path, dir.at, dir.len);
		child_path[dir.len] = '/';
		memcpy(child_path + dir.len + 1, name, len + 1);
		execute(child_path, exec->argv, exec->env);
		if (errno == EACCES)
			denied = true;
		else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG &&
			 errno != ELOOP)
			return;
	}
	errno = denied ? EACCES : ENOENT;
}

static void execute_shell(struct talk_exec *exec)
{
	const char **argv = exec->argv - 2;

	argv[1] = "-c";
	argv[0] = "bash";
	execute("/bin/bash", argv, exec->env);
	if (errno != ENOENT && errno != EACCES && errno != ENOTDIR)
		return;
	argv[0] = "sh";
	execute("/bin/sh", argv, exec->env);
}

static int fail(struct start *start, enum talk_step step)
{
	start->errnum = errno;
	start->step = step;
	return 127;
}

static int child(void *arg)
{
	struct start *start = arg;
	struct talk_exec exec = *start->exec;

	if (!start->birth->joins_by_clone && !leaf_enter(start->leaf))
		return fail(start, TALK_STEP_JOIN);
	setsid();
	if (!take_stdio(start))
		return fail(start, TALK_STEP_SETUP);
	// Before cwd: no fd of pid 1 may be a way to a directory.
	if (syscall(SYS_close_range, 3, ~0u, 0) < 0)
		return fail(start, TALK_STEP_SETUP);
	if (!become(start->user))
		return fail(start, TALK_STEP_SETUP);
	if (!enter_cwd(exec.cwd.len > 0 ? exec.cwd.at : "/"))
		return fail(start, TALK_STEP_CWD);
	if (!load_filter(start->birth))
		return fail(start, TALK_STEP_SETUP);
	default_signals();
	if (exec.flags & TALK_EXEC_SHELL)
		execute_shell(&exec);
	else if (strchr(exec.argv[0], '/'))
		execute(exec.argv[0], exec.argv, exec.env);
	else
		execute_by_path(&exec);
	return fail(start, TALK_STEP_EXEC);
}

// The child is born with the score that its parent has at that moment.
static void raise_oom(const struct birth *birth, bool up)
{
	const char *text = up ? "500" : birth->oom_own;
	ssize_t n = 0;

	if (birth->oom >= 0)
		n = pwrite(birth->oom, text, strlen(text), 0);
	(void)n; // a host may forbid it: then the sizes alone decide
}

static bool spawn(struct start *start, int *out_pid)
{
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_VFORK,
		.exit_signal = SIGCHLD,
		.stack = (uintptr_t)child_stack,
		.stack_size = sizeof(child_stack),
	};
	long pid;

	if (start->birth->joins_by_clone) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)start->leaf->join[0];
	}
	raise_oom(start->birth, true);
	pid = clone_child(&args, child, start);
	raise_oom(start->birth, false);
	if (pid < 0) {
		errno = (int)-pid;
		start->step = errno == EAGAIN || errno == ENOMEM ? TALK_STEP_FORK : TALK_STEP_JOIN;
		return false;
	}
	*out_pid = (int)pid;
	errno = start->errnum;
	return start->step == TALK_STEP_NONE;
}

static void add_home(struct talk_exec *exec, const struct user *user)
{
	static char home[sizeof("HOME=") + USER_HOME_MAX] = "HOME=";
	static char name[sizeof("USER=") + USER_NAME_MAX] = "USER=";

	if (!find_env(exec, "HOME")) {
		memcpy(home + 5, user->home, strlen(user->home) + 1);
		exec->env[exec->envc++] = home;
	}
	if (!find_env(exec, "USER")) {
		memcpy(name + 5, user->name, strlen(user->name) + 1);
		exec->env[exec->envc++] = name;
	}
	exec->env[exec->envc] = NULL;
}

static bool make_pipes(bool with_stdin, struct run *run, struct start *start)
{
	int out[2] = {-1, -1}, err[2] = {-1, -1}, in[2] = {-1, -1};
	bool made = pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 &&
		    (!with_stdin || pipe2(in, O_CLOEXEC) == 0);

	run->out = out[0];
	run->err = err[0];
	run->in = in[1];
	start->out = out[1];
	start->err = err[1];
	start->in = in[0];
	return made;
}

bool run_start(const struct birth *birth, const struct leaf *leaf, struct talk_exec *exec,
	       struct run *out, enum talk_step *step)
{
	static struct user user;
	struct start start = {.birth = birth, .leaf = leaf, .exec = exec, .user = &user};
	struct run run = {.pid = 0};
	bool with_home = exec->flags & TALK_EXEC_HOME;
	bool started = false;
	int kept;

	if (!user_find(exec->user, with_home, &user)) {
		*step = TALK_STEP_USER;
		errno = ENOENT;
		return false;
	}
	if (with_home)
		add_home(exec, &user);
	if (make_pipes(exec->flags & TALK_EXEC_STDIN, &run, &start))
		started = spawn(&start, &run.pid);
	else
		start.step = TALK_STEP_PIPE;
	kept = errno;
	fd_drop(&start.out);
	fd_drop(&start.err);
	fd_drop(&start.in);
	if (started) {
		*out = run;
		return true;
	}
	fd_drop(&run.out);
	fd_drop(&run.err);
	fd_drop(&run.in);
	*step = start.step;
	errno = kept;
	return false;
}
