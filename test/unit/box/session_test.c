// Sessions in a real box: a real bash behind the real pid 1.
#include "box/session.h"

#include "base/mem.h"
#include "protocol/shell.h"
#include "unit/box/fake_warden.h"

static struct box *box;
static struct session_result result;
static char out[1 << 20], err_out[1 << 16];
static int fds_before;

static const char *const env[] = {"PATH=/usr/bin:/bin", "HOME=/var", "LC_ALL=C.UTF-8", "GIVEN=it's",
				  NULL};

static int64_t in(int64_t ms)
{
	return loop_now(fixture.loop) + ms;
}

static struct session_spec spec_at(const char *cwd)
{
	return (struct session_spec){
		.env = env, .cwd = cwd, .output_cap = 1 << 20, .cpu_milli = 2000};
}

static int count_fds(void)
{
	int fds = 0;

	for (int fd = 3; fd < 2048; fd++)
		fds += fcntl(fd, F_GETFD) >= 0;
	return fds;
}

struct sink {
	char *at;
	size_t len, size;
};

static void pour(void *arg, const char *bytes, size_t len)
{
	struct sink *sink = arg;

	if (sink->len + len < sink->size)
		memcpy(sink->at + sink->len, bytes, len);
	sink->len += len;
	sink->at[sink->len < sink->size ? sink->len : sink->size - 1] = 0;
}

static fallible read_tape(struct tape *tape)
{
	static char room[4096];
	struct sink sinks[2] = {{out, 0, sizeof(out)}, {err_out, 0, sizeof(err_out)}};
	struct shell_filter filters[2] = {
		{.give = pour, .arg = &sinks[0]},
		{.give = pour,
		 .arg = &sinks[1],
		 .remarks = true,
		 .jobs = result.has_jobs,
		 .left = result.end == SESSION_TERMINATED},
	};
	uint64_t offset = 0;
	size_t n;

	out[0] = err_out[0] = 0;
	do {
		enum tape_stream stream = TAPE_STDOUT;

		TRY(tape_read(tape, &offset, &stream, room, sizeof(room), &n, in(10000)));
		shell_sift(&filters[stream], room, n);
	} while (n > 0);
	shell_sift_end(&filters[0]);
	shell_sift_end(&filters[1]);
	return OK;
}

static fallible run_job(const char *id, const struct session_job *job)
{
	struct session_spec spec = spec_at("/tmp");
	auto_session session = NULL;
	auto_session_run run = NULL;

	TRY(session_take(box, str_of(id), &spec, &session));
	TRY(session_run(session, job, &run));
	TRY(session_run_wait(run, in(20000), &result));
	return read_tape(session_run_tape(run));
}

static fallible run(const char *id, const char *command)
{
	struct session_job job = {.command = str_of(command)};

	return run_job(id, &job);
}

// A command in session "a", its exit code and output.
static bool gives(const char *command, int code, const char *to_out, const char *to_err)
{
	auto_err err = run("a", command);
	bool same = !err && result.end == SESSION_DONE && result.exit_code == code &&
		    !strcmp(out, to_out) && !strcmp(err_out, to_err);

	if (!same)
		printf("# %.80s: %s: end %d code %d out '%.80s' err '%.80s'\n", command,
		       err ? err_trail(err) : "", result.end, result.exit_code, out, err_out);
	return same;
}

// A command that ends the shell of session "a".
static bool ends(const char *command, int code, const char *to_out, const char *to_err)
{
	auto_err err = run("a", command);
	bool same = !err && result.end == SESSION_TERMINATED && result.exit_code == code &&
		    !strcmp(out, to_out) && !strcmp(err_out, to_err);

	if (!same)
		printf("# %.80s: %s: end %d code %d out '%.80s' err '%.80s'\n", command,
		       err ? err_trail(err) : "", result.end, result.exit_code, out, err_out);
	return same;
}

