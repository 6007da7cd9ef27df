// Commands in a real box, through the real pid 1; and hostile pid 1s.
#include "box/exec.h"

#include <spawn.h>

#include "base/mem.h"
#include "box/private.h"
#include "unit/box/fake_warden.h"

static struct box *box;
static struct exec_result result;
static char out[1 << 20], err_out[4096];
static int lost_boxes;

static int64_t in(int64_t ms)
{
	return loop_now(fixture.loop) + ms;
}

static fallible build(const char *name, struct box **made)
{
	struct order order = {.kind = ORDER_BUILD, .host = "box", .limits = LIMITS_DEFAULT};

	snprintf(order.name, sizeof(order.name), "%s", name);
	id_box(order.box);
	return box_build(fixture.loop, fixture.ask, &order, fixture.tapes, made);
}

static const char *const no_env[] = {"PATH=/usr/bin:/bin", NULL};

static struct exec_spec spec_of(const char *script)
{
	static const char *argv[2];

	argv[0] = script;
	return (struct exec_spec){.shell = true,
				  .argv = argv,
				  .env = no_env,
				  .cwd = "/",
				  .user = "",
				  .output_cap = 1 << 20,
				  .cpu_milli = 2000};
}

static fallible read_tape(struct tape *tape)
{
	size_t len[2] = {0}, n;
	uint64_t offset = 0;

	do {
		static char room[4096];
		enum tape_stream stream;
		char *to;
		size_t size;

		TRY(tape_read(tape, &offset, &stream, room, sizeof(room), &n, in(10000)));
		to = stream == TAPE_STDOUT ? out : err_out;
		size = stream == TAPE_STDOUT ? sizeof(out) : sizeof(err_out);
		if (n > 0 && len[stream] + n < size) {
			memcpy(to + len[stream], room, n);
			len[stream] += n;
		}
	} while (n > 0);
	out[len[0]] = err_out[len[1]] = 0;
	return OK;
}

static fallible run(const struct exec_spec *spec)
{
	struct exec *exec = NULL;
	struct err *err;

	TRY(exec_start(box, spec, &exec));
	err = exec_wait(exec, in(20000), &result);
	if (!err)
		err = read_tape(exec_tape(exec));
	exec_unref(exec);
	return err;
}

static fallible sh(const char *script)
{
	struct exec_spec spec = spec_of(script);

	return run(&spec);
}

// Killed is not yet dead: a busy machine takes its time.
static bool is_gone(const char *pattern)
{
	char script[128];

	snprintf(script, sizeof(script), "pgrep -f '%s' | wc -l", pattern);
	for (int64_t until = in(10000); loop_now(fixture.loop) < until;) {
		auto_err err = sh(script);

		if (!err && strcmp(out, "0\n") == 0)
			return true;
		err_free(task_sleep_until(in(50)));
	}
	return false;
}

static int count_fds(void)
{
	int fds = 0;

	for (int fd = 3; fd < 1024; fd++)
		fds += fcntl(fd, F_GETFD) >= 0;
	return fds;
}

static int fds_before;

TEST(opens, "the fixture opens")
{
	fds_before = count_fds();
	CHECK(fixture_open());
}

BOX_TEST(builds, "a box is built, and a command in it has a result")
{
	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	CHECK_OK(build("real", &box));
	CHECK(box_is_alive(box));
	CHECK_OK(sh("echo out; echo err >&2; exit 3"));
	CHECK_STR(out, "out\n");
	CHECK_STR(err_out, "err\n");
	CHECK(result.ending == ENDING_EXITED && result.exit_code == 3 && result.signal == 0);
	CHECK(result.max_rss > 0 && box_execs(box) == 0);
	CHECK_OK(sh("kill -USR1 $$"));
	CHECK(result.ending == ENDING_SIGNALED && result.signal == SIGUSR1);
	CHECK(result.exit_code == 128 + SIGUSR1);
}

BOX_TEST(refusals, "a command that cannot start has a kind and a reason, and leaves nothing behind")
{
	struct exec_spec spec = spec_of("true");
	const char *argv[] = {"no-such-command", NULL};

	spec.cwd = "/no/such";
	CHECK_ERR(run(&spec), INVALID);
	spec.cwd = "/";
	spec.user = "65536";
	CHECK_ERR(run(&spec), INVALID);
	spec.user = "";
	spec.shell = false;
	spec.argv = argv;
	CHECK_ERR(run(&spec), NOT_FOUND);
	argv[0] = "/etc/passwd";
	CHECK_ERR(run(&spec), FORBIDDEN);
	argv[0] = "";
	CHECK_ERR(run(&spec), INVALID);
	CHECK(box_execs(box) == 0);
	CHECK_OK(sh("true"));
}

