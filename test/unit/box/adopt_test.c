// Adoption of processes by the next daemon: records, output to the byte, limits, ends.
#include <dirent.h>

#include "box/box.h"
#include "box/freeze.h"
#include "protocol/exec_label.h"
#include "unit/box/lives.h"

TEST(opens, "the fixture opens; boxes outlive their daemon")
{
	fake_warden_holds_on = true;
	signal(SIGPIPE, SIG_IGN);
	snprintf(tapes_path, sizeof(tapes_path), "/tmp/cove-adopt-%d", getpid());
	CHECK(mkdir(tapes_path, 0700) == 0);
	fake_warden_open(&fixture.warden);
}

static void first_process(int said)
{
	struct proc *proc;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(start_process("talker", "echo one; echo two >&2; sleep 0.4; echo three; exit 7",
			       false, &proc));
}

ADOPT_TEST(process, first_process, 100,
	   "a process runs on: its record, output, limits and exit code are known again")
{
	auto_proc proc = NULL;
	struct proc_view view;
	size_t len;
	auto_free char *out = NULL, *err = NULL;

	CHECK_OK(adopt());
	proc = find("talker");
	CHECK(proc != NULL);
	view = proc_look(proc);
	CHECK(view.status == PROC_RUNNING && view.pid > 1);
	CHECK_STR(view.session, "its session");
	CHECK(strstr(view.command, "echo three") != NULL);
	CHECK_OK(proc_wait(proc, in(5000)));
	view = proc_look(proc);
	CHECK(view.exit_code == 7 && view.status == PROC_FAILED);
	CHECK(view.result->duration_ms >= 400 && view.result->duration_ms < 5000);
	out = all_of(proc_tape(proc), TAPE_STDOUT, &len);
	err = all_of(proc_tape(proc), TAPE_STDERR, &len);
	CHECK_STR(out, "one\nthree\n");
	CHECK_STR(err, "two\n");
	end_box();
}

static void first_ended(int said)
{
	struct proc *proc;
	char script[5000] = "echo long; : ";

	(void)said;
	CHECK_OK(build());
	CHECK_OK(start_process("told", "echo told; exit 3", false, &proc));
	CHECK_OK(proc_wait(proc, in(5000)));
	CHECK_OK(start_process("silent", "exit 4", false, &proc));
	CHECK_OK(proc_wait(proc, in(5000)));
	CHECK_OK(start_process("killed", "sleep 100", false, &proc));
	CHECK_OK(proc_stop(proc));
	memset(script + 13, 'x', sizeof(script) - 14);
	CHECK_OK(start_process("long", script, false, &proc));
	CHECK_OK(start_process("at-once", "sleep 0.2; exit 9", false, &proc));
}

ADOPT_TEST(ended, first_ended, 0,
	   "what has ended is on record, or told again, however soon the daemon dies")
{
	static const struct {
		const char *id;
		int code;
		enum proc_status status;
	} rows[] = {{"told", 3, PROC_FAILED},
		    {"silent", 4, PROC_FAILED},
		    {"killed", 143, PROC_KILLED},
		    {"long", 0, PROC_COMPLETED},
		    {"at-once", 9, PROC_FAILED}};

	CHECK_OK(adopt());
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		auto_proc proc = find(rows[i].id);
		struct proc_view view;

		printf("# %s\n", rows[i].id);
		CHECK(proc != NULL);
		if (!proc)
			continue;
		CHECK_OK(proc_wait(proc, in(5000)));
		view = proc_look(proc);
		CHECK(view.exit_code == rows[i].code && view.status == rows[i].status);
		CHECK(view.ended_ms >= view.started_ms && view.started_ms > 0);
		if (strcmp(view.id, "long") == 0)
			CHECK(strlen(view.command) == 4999);
	}
	end_box();
}

static void first_sealed(int said)
{
	struct proc *proc;
	char script[5000] = ": ";

	(void)said;
	CHECK_OK(build());
	memset(script + 2, 'x', sizeof(script) - 3);
	CHECK_OK(
		start_process("long", script, false, &proc)); // its label is on disk before its pid
	CHECK_OK(proc_wait(proc, in(5000)));
}

ADOPT_TEST(numbered, first_sealed, 200,
	   "one whose end is on record has its pid, whatever its label says")
{
	auto_proc proc = NULL;

	CHECK_OK(adopt());
	proc = find("long");
	CHECK(proc && proc_look(proc).pid > 0 && proc_look(proc).exit_code == 0);
	end_box();
}

static void first_condemned(int said)
{
	struct proc *proc;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(start_process("doomed", "sleep 1000", false, &proc));
}

