// pid 1 as the daemon meets it: real namespaces, the real socket, real commands.
#include "init/init.h"

#include "tap.h"
#include "unit/init/talker.h"

static struct testbox box;
static struct outcome got;

TEST(greets, "pid 1 greets, runs a command and reports how it ended")
{
	if (skip(true))
		return;
	CHECK(begin(&box, true));
	CHECK(SH(&box, &got, "echo out; echo err >&2; exit 7"));
	CHECK(got.first.kind == TALK_STARTED && got.first.started.pid > 1);
	CHECK_STR(got.out, "out\n");
	CHECK_STR(got.err, "err\n");
	CHECK(WIFEXITED(STATUS(got)) && WEXITSTATUS(STATUS(got)) == 7);
	CHECK(got.last.exited.max_rss > 0 && got.last.exited.cgroup_empty);
}

TEST(exact, "argv, environment and cwd arrive exactly; no fd but three does")
{
	const char *argv[] = {"/usr/bin/printf", "[%s]", "a b", "", "$x", NULL};
	struct talk talk = command(argv);

	if (skip(true))
		return;
	CHECK(run(&box, &talk, NULL, &got));
	CHECK_STR(got.out, "[a b][][$x]");
	CHECK(RUN(&box, &got, "env"));
	CHECK_STR(got.out, "PATH=/usr/bin:/bin\nX=1\n");
	talk = command((const char *[]){"pwd", NULL});
	talk.exec.cwd = STR("/usr/bin");
	CHECK(run(&box, &talk, NULL, &got));
	CHECK_STR(got.out, "/usr/bin\n");
	CHECK(SH(&box, &got,
		 "cd /proc/self/fd; echo *; readlink 0; umask; grep core /proc/self/limits | tr -s "
		 "' '"));
	CHECK_STR(got.out,
		  "0 1 2 3\n/dev/null\n0022\nMax core file size 1 1 bytes \n"); // 3 is the shell's
										// own, for the glob
}

TEST(failures, "a command that cannot be started fails at its step, with its errno")
{
	static const struct {
		const char *name, *cwd, *user;
		enum talk_step step;
		int errnum;
	} rows[] = {
		{"no-such-thing", "/", "", TALK_STEP_EXEC, ENOENT},
		{"/no/such/thing", "/", "", TALK_STEP_EXEC, ENOENT},
		{"/etc/passwd", "/", "", TALK_STEP_EXEC, EACCES},
		{"/usr", "/", "", TALK_STEP_EXEC, EACCES},
		{"true", "/no/such", "", TALK_STEP_CWD, ENOENT},
		{"true", "/etc/passwd", "", TALK_STEP_CWD, ENOTDIR},
		{"true", "/proc/self/fd/6", "", TALK_STEP_CWD, ENOENT},
		{"true", "/root/..", "65536", TALK_STEP_USER, ENOENT},
		{"true", "/", "4294967295", TALK_STEP_USER, ENOENT},
		{"true", "/", "0:65536", TALK_STEP_USER, ENOENT},
		{"true", "/", "root:no-such-group", TALK_STEP_USER, ENOENT},
		{"true", "/", "nobody-at-all", TALK_STEP_USER, ENOENT},
		{"true", "/", ":", TALK_STEP_USER, ENOENT},
	};

	if (skip(true))
		return;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct talk talk = command((const char *[]){rows[i].name, NULL});

		talk.exec.cwd = str_of(rows[i].cwd);
		talk.exec.user = str_of(rows[i].user);
		CHECK(run(&box, &talk, NULL, &got));
		printf("# %s %s '%s'\n", rows[i].name, rows[i].cwd, rows[i].user);
		CHECK(got.first.kind == TALK_FAILED);
		CHECK(got.first.failed.step == rows[i].step);
		CHECK(got.first.failed.errnum == rows[i].errnum);
	}
}