TEST(opens, "the fixture opens")
{
	fds_before = count_fds();
	CHECK(fixture_open());
}

BOX_TEST(keeps, "a session keeps directory, variables, functions, options and the last status")
{
	struct order order = {.kind = ORDER_BUILD, .host = "box", .limits = LIMITS_DEFAULT};

	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	snprintf(order.name, sizeof(order.name), "real");
	id_box(order.box);
	CHECK_OK(box_build(fixture.loop, fixture.ask, &order, fixture.tapes, &box));
	CHECK(gives("pwd; echo $GIVEN; echo \"[$HISTFILE][$OLDPWD][$?]\"", 0, "/tmp\nit's\n[][][0]",
		    ""));
	CHECK(gives("cd /usr; x=5; export Y=6; f() { echo f $1; }; set -f; alias ll='echo LL'", 0,
		    "", ""));
	CHECK(gives("pwd; echo $x; sh -c 'echo $Y'; f 1; echo *; ll; set +f; false", 1,
		    "/usr\n5\n6\nf 1\n*\nLL", ""));
	CHECK(gives("echo $?", 0, "1", ""));
	CHECK(gives("", 0, "", ""));
	CHECK(gives("# a remark", 0, "", ""));
	CHECK(gives("history; jobs", 0, "", ""));
}

BOX_TEST(streams, "stdout and stderr are separate, one newline is removed, stdin is at end of file")
{
	CHECK(gives("echo o; echo e >&2", 0, "o", "e"));
	CHECK(gives("printf 'a\\n\\n'; printf 'b\\n' >&2", 0, "a\n", "b"));
	CHECK(gives("cat; read x; echo $?", 0, "1", ""));
	CHECK(gives("cat <<E\none\ntwo\nE\necho '1\n2'", 0, "one\ntwo\n1\n2", ""));
	CHECK(gives("nosuchcommand", 127, "", "bash: nosuchcommand: command not found"));
	CHECK(gives("sh -c 'kill -9 $$'", 137, "", ""));
	CHECK(gives("ls /proc/self/fd | tr '\\n' ' '", 0, "0 1 2 3 ", ""));
}

BOX_TEST(odd_lines,
	 "syntax errors and unclosed quotes end their command; the next one is unaffected")
{
	CHECK(gives("echo 'abc", 2, "", "bash: unexpected EOF while looking for matching `''"));
	CHECK(gives("echo ok", 0, "ok", ""));
	CHECK(gives("if then", 2, "", "bash: syntax error near unexpected token `then'"));
	CHECK(gives("echo \"$(", 1, "", "bash: syntax error near unexpected token `}'"));
	CHECK(gives("echo a\\", 0, "a", ""));
	CHECK(gives("echo ${nope?}; echo no", 1, "", "bash: nope: parameter not set"));
	CHECK(gives("echo still", 0, "still", ""));
	CHECK(gives("unset PWD; PWD=x; set -u", 0, "", ""));
	CHECK(gives("set +u; cd /tmp; echo $PWD", 0, "/tmp", ""));
	CHECK(gives("exec >&-; echo x", 1, "", "bash: echo: write error: Bad file descriptor"));
	CHECK(gives("exec 2>/dev/null >/dev/null; echo x", 0, "", ""));
	CHECK(gives("echo y", 0, "y", ""));
	CHECK(gives("trap 'echo T' DEBUG", 0, "", ""));
	CHECK(gives("trap - DEBUG", 0, "T", ""));
	CHECK(gives("alias eval=echo builtin=echo; unset -f __cove_end", 1, "",
		    "bash: unset: __cove_end: cannot unset: readonly function"));
	CHECK(gives("unalias eval builtin; echo z", 0, "z", ""));
	CHECK(gives("set -x; true; set +x", 0, "", "++ true\n++ set +x"));
	CHECK(gives("kill -TERM $$; echo alive", 0, "alive", ""));
}