ADOPT_TEST(condemned, first_condemned, 50,
	   "a cgroup that was to be killed is killed at once, and serves nobody after that")
{
	auto_proc doomed = NULL;

	fake_warden_kill->spent = ~0ull;
	fake_warden_kill->asked = 0;
	CHECK_OK(adopt());
	fake_warden_kill->spent = 0;
	CHECK(fake_warden_kill->asked == 1);
	doomed = find("doomed");
	CHECK(doomed != NULL);
	CHECK_OK(proc_wait(doomed, in(5000)));
	CHECK(proc_look(doomed).exit_code == 137);
	for (int i = 0; i < 5; i++) {
		struct proc *proc = NULL;

		CHECK_OK(start_process("next", "echo next; exit 7", false, &proc));
		CHECK_OK(proc_wait(proc, in(5000)));
		CHECK(proc_look(proc).exit_code == 7);
		proc_unref(proc);
	}
	CHECK(fake_warden_kill->asked == 1);
	end_box();
}

static void first_stdin(int said)
{
	struct proc *proc;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(start_process("cat", "cat; echo end", true, &proc));
	CHECK_OK(proc_write(proc, STR("before\n"), in(5000)));
}

ADOPT_TEST(input, first_stdin, 20, "a stdin stays open, takes more, and is closed when asked to")
{
	auto_proc proc = NULL;
	auto_free char *out = NULL;
	size_t len;

	CHECK_OK(adopt());
	proc = find("cat");
	CHECK(proc != NULL);
	CHECK_OK(proc_write(proc, STR("after\n"), in(5000)));
	CHECK_OK(proc_close_stdin(proc));
	CHECK_OK(proc_wait(proc, in(5000)));
	out = all_of(proc_tape(proc), TAPE_STDOUT, &len);
	CHECK_STR(out, "before\nafter\nend\n");
	end_box();
}

#define STREAMS 12

static bool is_soak(void)
{
	return getenv("COVE_SOAK") != NULL;
}

static int lines(void)
{
	return is_soak() ? 1000000 : 60000;
}

static void first_streams(int said)
{
	(void)said;
	CHECK_OK(build());
	for (int i = 0; i < STREAMS; i++) {
		struct proc *proc;
		char id[16], script[128];

		snprintf(id, sizeof(id), "s%d", i);
		snprintf(script, sizeof(script), "seq 1 %d & seq 1 %d >&2; wait", lines(),
			 lines() / 2);
		CHECK_OK(start_process(id, script, false, &proc));
	}
}

static void next_life(int said)
{
	(void)said;
	CHECK_OK(adopt());
}

TEST(streams, "twelve streams under a daemon that is killed ten times: no byte is lost or doubled")
{
	if (testbox_cannot(true))
		return;
	CHECK(next_box() && live(first_streams, 5));
	for (int i = 0; i < (is_soak() ? 100 : 10); i++)
		CHECK(live(next_life, rand() % 30));
}

static void streams_body(void)
{
	CHECK_OK(adopt());
	for (int i = 0; i < STREAMS; i++) {
		auto_proc proc = NULL;
		char id[16];

		snprintf(id, sizeof(id), "s%d", i);
		proc = find(id);
		CHECK(proc != NULL);
		if (!proc)
			continue;
		CHECK_OK(proc_wait(proc, in(60000)));
		CHECK(proc_look(proc).exit_code == 0);
		CHECK(counts_to(proc_tape(proc), TAPE_STDOUT, lines()));
		CHECK(counts_to(proc_tape(proc), TAPE_STDERR, lines() / 2));
	}
	end_box();
}

TEST(streams_end, "the last daemon has the output of all twelve streams")
{
	if (testbox_cannot(true))
		return;
	CHECK(open_loop());
	fixture_run(streams_body);
	close_loop();
}

static void first_limit(int said)
{
	const char *argv[] = {"/bin/bash", "-c", "sleep 100", NULL};
	const char *busy[] = {"/bin/bash", "-c", "while :; do :; done", NULL};
	struct exec_spec exec = {.argv = argv, .env = env, .cwd = "/", .user = "", .wall_ms = 600};
	struct proc_spec spec = {.id = STR("wall"), .command = STR("sleep"), .exec = &exec};
	struct proc *proc;
	struct exec *plain;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(procs_start(box, &spec, &proc));
	exec.argv = busy;
	exec.wall_ms = 0;
	exec.cpu_ms = 500;
	spec.id = STR("cpu");
	CHECK_OK(procs_start(box, &spec, &proc));
	exec.cpu_ms = 0;
	exec.argv = argv;
	exec.wall_ms = 400;
	CHECK_OK(exec_start(box, &exec, &plain));
}

