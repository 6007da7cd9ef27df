// The preforked worker: a command started by it must behave like any other.
#include "init/prefork.h"

#include <ctype.h>
#include <dirent.h>

#include "unit/init/talker.h"

static struct testbox box;
static struct outcome got;

// Field `name` of /proc/PID/status; the last word of its line. -1: none.
static long status_of(int pid, const char *name)
{
	char path[64], line[256];
	long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		char *last = strrchr(line, '\t');

		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':' && last)
			value = strtol(last, NULL, 10);
	}
	if (file)
		fclose(file);
	return value;
}

static bool is_called(int pid, const char *want)
{
	char path[64], name[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	return fd_get(AT_FDCWD, path, name, sizeof(name)) > 0 && !strcmp(name, want) &&
	       status_of(pid, "PPid") == box.pid;
}

static int look_for(const char *name)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int found = 0;

	while (dir && (entry = readdir(dir)) && !found)
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    is_called((int)strtol(entry->d_name, NULL, 10), name))
			found = (int)strtol(entry->d_name, NULL, 10);
	if (dir)
		closedir(dir);
	return found;
}

static int look_for_prefork(void)
{
	return look_for("cove-prefork\n");
}

static int look_for_fork_template(void)
{
	return look_for("cove-template\n");
}

// The pid of the waiting worker, on the host. It is made in an idle moment, so it may take one; and
// on a busy host a moment may pass unused.
static int prefork(void)
{
	struct outcome idle;

	for (int try = 0; try < 100; try++) {
		for (int i = 0; i < 20; i++) {
			int pid = look_for_prefork();

			if (pid > 0)
				return pid;
			usleep(2000);
		}
		RUN(&box, &idle, "true");
	}
	printf("# no spare came\n");
	tap_bad = true;
	return 1 << 30; // nobody's
}

// Runs it, and says whether the preforked worker ran it. On a busy host a worker may not be
// ready in time: then the command is started without it, and is run again here.
static bool run_by_prefork(struct talk *talk, const char *input)
{
	for (int try = 0; try < 10; try++) {
		long waiting = status_of(prefork(), "NSpid");

		if (try)
			talk->conn = ++next_conn;
		if (!run(&box, talk, input, &got))
			return false;
		if (waiting > 1 && got.first.started.pid == waiting)
			return true;
	}
	return false;
}

TEST(waits, "from the beginning a worker waits, and the next command uses it")
{
	struct talk talk = command((const char *[]){"/bin/echo", "hello", NULL});

	if (skip(true))
		return;
	CHECK(begin(&box, true));
	for (int i = 0; i < 1000 && !look_for_prefork(); i++)
		usleep(1000);
	CHECK(look_for_prefork() > 0);
	CHECK(RUN(&box, &got, "true"));
	CHECK(run_by_prefork(&talk, NULL));
	CHECK_STR(got.out, "hello\n");
	CHECK(STATUS(got) == 0);
}

TEST(same, "its command has the privileges, the session, the signals and the files of any other")
{
	static const char script[] =
		"grep -v '[Pp]id\\|SigQ\\|Tgid\\|NStgid\\|ctxt\\|^Vm\\|^Rss\\|NSs\\|NSpg' "
		"/proc/self/status; cat "
		"/proc/self/oom_score_adj; cut -d' ' -f18,19,40,41 /proc/$$/stat; cut -d' ' -f5-8 "
		"/proc/$$/stat | grep -c "
		"\"^$$ $$ 0 -1$\"; cd /proc/self/fd; echo *; readlink 0; cd /; "
		"ulimit -a; umask; pwd; env";
	struct talk talk = command((const char *[]){"/bin/sh", "-c", script, NULL});
	static char slow[sizeof(got.out)];

	if (skip(true))
		return;
	CHECK(run_by_prefork(&talk, NULL));
	memcpy(slow, got.out, sizeof(slow));
	kill(prefork(), SIGSTOP); // now it goes the other way
	talk.conn = ++next_conn;
	CHECK(run(&box, &talk, NULL, &got) && STATUS(got) == 0);
	CHECK_STR(got.out, slow);
	CHECK(strstr(got.out, "Seccomp_filters:\t3\n"));
}