TEST(path_search, "EACCES of a PATH candidate is reported before ENOENT")
{
	char dir[32], path[64];
	static char var[128];
	const char *env[] = {var, NULL};
	struct talk talk = command((const char *[]){"thing", NULL});
	int fd;

	if (skip(true))
		return;
	snprintf(dir, sizeof(dir), "/tmp/cove-path-%d", getpid());
	CHECK(mkdir(dir, 0755) == 0);
	snprintf(path, sizeof(path), "%s/thing", dir);
	snprintf(var, sizeof(var), "PATH=%s:/usr/bin", dir);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	fd_write_all(fd, "\1\2\3", 3);
	talk.exec.env = env;
	talk.exec.envc = 1;
	CHECK(run(&box, &talk, NULL, &got));
	CHECK(got.first.kind == TALK_FAILED && got.first.failed.errnum == EACCES);
	fchmod(fd, 0755);
	close(fd);
	talk.conn = ++next_conn;
	CHECK(run(&box, &talk, NULL, &got));
	CHECK(got.first.kind == TALK_FAILED && got.first.failed.errnum == ENOEXEC);
	unlink(path);
	rmdir(dir);
}

TEST(input, "stdin is a pipe when asked for, and a script goes to a shell")
{
	struct talk talk = command((const char *[]){"cat", NULL});

	if (skip(true))
		return;
	talk.exec.flags = TALK_EXEC_STDIN;
	CHECK(run(&box, &talk, "hello", &got));
	CHECK_STR(got.out, "hello");
	talk = command((const char *[]){"echo $0 $HOME $USER $1", "zero", "one", NULL});
	talk.exec.flags = TALK_EXEC_SHELL | TALK_EXEC_HOME;
	CHECK(run(&box, &talk, NULL, &got));
	CHECK_STR(got.out, "zero /root root one\n");
}

TEST(rights, "a command has the capabilities of docs/ISOLATION.md CAP-1 and no others")
{
	static const char script[] =
		"grep -E "
		"'^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp|Seccomp_filters|SigBlk|SigIgn):' "
		"/proc/self/status | tr -s '\\t ' ' '; cat /proc/self/oom_score_adj";
	struct talk talk = command((const char *[]){"/bin/sh", "-c", script, NULL});

	if (skip(true))
		return;
	CHECK(run(&box, &talk, NULL, &got));
	CHECK_STR(got.out,
		  "Uid: 0 0 0 0\nGid: 0 0 0 0\nGroups: 0 \nSigBlk: 0000000000000000\n"
		  "SigIgn: 0000000000000000\nCapInh: 0000000000000000\nCapPrm: 00000000a00404fb\n"
		  "CapEff: 00000000a00404fb\nCapBnd: 00000000a00404fb\nCapAmb: 0000000000000000\n"
		  "NoNewPrivs: 1\nSeccomp: 2\nSeccomp_filters: 3\n500\n");
	talk.conn = ++next_conn;
	talk.exec.user = STR("1000:1001");
	CHECK(run(&box, &talk, NULL, &got));
	CHECK(strstr(got.out, "Uid: 1000 1000 1000 1000\nGid: 1001 1001 1001 1001\nGroups: 1001 "));
	CHECK(strstr(got.out, "CapPrm: 0000000000000000\nCapEff: 0000000000000000\n"));
}

TEST(closed_book, "pid 1 cannot be read, traced, stopped or killed from inside")
{
	if (skip(true))
		return;
	CHECK(SH(&box, &got,
		 "for f in mem exe maps environ fd cwd root auxv; do "
		 "(exec 3</proc/1/$f) 2>/dev/null && echo opened $f; "
		 "ls /proc/1/$f/ >/dev/null 2>&1 && echo listed $f; done;"
		 "readlink /proc/1/exe; for s in 1 2 3 6 9 11 13 15 17 19 20; do kill -$s 1; done;"
		 "cat /proc/1/comm"));
	CHECK_STR(got.out, "cove-init\n");
	CHECK(SH(&box, &got, "prlimit --pid 1 --nofile=0 2>&1"));
	CHECK(STATUS(got) != 0);
	CHECK(SH(&box, &got, "command -v strace >/dev/null && strace -p 1 2>&1 | head -1"));
	CHECK(!strstr(got.out, "attached"));
	CHECK(RUN(&box, &got, "true"));
	CHECK(STATUS(got) == 0);
}