ADOPT_TEST(limits, first_limit, 100, "limits go on where they were, of plain commands too")
{
	auto_proc wall = NULL;
	auto_proc cpu = NULL;
	int64_t from = loop_now(fixture.loop);

	CHECK_OK(adopt());
	wall = find("wall");
	cpu = find("cpu");
	CHECK(wall && cpu && box_execs(box) == 3);
	CHECK_OK(proc_wait(wall, in(8000)));
	CHECK(proc_look(wall).result->ending == ENDING_WALL_LIMIT);
	CHECK(loop_now(fixture.loop) - from < 600);
	CHECK_OK(proc_wait(cpu, in(8000)));
	CHECK(proc_look(cpu).result->ending == ENDING_CPU_LIMIT);
	for (int i = 0; i < 100 && box_execs(box); i++)
		CHECK_OK(task_sleep_until(in(20)));
	CHECK(box_execs(box) == 0);
	end_box();
}

static int count_fds(void)
{
	DIR *list = opendir("/proc/self/fd");
	int count = 0;

	while (list && readdir(list))
		count++;
	if (list)
		closedir(list);
	return count;
}

static void first_nothing(int said)
{
	(void)said;
	CHECK_OK(build());
}

ADOPT_TEST(usable, first_nothing, 0,
	   "an idle box is taken up with one descriptor, and works; a box that is gone is not")
{
	auto_proc proc = NULL;
	auto_proc busy = NULL;
	int64_t from = clock_us();
	auto_err err = OK;
	int fds;

	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	fds = count_fds();
	CHECK_OK(adopt());
	printf("# %lld us\n", (long long)(clock_us() - from));
	CHECK(count_fds() == fds + 1); // the socket to its pid 1
	CHECK_OK(start_process("p", "echo hi", false, &proc));
	CHECK_OK(proc_wait(proc, in(5000)));
	CHECK(box_freeze_files(box, true) && !box_freeze_files(box, true));
	CHECK_OK(start_process("q", "for ((i = 0; i < 100000; i++)); do :; done; kill -9 $$", false,
			       &busy));
	CHECK_OK(proc_wait(busy, in(20000)));
	CHECK(proc_look(busy).result->cpu_ms > 0 && proc_look(busy).exit_code == 137);
	end_box();
	err = adopt();
	CHECK(err && err_kind(err) == ERR_NOT_FOUND);
}

static void first_many(int said)
{
	auto_session session = NULL;
	struct session_spec spec = session_spec();
	struct proc *proc;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(start_process("ended", "echo ended; exit 3", false, &proc));
	CHECK_OK(proc_wait(proc, in(5000)));
	procs_settle(box);
	CHECK_OK(start_process("running", "sleep 100", false, &proc));
	CHECK_OK(session_create(box, STR("shell"), &spec, &session));
}

ADOPT_TEST(no_files, first_many, 50,
	   "a daemon that runs out of descriptors while it takes a box up forgets nothing of it")
{
	auto_proc ended = NULL;
	auto_proc running = NULL;
	auto_session session = NULL;
	auto_err err = OK;
	int refused = 0;

	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	for (int room = 0; room < 64; room++) {
		struct rlimit old;

		fake_warden_fill(&old, room);
		err = adopt();
		setrlimit(RLIMIT_NOFILE, &old);
		if (!err)
			break;
		CHECK(err_kind(err) == ERR_EXHAUSTED || err_kind(err) == ERR_INTERNAL);
		refused++;
		err_free(take_ptr(err));
		fixture_settle_to(2);
	}
	printf("# refused %d times\n", refused);
	CHECK(!err && refused > 3);
	ended = find("ended");
	running = find("running");
	session = session_find(box, STR("shell"));
	CHECK(ended && proc_look(ended).exit_code == 3);
	CHECK(running && proc_look(running).status == PROC_RUNNING);
	CHECK(session != NULL);
	end_box();
}

static void first_reused(int said)
{
	struct proc *proc;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(start_process("again", "exit 3", false, &proc));
	CHECK_OK(proc_wait(proc, in(5000)));
	// The end of the first is not on record yet, and pid 1 holds both.
	CHECK_OK(start_process("again", "echo second; sleep 100", false, &proc));
}

ADOPT_TEST(reused, first_reused, 0, "an id that was free again is the later process's")
{
	auto_proc proc = NULL;

	CHECK_OK(adopt());
	proc = find("again");
	CHECK(proc && proc_look(proc).status == PROC_RUNNING);
	CHECK(strstr(proc_look(proc).command, "second") != NULL);
	end_box();
}