BOX_TEST(per_command, "cwd and env of a command are its own; the session's are restored")
{
	struct env_map env_map = {0};
	struct session_job job = {.command = STR("pwd; echo $A; sh -c 'echo \"$B\"'; cd /etc"),
				  .cwd = "/usr",
				  .env = &env_map};

	env_map_set(&env_map, STR("A"), STR("it's"));
	env_map_set(&env_map, STR("B"), STR("x\ny"));
	CHECK(gives("cd /tmp; cd /; cd /tmp; A=1", 0, "", ""));
	CHECK_OK(run_job("a", &job));
	CHECK(result.exit_code == 0);
	CHECK_STR(out, "/usr\nit's\nx\ny");
	CHECK(gives("pwd; echo $A [$B] $OLDPWD", 0, "/tmp\n1 [] /", ""));
	job.cwd = "/no/su'ch";
	CHECK_OK(run_job("a", &job));
	CHECK(result.end == SESSION_DONE && result.exit_code == 1);
	CHECK_STR(err_out, "Failed to change directory to '/no/su'ch'");
	CHECK(gives("set -e", 0, "", ""));
	CHECK_OK(run_job("a", &job));
	CHECK(result.end == SESSION_DONE && result.exit_code == 1);
	CHECK(gives("set +e; pwd", 0, "/tmp", ""));
	job.cwd = "../usr";
	CHECK_OK(run_job("a", &job));
	CHECK(!strncmp(out, "/usr\n", 5));
	env_map_done(&env_map);
}

BOX_TEST(endings,
	 "the end of a shell is reported with its status; the next command gets a new shell")
{
	CHECK(ends("v=1; echo o; echo e >&2; exit 3", 3, "o", "e"));
	CHECK(gives("echo [$v]; pwd", 0, "[]\n/tmp", ""));
	CHECK(ends("set -e; false; echo no", 1, "", ""));
	CHECK(ends("exec sh -c 'echo x; exit 5'", 5, "x", ""));
	CHECK(ends("kill -9 $$", 137, "", ""));
	CHECK(gives("echo (; exit 4", 2, "", "bash: syntax error near unexpected token `;'"));
	CHECK(gives("echo new", 0, "new", ""));
	CHECK(ends("(sleep 0.3; echo late) & exit 0", 0, "", ""));
	CHECK(gives("sleep 0.6; echo mine", 0, "mine", ""));
}

BOX_TEST(jobs, "background jobs delay nothing, and their later output is not the next command's")
{
	int64_t begun = clock_ms();
	auto_session session = NULL;
	uint64_t offset = 0;
	char room[64];
	enum tape_stream stream;
	size_t got = 0;

	CHECK(gives("(sleep 0.4; echo late) & echo now", 0, "now", ""));
	CHECK(result.has_jobs && clock_ms() - begun < 350);
	CHECK(gives("echo one", 0, "one", ""));
	CHECK_OK(task_sleep_until(in(700)));
	CHECK(gives("echo two", 0, "two", ""));
	session = session_find(box, STR("a"));
	CHECK(session != NULL);
	// The first "late" is of the shell that had exited.
	CHECK_OK(tape_read(session_tape(session), &offset, &stream, room, sizeof(room), &got,
			   in(3000)));
	CHECK(got == 10 && !memcmp(room, "late\nlate\n", 10));
	CHECK_OK(run("a", "while :; do echo y; sleep 0.01; done & sleep 0.2"));
	CHECK(result.end == SESSION_DONE && out[0] == 'y');
	CHECK_OK(run("a", "kill $!; wait $! 2>/dev/null; echo end >&2"));
	CHECK_STR(err_out, "end");
	CHECK(gives("echo quiet", 0, "quiet", ""));
}