TEST(signals, "a signal reaches the whole process group of a command")
{
	struct talk talk = command((const char *[]){"/bin/sh", "-c", "sleep 60 & wait", NULL});
	struct talk heard, kick = {.kind = TALK_SIGNAL, .conn = talk.conn, .signal = SIGTERM};
	int fds[3], count;
	char out[16];

	if (skip(true))
		return;
	CHECK(tell(&box, &talk, NULL, 0) && hear(&box, &heard, fds, &count));
	CHECK(heard.kind == TALK_STARTED && count == 2);
	usleep(50000);
	CHECK(tell(&box, &kick, NULL, 0));
	slurp(fds[0], out, sizeof(out)); // ends when the sleeper, too, is gone
	close(fds[1]);
	CHECK(hear(&box, &heard, fds, &count) && heard.kind == TALK_EXITED);
	CHECK(WIFSIGNALED(heard.exited.status) && WTERMSIG(heard.exited.status) == SIGTERM);
	forget(&box, talk.conn);
}

TEST(orphans, "orphans are reaped, and an exec cgroup with one alive is not reported empty")
{
	struct talk again = command((const char *[]){"true", NULL});

	if (skip(true))
		return;
	CHECK(SH(&box, &got, "for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 &) ; done >/dev/null 2>&1"));
	usleep(300000);
	CHECK(SH(&box, &got, "grep -l 'State:.*Z' /proc/[0-9]*/status; true"));
	CHECK_STR(got.out, "");
	CHECK(got.last.exited.cgroup_empty);
	CHECK(SH(&box, &got, "setsid sleep 60 >/dev/null 2>&1 &"));
	CHECK(!got.last.exited.cgroup_empty);
	again.conn = ++next_conn;
	again.exec.flags = TALK_EXEC_IF_EMPTY;
	CHECK(run(&box, &again, NULL, &got));
	CHECK(got.first.kind == TALK_FAILED && got.first.failed.step == TALK_STEP_JOIN &&
	      got.first.failed.errnum == EBUSY);
}

TEST(renewed, "a killed exec cgroup is made again: pid 1 takes its new fds")
{
	struct talk talk = command((const char *[]){"true", NULL});
	int join[2], fds[3], count;

	if (skip(true))
		return;
	testbox_kill_cgroup(&box, 0);
	count = testbox_renew(&box, 0, join);
	CHECK(tell(&box, &talk, join, count));
	close(join[0]);
	CHECK(hear(&box, &got.first, fds, &count) && got.first.kind == TALK_STARTED);
	close(fds[0]);
	close(fds[1]);
	CHECK(hear(&box, &got.last, fds, &count) && got.last.kind == TALK_EXITED);
	CHECK(STATUS(got) == 0 && got.last.exited.cgroup_empty);
	forget(&box, talk.conn);
	CHECK(RUN(&box, &got, "true") && STATUS(got) == 0);
}

TEST(exec_cgroups, "a new exec cgroup comes with its fds; the command is cloned into it")
{
	struct talk talk = command((const char *[]){"cat", "/proc/self/cgroup", NULL});
	int fds[3], count = 0, join[2];

	if (skip(true))
		return;
	count = testbox_cgroup(&box, join);
	talk.exec.exec_cgroup = 1;
	CHECK(run(&box, &talk, NULL, &got)); // not known, and no fds: refused
	CHECK(got.first.kind == TALK_FAILED && got.first.failed.step == TALK_STEP_JOIN);
	talk.conn = ++next_conn;
	CHECK(tell(&box, &talk, join, count));
	close(join[0]);
	CHECK(hear(&box, &got.first, fds, &count) && got.first.kind == TALK_STARTED);
	slurp(fds[0], got.out, sizeof(got.out));
	close(fds[1]);
	CHECK(strstr(got.out, "/x-1\n"));
	CHECK(hear(&box, &got.last, fds, &count) && got.last.kind == TALK_EXITED);
	forget(&box, talk.conn);
}