BOX_TEST(input, "stdin takes more than a pipe holds, and a command that does not read it")
{
	struct exec_spec spec = spec_of("wc -c");
	static char bytes[600000];

	memset(bytes, 'x', sizeof(bytes));
	spec.stdin_bytes = (struct str){bytes, sizeof(bytes)};
	CHECK_OK(run(&spec));
	CHECK_STR(out, "600000\n");
	spec = spec_of("exec <&-; echo closed");
	spec.stdin_bytes = (struct str){bytes, sizeof(bytes)};
	CHECK_OK(run(&spec));
	CHECK_STR(out, "closed\n");
	spec = spec_of("cat; echo end");
	spec.stdin_bytes = STR("");
	CHECK_OK(run(&spec));
	CHECK_STR(out, "end\n");
}

BOX_TEST(floods, "a flood goes to disk up to the cap; the rest is counted and dropped")
{
	struct exec_spec spec = spec_of("head -c 700000 /dev/zero | tr '\\0' a");
	struct exec *exec = NULL;

	CHECK_OK(run(&spec));
	CHECK(strlen(out) == 700000 && !result.stdout_truncated);
	spec = spec_of("head -c 30000000 /dev/zero; echo tail >&2");
	CHECK_OK(exec_start(box, &spec, &exec));
	CHECK_OK(exec_wait(exec, in(30000), &result));
	CHECK(result.stdout_truncated && result.ending == ENDING_EXITED);
	CHECK(tape_bytes(exec_tape(exec), TAPE_STDOUT) == 30000000);
	exec_unref(exec);
}

BOX_TEST(background, "a background job that holds the pipes delays nothing")
{
	int64_t before = clock_ms();

	CHECK_OK(sh("(sleep 1; echo late) & echo now"));
	CHECK_STR(out, "now\n");
	CHECK(clock_ms() - before < 800);
	CHECK_OK(sh("echo next")); // in another cgroup: the first is not empty
	CHECK_STR(out, "next\n");
	CHECK_OK(task_sleep_until(in(1300)));
	CHECK_OK(sh("echo again"));
	CHECK_STR(out, "again\n");
}

BOX_TEST(wall, "the wall limit sends SIGTERM, then kills the whole tree")
{
	struct exec_spec spec = spec_of("sleep 60");
	int64_t before = clock_ms();

	spec.wall_ms = 100;
	CHECK_OK(run(&spec));
	CHECK(result.ending == ENDING_WALL_LIMIT && result.exit_code == 124);
	CHECK(clock_ms() - before < 2000);
	spec = spec_of("trap '' TERM; setsid sleep 70 & while :; do sleep 1; done");
	spec.wall_ms = 100;
	before = clock_ms();
	CHECK_OK(run(&spec));
	CHECK(result.ending == ENDING_WALL_LIMIT && result.exit_code == 124);
	CHECK(clock_ms() - before >= 5000);
	CHECK(is_gone("sleep 7[0]"));
}

BOX_TEST(wall_survivors, "processes that survive the SIGTERM of the wall limit are killed")
{
	struct exec_spec spec = spec_of(
		"setsid sh -c 'trap \"\" TERM; exec sleep 777' >/dev/null 2>&1 & exec sleep 100");

	spec.wall_ms = 300;
	CHECK_OK(run(&spec));
	CHECK(result.ending == ENDING_WALL_LIMIT && result.exit_code == 124);
	CHECK(is_gone("sleep 77[7]"));
}

BOX_TEST(cpu, "the CPU limit holds for the tree, and is met within 50 ms")
{
	struct exec_spec spec = spec_of("for i in 1 2; do while :; do :; done & done; wait");

	spec.cpu_ms = 300;
	CHECK_OK(run(&spec));
	printf("# %lu ms of 300\n", (unsigned long)result.cpu_ms);
	CHECK(result.ending == ENDING_CPU_LIMIT && result.exit_code == 137);
	CHECK(result.cpu_ms >= 299 && result.cpu_ms < 350);
	CHECK_OK(sh("true")); // a spent cgroup does not serve again
	CHECK(result.ending == ENDING_EXITED && result.exit_code == 0);
}

BOX_TEST(left_behind, "processes that a limited exec leaves behind are still limited")
{
	struct exec_spec spec = spec_of(
		"setsid sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!");

	spec.cpu_ms = 200;
	CHECK_OK(run(&spec));
	CHECK(result.ending == ENDING_EXITED);
	CHECK(is_gone("while :; do :[;] done"));
}