BOX_TEST(fifo, "commands of a session run in order of arrival, sessions in parallel")
{
	enum { COUNT = 8 };
	struct session_spec spec = spec_at("/tmp");
	struct session_run *runs[COUNT];
	auto_session session = NULL;
	int64_t begun;
	char command[64];

	CHECK_OK(session_take(box, STR("a"), &spec, &session));
	CHECK(gives("log=", 0, "", ""));
	for (int i = 0; i < COUNT; i++) {
		struct session_job job;

		snprintf(command, sizeof(command), "sleep 0.0%d; log=${log}%d; echo $log",
			 COUNT - i, i);
		job = (struct session_job){.command = str_of(command)};
		CHECK_OK(session_run(session, &job, &runs[i]));
	}
	for (int i = COUNT - 1; i >= 0; i--) {
		CHECK_OK(session_run_wait(runs[i], in(5000), &result));
		CHECK_OK(read_tape(session_run_tape(runs[i])));
		CHECK(strlen(out) == (size_t)i + 1 && !strncmp(out, "01234567", (size_t)i + 1));
		session_run_drop(runs[i]);
	}
	begun = clock_ms();
	for (int i = 0; i < COUNT; i++) {
		struct session_job job = {.command = STR("sleep 0.5")};
		auto_session one = NULL;

		snprintf(command, sizeof(command), "side-%d", i);
		CHECK_OK(session_take(box, str_of(command), &spec, &one));
		CHECK_OK(session_run(one, &job, &runs[i]));
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK_OK(session_run_wait(runs[i], in(5000), &result));
		session_run_drop(runs[i]);
	}
	CHECK(clock_ms() - begun < 2500);
}

BOX_TEST(dropped,
	 "a running command without a waiter runs on; one dropped in the queue does not run")
{
	struct session_spec spec = spec_at("/tmp");
	struct session_job first = {.command = STR("sleep 0.2; mark=ran")};
	struct session_job second = {.command = STR("mark=$mark-twice")};
	auto_session session = NULL;
	struct session_run *runs[2];

	CHECK_OK(session_take(box, STR("a"), &spec, &session));
	CHECK_OK(session_run(session, &first, &runs[0]));
	CHECK_OK(session_run(session, &second, &runs[1]));
	session_run_drop(runs[0]);
	session_run_drop(runs[1]);
	CHECK(gives("echo $mark", 0, "ran", ""));
}

static bool times_out(const char *command, bool restarts)
{
	struct session_job job = {.command = str_of(command), .timeout_ms = 200};
	int64_t begun = clock_ms();
	auto_err err = run_job("t", &job);

	if (!err && result.end == SESSION_TIMED_OUT && result.restarted == restarts &&
	    clock_ms() - begun < 2500)
		return true;
	printf("# %s: %s end %d restarted %d after %lld ms\n", command, err ? err_trail(err) : "",
	       result.end, result.restarted, (long long)(clock_ms() - begun));
	return false;
}

static fallible count_sleepers(const char *which)
{
	char script[64];

	snprintf(script, sizeof(script), "pgrep -fc '^sleep %s'", which);
	return run("count", script);
}

BOX_TEST(timeouts, "a time-out ends the command with what it started, and the session goes on")
{
	CHECK_OK(run("t", "state=kept; sleep 7771 & cd /usr"));
	CHECK_OK(task_sleep_until(in(50))); // the kernel counts starts in hundredths of a second
	CHECK(times_out("echo some; sleep 7772; echo no", false));
	CHECK_STR(out, "some");
	CHECK(times_out("while :; do :; done", false));
	CHECK(times_out("while :; do sleep 0.01; done", false));
	CHECK(times_out("trap '' INT; sh -c 'trap \"\" INT TERM; sleep 7773; sleep 7774'", false));
	CHECK_OK(run("t", "trap - INT; echo $state $PWD"));
	CHECK_STR(out, "kept /usr");
	CHECK(times_out("setsid sleep 7775 & setsid -w sleep 7776", false));
	CHECK(times_out("(trap '' INT; sleep 7777) & cat /dev/zero >/dev/null", false));
	CHECK_OK(count_sleepers("777[2-7]"));
	CHECK_STR(out, "0");
	CHECK_OK(count_sleepers("7771"));
	CHECK_STR(out, "1");
	CHECK(times_out("trap '' INT; while :; do :; done", true));
	CHECK_OK(run("t", "echo [$state]; pwd"));
	CHECK_STR(out, "[]\n/tmp");
	CHECK_OK(count_sleepers("7771"));
	CHECK_STR(out, "0");
}

