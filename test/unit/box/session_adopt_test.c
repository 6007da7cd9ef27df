// Adoption of sessions and terminals by the next daemon.
#include "box/box.h"
#include "box/exec_private.h"
#include "unit/box/lives.h"

TEST(opens, "the fixture opens; boxes outlive their daemon")
{
	fake_warden_holds_on = true;
	signal(SIGPIPE, SIG_IGN);
	snprintf(tapes_path, sizeof(tapes_path), "/tmp/cove-adopt-%d", getpid());
	CHECK(mkdir(tapes_path, 0700) == 0);
	fake_warden_open(&fixture.warden);
}

static bool answers(struct session *session, const char *command, const char *want)
{
	struct session_job job = {.command = str_of(command)};
	auto_session_run run = NULL;
	struct session_result result;
	auto_free char *out = NULL;
	size_t len;

	auto_err err = session_run(session, &job, &run);

	if (!err)
		err = session_run_wait(run, in(10000), &result);
	if (err) {
		printf("# '%s': %s\n", command, err_trail(err));
		return false;
	}
	out = all_of(session_run_tape(run), TAPE_STDOUT, &len);
	if (strcmp(out, want) != 0)
		printf("# '%s' says '%s'\n", command, out);
	return !strcmp(out, want);
}

static void first_session(int said)
{
	struct session_spec spec = session_spec();
	struct session_job job = {.command = STR("(exit 42)")};
	struct session_run *run;
	struct session *session, *busy, *fresh;
	struct session_result result;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(session_take(box, STR("idle"), &spec, &session));
	CHECK(answers(session, "cd /etc; X=kept; f() { echo $X; }; export GIVEN=changed", ""));
	CHECK_OK(session_run(session, &job, &run));
	CHECK_OK(session_run_wait(run, in(5000), &result));
	CHECK_OK(session_take(box, STR("busy"), &spec, &busy));
	CHECK(answers(busy, "Y=too", ""));
	job.command = STR("cd /var; echo lost; sleep 0.5; Y=done");
	CHECK_OK(session_run(busy, &job, &run));
	CHECK_OK(session_take(box, STR("fresh"), &spec, &fresh));
	job.command = STR("true");
	CHECK_OK(session_run(fresh, &job, &run)); // its shell may not even be greeted
	session_set_env(box, STR("LATER"), "set");
	err_free(task_sleep_until(in(30)));
}

static void add_id(struct session *session, void *arg)
{
	buf_fmt(arg, "%s ", session_id(session));
}

ADOPT_TEST(sessions, first_session, 0,
	   "sessions go on with their shells: state, directory, $?, and what is under way ends")
{
	auto_session idle = NULL;
	auto_session busy = NULL;
	auto_session fresh = NULL;
	auto_buf ids = BUF_INIT(64);

	CHECK_OK(adopt());
	session_each(box, add_id, &ids);
	CHECK_STR(ids.at, "idle busy fresh "); // oldest first, as before
	idle = session_find(box, STR("idle"));
	busy = session_find(box, STR("busy"));
	fresh = session_find(box, STR("fresh"));
	CHECK(idle && busy && fresh);
	CHECK(answers(idle, "echo $?; pwd; f; echo $GIVEN $LATER",
		      "42\n/etc\nkept\nchanged set\n"));
	CHECK_STR(session_cwd(idle), "/etc");
	CHECK_STR(session_env(idle)[1], "GIVEN=yes");
	CHECK(answers(busy, "echo $Y; pwd", "done\n/var\n"));
	CHECK(answers(fresh, "echo up; pwd", "up\n/usr\n"));
	CHECK_OK(session_delete(busy, false));
	end_box();
}