TEST(deaf_daemon, "nothing is lost when the daemon does not listen for a while")
{
	enum { MANY = 400 };
	struct talk heard;
	uint32_t first = next_conn + 1;
	int fds[3], count, started = 0, exited = 0;

	if (skip(true))
		return;
	fd_nonblock(box.control, true);
	for (int i = 0; i < MANY; i++) {
		struct talk talk = command((const char *[]){"true", NULL});

		if (!tell(&box, &talk, NULL, 0)) {
			next_conn--;
			break;
		}
	}
	fd_nonblock(box.control, false);
	usleep(300000);
	while (exited < (int)(next_conn - first + 1)) {
		CHECK(hear(&box, &heard, fds, &count));
		CHECK(heard.kind == TALK_STARTED || heard.kind == TALK_EXITED);
		for (int i = 0; i < count; i++)
			close(fds[i]);
		started += heard.kind == TALK_STARTED;
		exited += heard.kind == TALK_EXITED;
		if (heard.kind == TALK_EXITED)
			forget(&box, heard.conn);
	}
	printf("# %d commands\n", started);
	CHECK(started == exited && started > 10);
	CHECK(RUN(&box, &got, "true"));
	CHECK(got.first.kind == TALK_STARTED && STATUS(got) == 0);
}

static int count_fds(void)
{
	char path[64];
	int fds = 0;

	for (int fd = 0; fd < 1024; fd++) {
		struct stat st;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", box.pid, fd);
		fds += lstat(path, &st) == 0;
	}
	return fds;
}

TEST(no_leak, "after all that pid 1 holds as many fds as before any of it")
{
	// stdio, control, signalfd, oom score, two exec cgroups of two; cgroup.procs of the fork
	// template, and three pipes of its worker; while it is being cloned, their other ends as
	// well
	enum { WANT = 3 + 1 + 1 + 1 + 4 + 4 };
	int fds = WANT + 1;

	if (skip(true))
		return;
	for (int i = 0; i < 40 && fds > WANT; i++) {
		usleep(50000);
		fds = count_fds();
	}
	CHECK(fds > 0 && fds <= WANT);
}

TEST(end, "when the daemon's end closes, pid 1 ends and every process with it")
{
	int status;

	if (skip(true))
		return;
	CHECK(SH(&box, &got, "setsid sleep 60 >/dev/null 2>&1 &"));
	status = testbox_close(&box);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(access(box.group[0], F_OK) < 0); // empty, so it could be removed
}

TEST(v1, "on cgroup v1 a command joins its exec cgroup, and emptiness is read from tasks")
{
	struct talk again = command((const char *[]){"true", NULL});

	if (skip(false))
		return;
	CHECK(begin(&box, false));
	CHECK(RUN(&box, &got, "cat", "/proc/self/cgroup"));
	CHECK(strstr(got.out, "cpuacct:/cove-test-") && strstr(got.out, "freezer:/cove-test-"));
	CHECK(strstr(got.out, "/x-0\n"));
	CHECK(got.last.exited.cgroup_empty);
	CHECK(SH(&box, &got, "setsid sleep 0.3 >/dev/null 2>&1 &"));
	CHECK(!got.last.exited.cgroup_empty);
	again.exec.flags = TALK_EXEC_IF_EMPTY;
	CHECK(run(&box, &again, NULL, &got));
	CHECK(got.first.kind == TALK_FAILED && got.first.failed.errnum == EBUSY);
	usleep(500000);
	again.conn = ++next_conn;
	CHECK(run(&box, &again, NULL, &got));
	CHECK(got.first.kind == TALK_STARTED && STATUS(got) == 0);
	testbox_close(&box);
}

TEST(broken, "a malformed init config breaks the box with a message")
{
	struct talk heard = {0};
	int pair[2], fds[3], count, pid;

	if (skip(true))
		return;
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDONLY);

		if (unshare(CLONE_NEWNS)) // it mounts /proc
			_exit(92);
		testbox_build(NULL, (int[]){pair[1], null, null, null}, 4);
	}
	close(pair[1]);
	box.control = pair[0];
	CHECK(hear(&box, &heard, fds, &count));
	CHECK(heard.kind == TALK_BROKEN);
	CHECK_STR(heard.failed.note, "parse the init config");
	close(pair[0]);
	waitpid(pid, NULL, 0);
}
