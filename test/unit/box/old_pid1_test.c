// A daemon of today and a pid 1 of earlier days: nothing is said to it that it does
// not know, and everything that a box could do then it can do now.
#include "base/mem.h"
#include "box/box.h"
#include "box/net.h"
#include "box/procs.h"
#include "box/session.h"
#include "box/term.h"
#include "unit/box/fake_warden.h"

#ifdef __x86_64__
#define STORED "test/old/pid1-1.x86_64.xz"
#else
#define STORED "test/old/pid1-1.aarch64.xz"
#endif

static struct box *box;
static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};

static int64_t in(int64_t ms)
{
	return loop_now(fixture.loop) + ms;
}

static bool unpack(void)
{
	int status = -1, pid = fork();

	if (pid == 0) {
		int fd = open(fake_warden_old, O_WRONLY | O_CREAT | O_TRUNC, 0755);

		dup2(fd, 1);
		execlp("xz", "xz", "-dc", STORED, NULL);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	return status == 0;
}

TEST(opens, "a stored pid 1 exists")
{
	snprintf(fake_warden_old, sizeof(fake_warden_old), "/tmp/cove-old-%d", getpid());
	CHECK(unpack());
	CHECK(fixture_open());
}

static char *said_by(struct tape *tape)
{
	char *all = mem_new(4096);
	uint64_t offset = 0;
	size_t len = 0, got = 1;

	while (got && len < 4000) {
		enum tape_stream stream;

		if (tape_read(tape, &offset, &stream, all + len, 4000 - len, &got, in(5000)))
			break;
		len += got;
	}
	all[len] = 0;
	return all;
}

BOX_TEST(builds, "the old pid 1 greets, and a box is built")
{
	struct order order = {.kind = ORDER_BUILD, .host = "box", .limits = LIMITS_DEFAULT};

	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	snprintf(order.name, sizeof(order.name), "old");
	id_box(order.box);
	CHECK_OK(box_build(fixture.loop, fixture.ask, &order, fixture.tapes, &box));
	CHECK_ERR(box_net_set(box, true, in(5000)), CONFLICT); // its pid 1 does not support it
}

BOX_TEST(processes, "commands and processes run, with stdin, output and exit code")
{
	const char *argv[] = {"/bin/sh", "-c", "cat; echo end >&2; exit 3", NULL};
	struct exec_spec exec = {
		.argv = argv,
		.env = env,
		.cwd = "/",
		.user = "",
		.open_stdin = true,
		.output_cap = 1 << 20,
	};
	struct proc_spec spec = {.id = STR("p"), .command = STR("cat"), .exec = &exec};
	auto_free char *text = NULL;
	auto_proc proc = NULL;

	CHECK_OK(procs_start(box, &spec, &proc));
	CHECK_OK(proc_write(proc, STR("hello "), in(5000)));
	CHECK_OK(proc_close_stdin(proc));
	CHECK_OK(proc_wait(proc, in(5000)));
	CHECK(proc_look(proc).exit_code == 3);
	text = said_by(proc_tape(proc));
	CHECK_STR(text, "hello end\n");
	for (int i = 0; i < 50; i++) {
		struct exec *plain = NULL;
		struct exec_result result;

		exec.open_stdin = false;
		CHECK_OK(exec_start(box, &exec, &plain));
		CHECK_OK(exec_wait(plain, in(5000), &result));
		CHECK(result.exit_code == 3);
		exec_unref(plain);
	}
}

BOX_TEST(sessions, "sessions keep their state")
{
	struct session_spec spec = {.env = env, .cwd = "/usr", .output_cap = 1 << 20};
	auto_session session = NULL;

	CHECK_OK(session_create(box, STR("s"), &spec, &session));
	for (int i = 0; i < 2; i++) {
		struct session_job job = {.command = STR("x=$x+; echo $x; pwd")};
		auto_session_run run = NULL;
		struct session_result result;
		auto_free char *text = NULL;

		CHECK_OK(session_run(session, &job, &run));
		CHECK_OK(session_run_wait(run, in(5000), &result));
		text = said_by(session_run_tape(run));
		CHECK_STR(text, i ? "++\n/usr\n" : "+\n/usr\n");
	}
	CHECK_OK(session_delete(session, false));
}

BOX_TEST(retention, "terminals show what is typed")
{
	const char *argv[] = {"/bin/cat", NULL};
	struct exec_spec exec = {.argv = argv,
				 .env = env,
				 .cwd = "/",
				 .user = "",
				 .cols = 80,
				 .rows = 24,
				 .output_cap = 1 << 20};
	struct term_spec spec = {.id = STR("t"), .shown = STR("cat"), .exec = &exec};
	auto_term term = NULL;
	char room[64] = "";
	uint64_t at = 0, skipped;
	bool is_new;

	CHECK_OK(term_open(box, &spec, &term, &is_new));
	CHECK_OK(term_type(term, "me\n", 3, in(1000)));
	while (at < 8) {
		CHECK_OK(term_await(term, at, in(5000)));
		term_read(term, &at, room + at, 8, &skipped);
	}
	CHECK_STR(room, "me\r\nme\r\n");
	term_kill(term);
}

BOX_TEST(ends, "the box ends when it is destroyed")
{
	CHECK_OK(box_destroy(box, in(5000)));
	box_free(box);
	fixture_settle_to(2); // this task, and that of the connection
}

TEST(closes, "nothing is left")
{
	fixture_close();
	CHECK(unlink(fake_warden_old) == 0);
}