BOX_TEST(unlimited, "a limit does not pass to the next command in the same cgroup")
{
	struct exec_spec spec = spec_of("sleep 0.3 >/dev/null 2>&1 &");
	struct box *first = box;

	CHECK_OK(build("real", &box)); // with one cgroup, which both get
	spec.cpu_ms = 100;
	CHECK_OK(run(&spec));
	CHECK_OK(task_sleep_until(in(500)));
	CHECK_OK(sh("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo end"));
	printf("# %lu ms\n", (unsigned long)result.cpu_ms);
	CHECK(result.cpu_ms > 100 && result.ending == ENDING_EXITED);
	CHECK_STR(out, "end\n");
	CHECK_OK(box_destroy(box, in(5000)));
	box_free(box);
	box = first;
}

BOX_TEST(oom, "a kill by the OOM killer is reported as oom")
{
	if (access(FAKE_WARDEN_MEMORY "/memory.limit_in_bytes", F_OK) < 0) {
		printf("# skip: no v1 memory controller\n");
		return;
	}
	CHECK_OK(sh("exec perl -e '$x = \"a\" x (300 << 20); sleep 1'"));
	CHECK(result.ending == ENDING_OOM && result.exit_code == 137);
	CHECK_OK(sh("kill -9 $$"));
	CHECK(result.ending == ENDING_SIGNALED && result.signal == SIGKILL);
}

static void kill_soon(void *arg)
{
	err_free(task_sleep_until(in(100)));
	exec_kill(arg);
}

BOX_TEST(killed, "an exec that the API kills ends as killed, with its tree")
{
	struct exec_spec spec = spec_of("setsid sleep 71 & sleep 72");
	struct exec *exec = NULL;

	CHECK_OK(exec_start(box, &spec, &exec));
	CHECK(exec_pid(exec) > 1 && box_execs(box) == 1);
	task_start(fixture.loop, "kill", kill_soon, exec);
	CHECK_OK(exec_wait(exec, in(5000), &result));
	CHECK(result.ending == ENDING_KILLED_BY_API);
	exec_unref(exec);
	CHECK(is_gone("sleep 7[12]"));
}

static int finished;

static void one_exec(void *arg)
{
	static const char *const argv[] = {"true", NULL};
	struct exec_spec spec = spec_of("");
	struct exec_result mine;
	struct exec *exec = NULL;
	auto_err err = OK;

	(void)arg;
	spec.shell = false;
	spec.argv = argv;
	err = exec_start(box, &spec, &exec);
	if (!err)
		err = exec_wait(exec, in(20000), &mine);
	if (err)
		printf("# %s\n", err_trail(err));
	finished += !err && mine.ending == ENDING_EXITED && mine.exit_code == 0;
	exec_unref(exec);
}

static bool await_kills(int count)
{
	for (int64_t until = in(20000);
	     fake_warden_kill->asked < count && loop_now(fixture.loop) < until;)
		err_free(task_sleep_until(in(1)));
	return fake_warden_kill->asked >= count;
}

BOX_TEST(unasked_kill, "a kill that could not be sent is repeated, and the box lives on")
{
	struct exec_spec spec = spec_of("sleep 1234 & echo up; sleep 1234");
	struct exec *exec = NULL;
	int links = (int)ask_links(fixture.ask);

	fake_warden_kill->mode = FAKE_WARDEN_HANGS_UP;
	fake_warden_kill->asked = 0;
	CHECK_OK(exec_start(box, &spec, &exec));
	exec_kill(exec);
	CHECK(await_kills(3) && (int)ask_links(fixture.ask) > links);
	CHECK(box_is_alive(box));
	// Longer than pid 1 may take to report an end: nothing has ended, and nothing is told.
	CHECK_ERR(exec_wait(exec, in(6000), &result), TIMEOUT);
	fake_warden_kill->mode = FAKE_WARDEN_KILLS;
	CHECK_OK(exec_wait(exec, in(20000), &result));
	CHECK(result.ending == ENDING_KILLED_BY_API && result.signal == SIGKILL);
	exec_unref(exec);
	CHECK(is_gone("^sleep 1234"));
	CHECK(box_is_alive(box));
}