// pid 1 of the only box: the fake warden's child, and the fake warden made its socket.
static int first_process(void)
{
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);
	char path[64], text[64] = "";

	if (getsockopt(box->channel.watch.fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", peer.pid, peer.pid);
	return fd_get(AT_FDCWD, path, text, sizeof(text)) > 0 ? (int)strtol(text, NULL, 10) : 0;
}

static void first_owed(int said)
{
	struct session_spec spec = session_spec();
	struct session *session;
	struct exec *exec = NULL;
	uint32_t sender = 0;
	int pid;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(session_take(box, STR("owed"), &spec, &session));
	CHECK(answers(session, "Z=kept", ""));
	list_each (at, &box->execs) {
		exec = link_of(at, struct exec, link);
		if (exec->sender)
			break;
	}
	pid = first_process();
	CHECK(exec && exec->sender && pid > 0);
	if (tap_bad)
		return;
	sender = exec->sender;
	CHECK(kill(pid, SIGSTOP) == 0);
	for (uint32_t i = 1; i < 100000 && !exec->owes.label; i++)
		exec_label_sender(exec, sender + i);
	CHECK(exec->owes.label);
	exec_label_sender(exec, sender);
	CHECK(exec->owes.label);
	CHECK(kill(pid, SIGCONT) == 0);
	CHECK_OK(exec_await_label(exec, in(5000)));
}

ADOPT_TEST(owed, first_owed, 0, "a tag that a full socket did not take is told when it has room")
{
	auto_session session = NULL;

	CHECK_OK(adopt());
	session = session_find(box, STR("owed"));
	CHECK(session != NULL);
	CHECK(answers(session, "echo $Z", "kept\n")); // only the sender in the last label counts
	end_box();
}

static void first_huge(int said)
{
	struct session_spec spec = session_spec();
	static char huge[900000];
	struct session_job job = {.command = {huge, sizeof(huge)}};
	struct session_run *run;
	struct session *session;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(session_take(box, STR("huge"), &spec, &session));
	CHECK(answers(session, "X=1", ""));
	memset(huge, 'x', sizeof(huge));
	memcpy(huge, "sleep 9; : ", 11);
	CHECK_OK(session_run(session, &job, &run));
	err_free(task_sleep_until(in(1)));
}

ADOPT_TEST(huge, first_huge, 0, "a shell that has heard half of a command is replaced, not mended")
{
	auto_session session = NULL;

	CHECK_OK(adopt());
	session = session_find(box, STR("huge"));
	CHECK(session != NULL);
	CHECK(answers(session, "echo back; pwd", "back\n/usr\n"));
	end_box();
}

static fallible open_term(const char *id, const char *script, bool is_command, struct term **out)
{
	const char *argv[] = {"/bin/bash", "-c", script, NULL};
	struct exec_spec exec = {
		.argv = argv,
		.env = env,
		.cwd = "/",
		.user = "",
		.cols = 100,
		.rows = 30,
		.output_cap = 64 << 20,
	};
	struct term_spec spec = {
		.id = str_of(id),
		.is_command = is_command,
		.shown = str_of(script),
		.exec = &exec,
	};
	bool is_new;

	return term_open(box, &spec, out, &is_new);
}

static void first_term(int said)
{
	struct term *term;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(open_term("seq", "seq 1 20000; exec cat", true, &term));
	CHECK_OK(open_term("quiet", "stty -echo; read x; echo \"got $x\"; exit 5", true, &term));
	CHECK_OK(open_term("over", "echo bye; exit 6", true, &term));
	CHECK_OK(term_resize(term, 120, 40));
	while (!term_view(term).has_ended)
		CHECK_OK(task_sleep_until(in(5)));
}

static bool seq_is_whole(struct tape *tape, long last)
{
	uint64_t offset = 0;
	long want = 1, number = 0;

	while (want <= last) {
		static char room[4096];
		enum tape_stream stream;
		size_t got;

		if (tape_read(tape, &offset, &stream, room, sizeof(room), &got, in(5000)) || !got)
			return false;
		for (size_t i = 0; i < got; i++) {
			if (room[i] >= '0' && room[i] <= '9')
				number = number * 10 + room[i] - '0';
			if (room[i] != '\n')
				continue;
			if (number != want++) {
				printf("# %ld where %ld should be\n", number, want - 1);
				return false;
			}
			number = 0;
		}
	}
	return true;
}

static bool shows(struct term *term, const char *text, int64_t deadline)
{
	for (;;) {
		static char room[TERM_RING + 1];
		uint64_t at = term_kept(term), skipped;
		size_t len = term_read(term, &at, room, TERM_RING, &skipped);

		room[len] = 0;
		if (strstr(room, text))
			return true;
		if (loop_now(fixture.loop) > deadline || task_sleep_until(in(5)))
			return false;
	}
}

static void next_terms(int said)
{
	auto_term term = NULL;

	(void)said;
	CHECK_OK(adopt());
	term = term_find(box, STR("seq"));
	CHECK(term != NULL);
}

TEST(terms_live, "terminals run under a daemon that is killed again and again")
{
	if (testbox_cannot(true))
		return;
	CHECK(next_box() && live(first_term, 5));
	for (int i = 0; i < 5; i++)
		CHECK(live(next_terms, i * 2));
}

static void terms_body(void)
{
	auto_term seq = NULL;
	auto_term quiet = NULL;
	auto_term over = NULL;
	struct exec_result result;
	bool gone;

	CHECK_OK(adopt());
	seq = term_find(box, STR("seq"));
	quiet = term_find(box, STR("quiet"));
	over = term_find(box, STR("over"));
	CHECK(seq && quiet && over);
	CHECK(term_view(seq).cols == 100 && term_view(seq).rows == 30);
	CHECK(shows(seq, "20000\r\n", in(10000)));
	CHECK(seq_is_whole(term_tape(seq), 20000));
	CHECK_OK(term_type(seq, "typed\n", 6, in(1000)));
	CHECK(shows(seq, "typed\r\ntyped\r\n", in(5000)));
	CHECK_OK(term_type(quiet, "me\n", 3, in(1000)));
	CHECK(shows(quiet, "got me\r\n", in(5000)));
	for (int i = 0; i < 200 && !term_ended(quiet, &result, &gone); i++)
		CHECK_OK(task_sleep_until(in(10)));
	CHECK(term_ended(quiet, &result, &gone) && result.exit_code == 5 && !gone);
	for (int i = 0; i < 200 && !term_ended(over, &result, &gone); i++)
		CHECK_OK(task_sleep_until(in(10)));
	CHECK(term_ended(over, &result, &gone) && result.exit_code == 6);
	CHECK(shows(over, "bye", in(1000)));
	end_box();
}

TEST(retention, "terminals are adopted with their screens, sizes and ends")
{
	if (testbox_cannot(true))
		return;
	CHECK(open_loop());
	fixture_run(terms_body);
	close_loop();
}

TEST(closes, "the fixture closes: no task is left, no folder of a destroyed box")
{
	CHECK(task_count() == 0);
	fake_warden_close(&fixture.warden);
	CHECK(rmdir(tapes_path) == 0);
}