BOX_TEST(cpu, "a CPU limit ends the one command that used it up")
{
	struct session_job job = {.command = STR("while :; do :; done"), .cpu_ms = 100};

	CHECK_OK(run("t", "kept=1"));
	CHECK_OK(run_job("t", &job));
	CHECK(result.end == SESSION_DONE && result.ending == ENDING_CPU_LIMIT);
	job.command = STR("echo $kept");
	CHECK_OK(run_job("t", &job));
	CHECK(result.ending == ENDING_EXITED);
	CHECK_STR(out, "1");
	CHECK_OK(run("t", "for ((i = 0; i < 300000; i++)); do :; done; echo done"));
	CHECK_STR(out, "done");
}

BOX_TEST(floods, "a flood is cut at the cap, and the session goes on")
{
	CHECK_OK(run("a", "head -c 3000000 /dev/zero | tr '\\0' x; echo e >&2"));
	CHECK(result.end == SESSION_DONE && result.exit_code == 0);
	CHECK(result.stdout_truncated);
	CHECK(gives("echo after", 0, "after", ""));
	CHECK_OK(run("a", "head -c 300000 /dev/zero | tr '\\0' x"));
	CHECK(!result.stdout_truncated && strlen(out) == 300000);
}

BOX_TEST(large, "a large command is one command")
{
	size_t size = 1 << 20;
	static const char start[] = "echo '$x`\"\\!' #";
	char *command = mem_grow(NULL, size + 1, 1);

	memset(command, '\'', size);
	memcpy(command, start, strlen(start));
	command[size] = 0;
	CHECK(gives(command, 0, "$x`\"\\!", ""));
	free(command);
}

BOX_TEST(liars, "a shell that breaks the dialogue is replaced")
{
	auto_session session = NULL;

	CHECK_OK(run("liar", "true"));
	// A subshell has copies of the socket. It is another process: its messages are ignored.
	CHECK_OK(run("liar", "(for n in {3..30}; do [ -S /proc/self/fd/$n ] && "
			     "printf '0 1 2 /\\0' >&$n; done; exit 3); echo $?; (exit 4)"));
	CHECK(result.end == SESSION_DONE && result.exit_code == 4);
	CHECK_STR(out, "3");
	CHECK_OK(run("liar", "(for n in {3..30}; do [ -S /proc/self/fd/$n ] && "
			     "for i in {1..10}; do printf %65536d 1 >&$n; done; done); echo no"));
	CHECK(result.end == SESSION_TERMINATED && result.exit_code == 137);
	CHECK_OK(run("liar", "for n in {3..30}; do [ -S /proc/self/fd/$n ] && "
			     "printf '0 1 2 /\\0' >&$n; done; sleep 1; echo no"));
	CHECK(result.end == SESSION_TERMINATED && result.exit_code == 137);
	CHECK_OK(run("liar", "echo back"));
	CHECK_STR(out, "back");
	session = session_find(box, STR("liar"));
	CHECK(session && session_is_alive(session));
	CHECK_OK(session_delete(session, false));
}