TEST(asked, "user, directory, home and input are those of the command")
{
	struct talk talk = command((const char *[]){"id; pwd; echo $HOME $USER; cat", NULL});

	if (skip(true))
		return;
	talk.exec.flags = TALK_EXEC_SHELL | TALK_EXEC_HOME | TALK_EXEC_STDIN;
	talk.exec.user = STR("65534:65534");
	talk.exec.cwd = STR("/usr/bin");
	CHECK(run_by_prefork(&talk, "input"));
	CHECK(strstr(got.out, "uid=65534") && strstr(got.out, "gid=65534"));
	CHECK(strstr(got.out, "\n/usr/bin\n") && strstr(got.out, "\ninput"));
	CHECK(strstr(got.out, "nobody\n"));
}

TEST(chain,
     "in a sequence each command has its exec cgroup for itself, and the next is never the last")
{
	long last = 0, same = 0;

	if (skip(true))
		return;
	for (int i = 0; i < 300; i++) {
		CHECK(RUN(&box, &got, "true") && STATUS(got) == 0);
		CHECK(got.last.exited.cgroup_empty);
		same += got.first.started.pid == last;
		last = got.first.started.pid;
	}
	CHECK(same == 0);
	// Processes that a command leaves behind are seen by the next, which is not run beside
	// them.
	CHECK(SH(&box, &got, "setsid sleep 60 >/dev/null 2>&1 &"));
	CHECK(!got.last.exited.cgroup_empty);
	CHECK(SH(&box, &got, "until kill -9 $(pidof sleep) 2>/dev/null; do :; done"));
	for (int i = 0; i < 50 && !got.last.exited.cgroup_empty; i++) {
		usleep(2000);
		CHECK(RUN(&box, &got, "true") && STATUS(got) == 0);
	}
	CHECK(got.last.exited.cgroup_empty);
}

TEST(fails, "a command that it cannot start fails at its step, and the next one starts")
{
	static const struct {
		const char *name, *cwd;
		enum talk_step step;
		int errnum;
	} rows[] = {
		{"no-such-thing", "/", TALK_STEP_EXEC, ENOENT},
		{"/etc/passwd", "/", TALK_STEP_EXEC, EACCES},
		{"true", "/no/such", TALK_STEP_CWD, ENOENT},
		{"true", "/proc/self/fd/3", TALK_STEP_CWD, ENOTDIR},
	};

	if (skip(true))
		return;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct talk talk = command((const char *[]){rows[i].name, NULL});

		talk.exec.cwd = str_of(rows[i].cwd);
		CHECK(prefork() > 0);
		CHECK(run(&box, &talk, NULL, &got));
		CHECK(got.first.kind == TALK_FAILED && got.first.failed.step == rows[i].step);
		CHECK(got.first.failed.errnum == rows[i].errnum);
		CHECK(RUN(&box, &got, "true") && STATUS(got) == 0);
	}
}

TEST(killed, "every command runs though a worker was killed")
{
	if (skip(true))
		return;
	for (int i = 0; i < 20; i++) {
		kill(prefork(), i % 2 ? SIGKILL : SIGTERM);
		usleep(i < 10 ? 0 : 3000);
		CHECK(RUN(&box, &got, "true") && STATUS(got) == 0);
	}
	CHECK(RUN(&box, &got, "true") && got.last.exited.cgroup_empty);
}

TEST(stopped, "a stopped worker delays no command")
{
	if (skip(true))
		return;
	for (int i = 0; i < 3; i++) {
		kill(prefork(), SIGSTOP);
		CHECK(SH(&box, &got, "echo moves") && STATUS(got) == 0);
		CHECK_STR(got.out, "moves\n");
		CHECK(got.last.exited.cgroup_empty);
	}
}