BOX_TEST(unasked_cgroup,
	 "while a kill has no answer no new cgroup is ordered, which could get its number")
{
	struct exec_spec spec = spec_of("sleep 1236");
	struct exec *execs[BOX_CGROUPS_MAX], *killed = NULL;
	int count = 0;

	CHECK_OK(exec_start(box, &spec, &killed));
	while (!link_empty(&box->clean) || !link_empty(&box->doubt))
		CHECK_OK(exec_start(box, &spec, &execs[count++]));
	fake_warden_kill->mode = FAKE_WARDEN_HANGS_UP;
	fake_warden_kill->asked = 0;
	fake_warden_kill->overtaken = false;
	exec_kill(killed);
	CHECK(await_kills(2));
	finished = 0;
	task_start(fixture.loop, "one", one_exec, NULL);
	CHECK(await_kills(5) && finished == 0);
	fake_warden_kill->mode = FAKE_WARDEN_KILLS;
	for (int64_t until = in(20000); !finished && loop_now(fixture.loop) < until;)
		CHECK_OK(task_sleep_until(in(1)));
	CHECK(finished == 1 && !fake_warden_kill->overtaken);
	execs[count++] = killed;
	while (count > 0) {
		exec_kill(execs[--count]);
		CHECK_OK(exec_wait(execs[count], in(20000), &result));
		exec_unref(execs[count]);
	}
}

BOX_TEST(unkillable, "a cgroup that the kernel cannot kill breaks its box")
{
	struct exec_spec spec = spec_of("sleep 1235");
	struct exec *exec = NULL;
	struct box *kept = box;

	CHECK_OK(build("real", &box));
	CHECK_OK(exec_start(box, &spec, &exec));
	fake_warden_kill->mode = FAKE_WARDEN_REFUSES;
	exec_kill(exec);
	CHECK_OK(exec_wait(exec, in(20000), &result));
	fake_warden_kill->mode = FAKE_WARDEN_KILLS;
	CHECK(!box_is_alive(box));
	exec_unref(exec);
	CHECK_OK(box_destroy(box, in(20000)));
	box_free(box);
	box = kept;
}

BOX_TEST(parallel, "a hundred commands at once all end well, each in its own cgroup")
{
	finished = 0;
	for (int i = 0; i < 100; i++)
		task_start(fixture.loop, "exec", one_exec, NULL);
	for (int i = 0; i < 200 && (finished < 100 || box_execs(box) > 0); i++)
		CHECK_OK(task_sleep_until(in(50)));
	CHECK(finished == 100);
}

static void spawn_bare(void)
{
	char name[] = "true";
	char *argv[] = {name, NULL}, *env[] = {NULL};
	pid_t pid;

	if (posix_spawn(&pid, "/usr/bin/true", NULL, NULL, argv, env) == 0)
		waitpid(pid, NULL, 0);
}

BOX_TEST(lean, "an exec costs little more than a bare spawn")
{
	enum { ROUNDS = 300 };
	int64_t ours = INT64_MAX, bare = INT64_MAX;

	// The best of several short runs: what the machine can do, not what else it does.
	for (int i = 0; i < 10; i++) {
		int64_t start = clock_us(), middle;

		finished = 0;
		for (int j = 0; j < ROUNDS / 10; j++)
			one_exec(NULL);
		middle = clock_us();
		CHECK(finished == ROUNDS / 10);
		for (int j = 0; j < ROUNDS / 10; j++) {
			spawn_bare();
		}
		if (middle - start < ours)
			ours = middle - start;
		if (clock_us() - middle < bare)
			bare = clock_us() - middle;
	}
	printf("# %ld us an exec, %ld us bare\n", (long)(ours * 10 / ROUNDS),
	       (long)(bare * 10 / ROUNDS));
	CHECK(ours < bare * 10);
}

// Until every exec has gone, and with it the fds that its end frees.
static void settle(void)
{
	for (int i = 0; i < 100 && box_execs(box) > 0; i++)
		CHECK_OK(task_sleep_until(in(50)));
	for (int fds = 0; fds != count_fds();) {
		fds = count_fds();
		CHECK_OK(task_sleep_until(in(300)));
	}
}

BOX_TEST(no_files, "without free fds a command does not start, and the box lives on")
{
	struct exec_spec spec = spec_of("sleep 778");

	for (int more = 0; more < 2; more++) {
		struct exec *exec = NULL;
		struct rlimit old;
		auto_err err = OK;

		settle();
		fake_warden_fill(&old, more);
		err = exec_start(box, &spec, &exec);
		setrlimit(RLIMIT_NOFILE, &old);
		if (!err)
			printf("# %d: started, %d fds\n", more, count_fds());
		exec_unref(exec);
		CHECK(err && err_kind(err) == ERR_EXHAUSTED);
		CHECK_STR(err_reason(err), ASK_NO_FILES);
		CHECK(box_is_alive(box));
	}
	CHECK(is_gone("sleep 77[8]"));
	CHECK_OK(sh("echo alive"));
	CHECK_STR(out, "alive\n");
	settle();
	CHECK(box_execs(box) == 0);
}