BOX_TEST(created, "a session is created once, and again when its shell has ended")
{
	struct session_spec spec = spec_at("/no/such/place");
	auto_session session = NULL;
	auto_session other = NULL;

	CHECK_OK(session_create(box, STR("made"), &spec, &session));
	CHECK_STR(session_cwd(session), "/var");
	CHECK_ERR(session_create(box, STR("made"), &spec, &other), CONFLICT);
	CHECK_OK(run("made", "exit 0"));
	CHECK(!session_is_alive(session));
	CHECK_OK(session_create(box, STR("made"), &spec, &other));
	CHECK(session_is_alive(session) && other == session);
	CHECK_ERR(session_take(box, STR(" \t"), &spec, &other), INVALID);
	CHECK_ERR(session_take(box, STR(SESSION_NONE), &spec, &other), INVALID);
}

BOX_TEST(deleted, "a delete waits for the running command, and kills background jobs")
{
	struct session_spec spec = spec_at("/tmp");
	struct session_job job = {.command = STR("sleep 0.3; echo whole")};
	auto_session session = NULL;
	struct session_run *first, *second;

	CHECK_OK(run("gone", "sleep 7778 &"));
	CHECK_OK(session_take(box, STR("gone"), &spec, &session));
	CHECK_OK(session_run(session, &job, &first));
	CHECK_OK(session_delete(session, false));
	CHECK_OK(session_run_wait(first, in(0), &result));
	CHECK(result.end == SESSION_DONE);
	session_run_drop(first);
	CHECK(session_find(box, STR("gone")) == NULL);
	CHECK_ERR(session_run(session, &job, &second), GONE);
	CHECK_OK(count_sleepers("7778"));
	CHECK_STR(out, "0");
}

BOX_TEST(deleted_now, "an immediate delete ends the running and the queued commands")
{
	struct session_spec spec = spec_at("/tmp");
	struct session_job job = {.command = STR("sleep 100")};
	auto_session session = NULL;
	struct session_run *first, *second;

	CHECK_OK(run("gone", "true"));
	CHECK_OK(session_take(box, STR("gone"), &spec, &session));
	CHECK_OK(session_run(session, &job, &first));
	CHECK_OK(session_run(session, &job, &second));
	CHECK_OK(session_delete(session, true));
	CHECK_OK(session_run_wait(first, in(0), &result));
	CHECK(result.end == SESSION_DESTROYED);
	CHECK_OK(session_run_wait(second, in(0), &result));
	CHECK(result.end == SESSION_DESTROYED);
	session_run_drop(first);
	session_run_drop(second);
}

BOX_TEST(changes, "a change of the box's environment reaches live sessions and new shells")
{
	CHECK_OK(run("env", "false"));
	session_set_env(box, STR("NEWS"), "it's new");
	session_set_env(box, STR("GIVEN"), NULL);
	CHECK_OK(run("env", "echo $? $NEWS [$GIVEN]; sh -c 'echo $NEWS'"));
	CHECK_STR(out, "1 it's new []\nit's new");
	CHECK_OK(run("env", "exit"));
	CHECK_OK(run("env", "echo $NEWS [$GIVEN]"));
	CHECK_STR(out, "it's new []");
}

BOX_TEST(preludes, "a prelude gives another bash the state of the session")
{
	auto_session session = NULL;
	struct session_spec spec = spec_at("/tmp");
	auto_buf prelude = BUF_INIT(1 << 20), script = BUF_INIT(1 << 20),
		 quoted = BUF_INIT(4 << 20);

	CHECK_OK(session_take(box, STR("pre"), &spec, &session));
	CHECK_OK(session_prelude(session, &prelude));
	CHECK(prelude.len == 0);
	CHECK_OK(run("pre",
		     "cd /usr; v=\"it's\"; a=(1 '2 3'); f() { echo \"f $1\"; }; export E=e; "
		     "alias ll='echo LL'; shopt -s nullglob; set -f; umask 077; set -- p 'q r'; "
		     "false"));
	CHECK_OK(session_prelude(session, &prelude));
	CHECK(prelude.len > 0);
	shell_wrap(&script, buf_view(&prelude), NULL, NULL,
		   STR("pwd; echo $v ${a[1]} $#$2; f x; ll; sh -c 'echo $E'; shopt nullglob; "
		       "echo $-; umask; echo done >&2"));
	shell_quote(&quoted, buf_view(&script));
	CHECK(buf_ok(&quoted));
	{
		auto_free char *command = mem_fmt("bash -c " STR_FMT, STR_ARG(buf_view(&quoted)));

		CHECK_OK(run("other", command));
	}
	CHECK_STR(out, "/usr\nit's 2 3 2q r\nf x\nLL\ne\nnullglob       \ton\nfhBc\n0077");
	CHECK_STR(err_out, "done");
	CHECK_OK(run("pre", "echo $?"));
	CHECK_STR(out, "1");
	CHECK_OK(run("pre", "big=$(head -c 9000000 /dev/zero | tr '\\0' x)"));
	CHECK_ERR(session_prelude(session, &prelude), TOO_LARGE);
}