TEST(fork_template, "the fork template may be killed or stopped, and every command runs")
{
	struct talk talk = command((const char *[]){"true", NULL});

	if (skip(true))
		return;
	for (int i = 0; i < 20; i++) {
		int fork_template = prefork() ? look_for_fork_template() : 0;

		if (fork_template > 0)
			kill(fork_template, i % 2 ? SIGKILL : SIGSTOP);
		usleep(i < 10 ? 0 : 3000);
		CHECK(RUN(&box, &got, "true") && STATUS(got) == 0);
		CHECK(SH(&box, &got, "echo $PPID") && STATUS(got) == 0);
		CHECK_STR(got.out, "1\n");
	}
	CHECK(run_by_prefork(&talk, NULL));
}

TEST(born,
     "without a waiting worker the template clones one for a command, and that is like any other")
{
	struct talk talk = command((const char *[]){"cat", NULL});

	if (skip(true))
		return;
	talk.exec.flags = TALK_EXEC_STDIN;
	for (int i = 0; i < 100; i++) {
		talk.conn = ++next_conn;
		CHECK(run(&box, &talk, "words", &got) && STATUS(got) == 0);
		CHECK_STR(got.out, "words");
		for (int j = 0; j < 3; j++)
			CHECK(RUN(&box, &got, "true") && STATUS(got) == 0);
		CHECK(RUN(&box, &got, "no-such-thing") && got.first.kind == TALK_FAILED);
		CHECK(got.first.failed.step == TALK_STEP_EXEC);
	}
	// A worker that failed may still be dying when its failure is reported.
	for (int i = 0; i < 50 && !got.last.exited.cgroup_empty; i++) {
		usleep(2000);
		CHECK(RUN(&box, &got, "true") && STATUS(got) == 0);
	}
	CHECK(got.last.exited.cgroup_empty);
}

TEST(alone, "a command that lasts has its exec cgroup for itself")
{
	if (skip(true))
		return;
	CHECK(prefork() > 0);
	CHECK(SH(&box, &got,
		 "sleep 0.3; n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; echo $n"));
	CHECK_STR(got.out, "2\n");
	CHECK(STATUS(got) == 0 && got.last.exited.cgroup_empty);
}

// In a new exec cgroup of its own, beside the worker.
static bool run_beside(struct talk *talk)
{
	int fds[3], count = testbox_cgroup(&box, fds);
	bool told;

	talk->exec.exec_cgroup = 1;
	told = tell(&box, talk, fds, count);
	while (count > 0)
		close(fds[--count]);
	if (!told || !hear(&box, &got.first, fds, &count) || got.first.kind != TALK_STARTED)
		return false;
	slurp(fds[0], got.out, sizeof(got.out));
	slurp(fds[1], got.err, sizeof(got.err));
	if (!hear(&box, &got.last, fds, &count))
		return false;
	forget(&box, talk->conn);
	return true;
}

TEST(inside, "box root sees it and may kill it, but can neither read nor trace it")
{
	char script[512];
	struct talk talk = command((const char *[]){"/bin/sh", "-c", script, NULL});

	if (skip(true))
		return;
	CHECK(RUN(&box, &got, "true"));
	snprintf(script, sizeof(script),
		 "p=%ld; cat /proc/$p/comm; cd /proc/$p && for f in mem environ maps syscall; do "
		 "cat $f && echo open; done; readlink exe cwd root fd/0; echo x > mem; "
		 "kill -9 $p && echo killed",
		 status_of(prefork(), "NSpid"));
	CHECK(run_beside(&talk));
	CHECK_STR(got.out, "cove-prefork\nkilled\n");
	CHECK(RUN(&box, &got, "true") && STATUS(got) == 0);
}