static void on_lost(struct box *which, void *arg)
{
	(void)which;
	(void)arg;
	lost_boxes++;
}

BOX_TEST(destroyed, "destroying a box ends its execs as killed, and reports no loss")
{
	struct exec_spec spec = spec_of("echo begun; sleep 60");
	struct exec *exec = NULL;

	box_on_loss(box, on_lost, NULL);
	CHECK_OK(exec_start(box, &spec, &exec));
	CHECK_OK(task_sleep_until(in(100)));
	CHECK_OK(box_destroy(box, in(10000)));
	CHECK_OK(box_destroy(box, in(10000)));
	CHECK_OK(exec_wait(exec, in(1000), &result));
	CHECK(result.ending == ENDING_KILLED_BY_API);
	CHECK_OK(read_tape(exec_tape(exec)));
	CHECK_STR(out, "begun\n");
	CHECK(!box_is_alive(box) && lost_boxes == 0);
	box_free(box); // before the exec that still holds it
	exec_unref(exec);
}

BOX_TEST(evil, "a pid 1 that breaks the protocol loses its box, and nothing else")
{
	static const int rules[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14};

	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
		int rule = rules[i];
		struct exec_spec spec = spec_of("true");
		struct exec *exec = NULL;
		char name[32];
		auto_err err = OK;

		snprintf(name, sizeof(name), "evil-%d", rule);
		CHECK_OK(build(name, &box));
		lost_boxes = 0;
		box_on_loss(box, on_lost, NULL);
		err = exec_start(box, &spec, &exec);
		if (!err)
			err = exec_wait(exec, in(5000), &result);
		printf("# rule %d: %s\n", rule, err ? err_reason(err) : ending_word(result.ending));
		CHECK(err ? strcmp(err_reason(err), "box_lost") == 0
			  : result.ending == ENDING_BOX_LOST);
		CHECK(lost_boxes == 1 && !box_is_alive(box));
		CHECK_ERR(exec_start(box, &spec, &exec), UNAVAILABLE);
		exec_unref(exec);
		CHECK_OK(box_destroy(box, in(5000)));
		box_free(box);
	}
}

BOX_TEST(silent, "a pid 1 that reports no exit delays no result")
{
	struct exec_spec spec = spec_of("true");
	struct exec *exec = NULL;

	CHECK_OK(build("evil-9", &box));
	CHECK_OK(exec_start(box, &spec, &exec));
	exec_kill(exec);
	CHECK_OK(exec_wait(exec, in(8000), &result));
	CHECK(result.ending == ENDING_KILLED_BY_API && box_is_alive(box));
	exec_unref(exec);
	CHECK_OK(box_destroy(box, in(5000)));
	box_free(box);
}

BOX_TEST(late_report, "a pid 1 that reports an end late keeps its box")
{
	struct exec_spec spec = spec_of("true");
	struct exec *exec = NULL;

	CHECK_OK(build("evil-11", &box));
	CHECK_OK(exec_start(box, &spec, &exec));
	exec_kill(exec);
	CHECK_OK(exec_wait(exec, in(8000), &result));
	CHECK(result.ending == ENDING_KILLED_BY_API);
	exec_unref(exec);
	CHECK_OK(task_sleep_until(in(3000)));
	CHECK(box_is_alive(box) && box_execs(box) == 0);
	CHECK_OK(box_destroy(box, in(5000)));
	box_free(box);
}

BOX_TEST(always_busy, "a pid 1 that calls every cgroup busy blocks no caller")
{
	struct exec_spec spec = spec_of("true");
	struct exec *exec = NULL;

	CHECK_OK(build("evil-10", &box));
	CHECK_ERR(exec_start(box, &spec, &exec), EXHAUSTED);
	CHECK(box_execs(box) == 0);
	CHECK_OK(box_destroy(box, in(5000)));
	box_free(box);
}

BOX_TEST(absent, "a box that is refused leaves nothing behind")
{
	CHECK_ERR(build("absent", &box), NOT_FOUND);
}

TEST(closes, "the fixture closes: no task is left, and no fd")
{
	fixture_close();
	CHECK(task_count() == 0);
	CHECK(count_fds() == fds_before);
}