// A pid 1 that lies about what it holds.
static void be_liar(int listener, int rule)
{
	int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct talk ready = {.kind = TALK_READY, .ready = {TALK_VERSION, TALK_CAN_RETURN}};
	struct talk held = {.kind = TALK_HELD, .conn = 5}, end = {.kind = TALK_HELD_END};
	struct exec_label tag = {
		.kind = EXEC_LABEL_PROCESS, .file = 1, .id = STR("a"), .command = STR("c")};
	char room[TALK_HELD_MAX], label_room[512];
	int ends[2], null = open("/dev/null", O_RDWR);

	(void)!pipe(ends);
	fd_send(sock, room, talk_encode(&ready, room, sizeof(room)), NULL, 0, 0);
	(void)!recv(sock, room, sizeof(room), 0);
	held.held = (struct talk_held){TALK_EXEC_KEEP | TALK_EXEC_LABEL, 0, 7, false, STR("")};
#define TELL(talk, ...)                                                                            \
	fd_send(sock, room, talk_encode(&(talk), room, sizeof(room)), (int[]){__VA_ARGS__},        \
		sizeof((int[]){__VA_ARGS__}) / sizeof(int), 0)
#define TAGGED()                                                                                   \
	held.held.tag = (struct str)                                                               \
	{                                                                                          \
		label_room, exec_label_encode(&tag, label_room, sizeof(label_room))                \
	}
	switch (rule) {
	case 0: // no fds
		fd_send(sock, room, talk_encode(&held, room, sizeof(room)), NULL, 0, 0);
		break;
	case 1: // not pipes
		TAGGED();
		TELL(held, null, null);
		break;
	case 2: // twice the same
		TELL(held, ends[0], ends[0]);
		TELL(held, ends[0], ends[0]);
		break;
	case 3: // two in one cgroup
		TELL(held, ends[0], ends[0]);
		held.conn++;
		TELL(held, ends[0], ends[0]);
		break;
	case 4: // two processes of one id
		TAGGED();
		TELL(held, ends[0], ends[0]);
		held.conn++;
		held.held.exec_cgroup = 1;
		tag.file = 2;
		TAGGED();
		TELL(held, ends[0], ends[0]);
		break;
	case 5: // an id that none can have
		tag.id = STR("../x");
		TAGGED();
		TELL(held, ends[0], ends[0]);
		break;
	case 6: // a terminal that is a pipe
		tag.kind = EXEC_LABEL_TERM;
		TAGGED();
		TELL(held, ends[0], ends[0]);
		break;
	case 7: // a terminal whose master is a pipe
		tag.kind = EXEC_LABEL_TERM;
		held.held.flags |= TALK_EXEC_PTY | TALK_EXEC_SPOOL;
		TAGGED();
		TELL(held, ends[0], ends[0], ends[1]);
		break;
	case 8: // an end of what is not held
		end = (struct talk){.kind = TALK_EXITED, .conn = 9};
		break;
	case 9: // a dialogue with a pipe
		tag.kind = EXEC_LABEL_SESSION;
		held.held.flags |= TALK_EXEC_DIALOGUE;
		TAGGED();
		TELL(held, ends[0], ends[0], ends[1]);
		break;
	default: // closes the socket in the middle
		_exit(0);
	}
	fd_send(sock, room, talk_encode(&end, room, sizeof(room)), NULL, 0, 0);
	pause();
}

static void liars_body(void)
{
	for (int rule = 0; rule <= 10; rule++) {
		struct order order = {.kind = ORDER_BUILD, .host = "b", .limits = LIMITS_DEFAULT};
		struct box *first;
		auto_err err = OK;
		int listener, pid;
		uint32_t tasks;

		next_box();
		CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
		tasks = task_count();
		snprintf(order.name, sizeof(order.name), "evil-0");
		memcpy(order.box, box_id, sizeof(order.box));
		CHECK_OK(box_build(fixture.loop, fixture.ask, &order, fixture.tapes, &first));
		snprintf(slot_listens, sizeof(slot_listens), "%s/%s", fake_warden_sockets, box_id);
		listener = testbox_listener();
		pid = fork();
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			be_liar(listener, rule);
		}
		close(listener);
		err = adopt();
		printf("# liar %d: %s\n", rule, err ? err_trail(err) : "taken up");
		CHECK(err != NULL);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		unlink(slot_listens);
		CHECK_OK(box_destroy(first, in(5000)));
		box_free(first);
		tape_remove_folder(fixture.loop, fixture.tapes,
				   box_id); // adoption left it unchanged
		fixture_settle_to(tasks);
		CHECK(task_count() <= tasks);
	}
}

TEST(liars, "a pid 1 that lies about what it holds is not adopted, and harms no other box")
{
	if (testbox_cannot(true))
		return;
	CHECK(open_loop());
	fixture_run(liars_body);
	close_loop();
}

TEST(closes, "the fixture closes: no task is left, no folder of a destroyed box")
{
	CHECK(task_count() == 0);
	fake_warden_close(&fixture.warden);
	CHECK(rmdir(tapes_path) == 0);
}