TEST(hidden, "box root can neither read nor trace the template, nor change its limits")
{
	char script[512];
	struct talk talk = command((const char *[]){"/bin/sh", "-c", script, NULL});
	int fork_template = 0;

	if (skip(true))
		return;
	for (int i = 0; i < 100 && fork_template <= 0; i++)
		fork_template = prefork() ? look_for_fork_template() : 0;
	snprintf(script, sizeof(script),
		 "p=%ld; cat /proc/$p/comm; cd /proc/$p && for f in mem environ maps syscall; do "
		 "cat $f && echo open; done; readlink exe cwd root fd/0; echo x > mem; ls fd; "
		 "prlimit --pid $p --nofile=5:5 && echo limited; kill -9 $p && echo killed",
		 status_of(fork_template, "NSpid"));
	CHECK(run_beside(&talk));
	CHECK_STR(got.out, "cove-template\nkilled\n");
	CHECK(RUN(&box, &got, "true") && STATUS(got) == 0);
}

TEST(renewed, "a worker is not used when its exec cgroup was made again")
{
	struct talk talk = command((const char *[]){"cat", "/proc/self/cgroup", NULL});
	int fds[3], count;

	if (skip(true))
		return;
	CHECK(prefork() > 0);
	testbox_kill_cgroup(&box, 0);
	count = testbox_renew(&box, 0, fds);
	CHECK(tell(&box, &talk, fds, count));
	for (int i = 0; i < count; i++)
		close(fds[i]);
	CHECK(hear(&box, &got.first, fds, &count) && got.first.kind == TALK_STARTED);
	slurp(fds[0], got.out, sizeof(got.out));
	close(fds[1]);
	CHECK(strstr(got.out, "x-0\n") && !strstr(got.out, "deleted"));
	CHECK(hear(&box, &got.last, fds, &count) && STATUS(got) == 0);
	forget(&box, talk.conn);
	talk = command((const char *[]){"true", NULL});
	CHECK(run_by_prefork(&talk, NULL));
}

TEST(empty, "an exec cgroup with only a worker counts as empty, with a process of the box not")
{
	struct talk talk = command((const char *[]){"true", NULL});

	if (skip(true))
		return;
	talk.exec.flags = TALK_EXEC_IF_EMPTY;
	CHECK(run_by_prefork(&talk, NULL));
	CHECK(SH(&box, &got, "setsid sleep 60 >/dev/null 2>&1 &"));
	CHECK(!got.last.exited.cgroup_empty);
	usleep(20000);
	CHECK(look_for_prefork() == 0);
	talk.conn = ++next_conn;
	CHECK(run(&box, &talk, NULL, &got));
	CHECK(got.first.kind == TALK_FAILED && got.first.failed.errnum == EBUSY);
	testbox_kill_cgroup(&box, 0);
}

TEST(many, "many at once over many exec cgroups, while workers come and go")
{
	enum { LEAVES = 8, ROUNDS = 30 };
	int fds[3], count, done = 0;

	if (skip(true))
		return;
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 1; i <= LEAVES; i++) {
			struct talk talk = command((const char *[]){"true", NULL});

			talk.exec.exec_cgroup = (uint32_t)i;
			count = round ? 0 : testbox_cgroup(&box, fds);
			CHECK(tell(&box, &talk, fds, count));
			while (count > 0)
				close(fds[--count]);
		}
		for (int i = 0; i < 2 * LEAVES; i++) {
			CHECK(hear(&box, &got.last, fds, &count));
			CHECK(got.last.kind == (count ? TALK_STARTED : TALK_EXITED));
			done += got.last.kind == TALK_EXITED && STATUS(got) == 0;
			if (count == 0)
				forget(&box, got.last.conn);
			while (count > 0)
				close(fds[--count]);
		}
		usleep(round % 3 * 200);
	}
	CHECK(done == LEAVES * ROUNDS);
	CHECK(WIFEXITED(testbox_close(&box)));
}

TEST(v1, "on cgroup v1 the worker has joined its exec cgroup")
{
	struct talk talk = command((const char *[]){"cat", "/proc/self/cgroup", NULL});

	if (skip(false))
		return;
	CHECK(begin(&box, false));
	CHECK(RUN(&box, &got, "true") && got.last.exited.cgroup_empty);
	CHECK(run_by_prefork(&talk, NULL));
	CHECK(strstr(got.out, "/x-0\n") && got.last.exited.cgroup_empty);
	CHECK(WIFEXITED(testbox_close(&box)));
}