BOX_TEST(quick, "a builtin takes well under a millisecond")
{
	enum { COUNT = 400 };
	int64_t begun;

	CHECK_OK(run("quick", ":"));
	begun = clock_us();
	for (int i = 0; i < COUNT; i++)
		CHECK_OK(run("quick", ":"));
	printf("# %lld us a builtin\n", (long long)(clock_us() - begun) / COUNT);
	CHECK((clock_us() - begun) / COUNT < 5000);
}

static void count_one(struct session *session, void *arg)
{
	(void)session;
	++*(int *)arg;
}

BOX_TEST(many, "sixty-four sessions work at once, and all can be deleted")
{
	enum { COUNT = 64 };
	struct session_spec spec = spec_at("/tmp");
	struct session_job job = {.command = STR("for i in 1 2 3; do /bin/true; done; echo $$")};
	static struct session_run *runs[COUNT];
	int64_t begun = clock_ms();
	int count = 0;
	char id[32];

	for (int i = 0; i < COUNT; i++) {
		auto_session session = NULL;

		snprintf(id, sizeof(id), "many-%d", i);
		CHECK_OK(session_take(box, str_of(id), &spec, &session));
		CHECK_OK(session_run(session, &job, &runs[i]));
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK_OK(session_run_wait(runs[i], in(30000), &result));
		CHECK(result.end == SESSION_DONE && result.exit_code == 0);
		session_run_drop(runs[i]);
	}
	printf("# 64 sessions started and used in %lld ms\n", (long long)(clock_ms() - begun));
	session_each(box, count_one, &count);
	CHECK(count >= COUNT);
	for (int i = 0; i < COUNT; i++) {
		auto_session session = NULL;

		snprintf(id, sizeof(id), "many-%d", i);
		session = session_find(box, str_of(id));
		CHECK(session != NULL);
		CHECK_OK(session_delete(session, false));
	}
}

BOX_TEST(destroyed, "a box that ends ends its sessions, and their waiters get an error")
{
	struct session_spec spec = spec_at("/tmp");
	struct session_job job = {.command = STR("sleep 100")};
	auto_session session = NULL;
	struct session_run *first, *second;

	CHECK_OK(run("a", "true"));
	CHECK_OK(session_take(box, STR("a"), &spec, &session));
	CHECK_OK(session_run(session, &job, &first));
	CHECK_OK(session_run(session, &job, &second));
	CHECK_OK(box_destroy(box, in(5000)));
	CHECK_ERR(session_run_wait(first, in(1000), &result), UNAVAILABLE);
	CHECK_ERR(session_run_wait(second, in(1000), &result), UNAVAILABLE);
	session_run_drop(first);
	session_run_drop(second);
	box_free(box);
}

TEST(closes, "the fixture closes: no task is left, and no fd")
{
	fixture_close();
	CHECK(task_count() == 0);
	CHECK(count_fds() <= fds_before + 2); // pipes.c may keep a pipe of its own
}
