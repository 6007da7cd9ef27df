// Processes in a real box: their records, their tapes on disk, and their ends.
#include "box/procs.h"

#include <dirent.h>

#include "base/mem.h"
#include "unit/box/fake_warden.h"

static struct box *box;
static char id_of_box[ID_BOX_LEN + 1];
static char out[1 << 16];

static int64_t in(int64_t ms)
{
	return loop_now(fixture.loop) + ms;
}

static fallible start_as(const char *id, const char *script, struct proc **proc)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	const char *argv[] = {script, NULL};
	struct exec_spec exec = {
		.shell = true,
		.argv = argv,
		.env = env,
		.cwd = "/",
		.user = "",
		.output_cap = 1 << 20,
		.cpu_milli = 2000,
		.open_stdin = strncmp(script, "cat", 3) == 0,
		.wall_ms = strncmp(script, "exec sleep", 10) == 0 ? 200 : 0,
	};
	struct proc_spec spec = {
		.id = str_of(id),
		.command = str_of(script),
		.keep_error = true,
		.exec = &exec,
	};

	if (strstr(script, "# gone"))
		exec.cwd = "/no/such/place";
	if (strstr(script, "# clean"))
		spec.auto_cleanup = true;
	if (strstr(script, "# session"))
		spec.session = STR("s1");
	return procs_start(box, &spec, proc);
}

static fallible start(const char *script, struct proc **proc)
{
	return start_as(NULL, script, proc);
}

static fallible read_tape(struct proc *proc)
{
	struct tape *tape = proc_tape(proc);
	enum tape_stream stream;
	uint64_t offset = 0;
	size_t len = 0, n;

	tape_ref(tape);
	do {
		struct err *err = tape_read(tape, &offset, &stream, out + len,
					    sizeof(out) - len - 1, &n, in(10000));

		if (err) {
			tape_unref(tape);
			return err;
		}
		len += n;
	} while (n);
	out[len] = 0;
	tape_unref(tape);
	return OK;
}

static int files(void)
{
	auto_free char *path = mem_fmt("/tmp/%s", id_of_box);
	DIR *dir = opendir(path);
	int count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count - 2;
}

static int listed;

static void count(struct proc *proc, void *arg)
{
	(void)arg;
	listed += proc_look(proc).id != NULL;
}

static int count_all(void)
{
	listed = 0;
	procs_each(box, count, NULL);
	return listed;
}

TEST(opens, "the fixture opens")
{
	CHECK(fixture_open());
}

BOX_TEST(runs, "a process has a record and a tape, before and after its end")
{
	struct order order = {.kind = ORDER_BUILD, .host = "box", .limits = LIMITS_DEFAULT};
	auto_proc proc = NULL;
	struct proc_view view;

	snprintf(order.name, sizeof(order.name), "real");
	id_box(order.box);
	memcpy(id_of_box, order.box, sizeof(id_of_box));
	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	CHECK_OK(box_build(fixture.loop, fixture.ask, &order, fixture.tapes, &box));
	CHECK_OK(start("echo hi; echo ho >&2; sleep 0.1; exit 3", &proc));
	view = proc_look(proc);
	CHECK(view.status == PROC_RUNNING && view.pid > 1 && !view.ended_ms && !view.result);
	CHECK(!strncmp(view.id, "proc_", 5) && strlen(view.id) == 5 + 13 + 1 + 6);
	CHECK_OK(proc_wait(proc, in(5000)));
	view = proc_look(proc);
	CHECK(view.status == PROC_FAILED && view.exit_code == 3 && view.ended_ms);
	CHECK_OK(read_tape(proc));
	CHECK(strstr(out, "hi\n") && strstr(out, "ho\n") && strlen(out) == 6);
	CHECK(count_all() == 1);
}

BOX_TEST(statuses, "the status tells how a process ended")
{
	static const struct {
		const char *script;
		enum proc_status status;
		int exit_code;
	} rows[] = {
		{"true", PROC_COMPLETED, 0},	     {"exit 7", PROC_FAILED, 7},
		{"kill -TERM $$", PROC_KILLED, 143}, {"kill -KILL $$", PROC_KILLED, 137},
		{"kill -USR1 $$", PROC_FAILED, 138}, {"exec sleep 30", PROC_FAILED, 124},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		auto_proc proc = NULL;
		struct proc_view view;

		CHECK_OK(start(rows[i].script, &proc));
		CHECK_OK(proc_wait(proc, in(10000)));
		view = proc_look(proc);
		if (view.status != rows[i].status || view.exit_code != rows[i].exit_code)
			printf("# %s: %s %d\n", rows[i].script, proc_status_word(view.status),
			       view.exit_code);
		CHECK(view.status == rows[i].status && view.exit_code == rows[i].exit_code);
	}
}

BOX_TEST(ids, "an id is taken while its process runs, and free when it has ended")
{
	auto_proc first = NULL;
	auto_proc second = NULL;
	struct proc *other = NULL;
	static const char *const bad[] = {"list", "kill-all", "a/b", "a\nb", ".."};

	CHECK_OK(start_as("web", "sleep 30", &first));
	CHECK_ERR(start_as("web", "true", &other), CONFLICT);
	CHECK_OK(proc_signal(first, SIGKILL));
	CHECK(proc_look(first).status == PROC_KILLED && proc_look(first).exit_code == 137);
	CHECK_OK(start_as("web", "echo second", &second));
	CHECK(strcmp(proc_look(first).command, "sleep 30") == 0);
	CHECK_OK(proc_wait(second, in(5000)));
	other = procs_find(box, STR("web"));
	CHECK(other == second);
	proc_unref(other);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_ERR(start_as(bad[i], "true", &other), INVALID);
	CHECK(!procs_find(box, STR("nobody")));
}

BOX_TEST(stops, "a process gets SIGTERM, then SIGKILL, with its whole tree")
{
	auto_proc polite = NULL;
	auto_proc stubborn = NULL;
	int64_t begin;

	CHECK_OK(start("sleep 1000", &polite));
	begin = loop_now(fixture.loop);
	CHECK_OK(proc_stop(polite));
	CHECK(loop_now(fixture.loop) - begin < 4000);
	CHECK(proc_look(polite).status == PROC_KILLED && proc_look(polite).exit_code == 143);
	CHECK_ERR(proc_stop(polite), NOT_FOUND);
	CHECK_ERR(proc_signal(polite, SIGTERM), NOT_FOUND);
	CHECK_OK(start("trap '' TERM; while :; do sleep 0.2; done", &stubborn));
	CHECK_OK(task_sleep_until(in(100)));
	begin = loop_now(fixture.loop);
	CHECK_OK(proc_stop(stubborn));
	CHECK(loop_now(fixture.loop) - begin >= PROC_GRACE_MS - 100);
	CHECK(proc_look(stubborn).status == PROC_KILLED && proc_look(stubborn).exit_code == 137);
}

BOX_TEST(stdin_, "a process reads what is written to its stdin, until it is closed")
{
	auto_proc proc = NULL;

	CHECK_OK(start("cat; echo end", &proc));
	CHECK_OK(proc_write(proc, STR("one\n"), in(1000)));
	CHECK_OK(task_sleep_until(in(50)));
	CHECK_OK(proc_write(proc, STR("two\n"), in(1000)));
	CHECK_OK(proc_close_stdin(proc));
	CHECK_OK(proc_wait(proc, in(5000)));
	CHECK_OK(read_tape(proc));
	CHECK_STR(out, "one\ntwo\nend\n");
	CHECK_ERR(proc_write(proc, STR("x"), in(1000)), NOT_FOUND);
}

BOX_TEST(errors, "a process that cannot start leaves a record with the reason")
{
	struct proc *none = NULL;
	auto_proc proc = NULL;

	CHECK_ERR(start_as("bad", "true # gone", &none), INVALID);
	proc = procs_find(box, STR("bad"));
	CHECK(proc && proc_look(proc).status == PROC_ERROR && proc_look(proc).error);
	CHECK_OK(proc_wait(proc, 0));
}

BOX_TEST(cleans, "a cleanup drops ended records and their files")
{
	auto_proc proc = NULL;
	auto_proc running = NULL;
	int before = count_all();

	CHECK_OK(start_as("tidy", "echo x # clean", &proc));
	CHECK_OK(proc_wait(proc, in(5000)));
	CHECK_OK(read_tape(proc));
	CHECK_STR(out, "x\n");
	CHECK(!procs_find(box, STR("tidy")) && count_all() == before);
	CHECK_OK(start_as("runs", "sleep 1000", &running));
	CHECK((int)procs_clean(box) == before && count_all() == 1);
	proc_unref(take_ptr(proc));
	for (int i = 0; i < 100 && files() > 2; i++)
		CHECK_OK(task_sleep_until(in(10)));
	CHECK(files() <= 2); // one is made ahead
}

BOX_TEST(sessions, "processes of a session end with it, in status error")
{
	auto_proc proc = NULL;

	CHECK_OK(start("sleep 1000 # session", &proc));
	procs_end_session(box, STR("s1"));
	CHECK_OK(proc_wait(proc, in(5000)));
	CHECK(proc_look(proc).status == PROC_ERROR);
}

BOX_TEST(all, "all running processes are ended at once")
{
	struct proc *procs[5];
	uint32_t killed = 0;

	for (int i = 0; i < 5; i++)
		CHECK_OK(start("sleep 1000", &procs[i]));
	CHECK_OK(procs_stop_all(box, &killed));
	CHECK(killed == 6); // and the one from before
	for (int i = 0; i < 5; i++) {
		CHECK(proc_look(procs[i]).status == PROC_KILLED);
		proc_unref(procs[i]);
	}
	CHECK_OK(procs_stop_all(box, &killed));
	CHECK(killed == 0);
}

BOX_TEST(many, "of too many ended records the oldest are dropped")
{
	for (int i = 0; i < PROCS_ENDED_MAX + 20; i++) {
		struct proc *proc = NULL;

		CHECK_OK(start(":", &proc));
		CHECK_OK(proc_wait(proc, in(5000)));
		proc_unref(proc);
	}
	CHECK(count_all() == PROCS_ENDED_MAX);
}

BOX_TEST(outlives, "records stay readable after the box has ended, and are freed with it")
{
	auto_proc proc = NULL;

	CHECK_OK(start("echo last; sleep 1000", &proc));
	CHECK_OK(task_sleep_until(in(100)));
	CHECK_OK(box_destroy(box, in(10000)));
	CHECK(proc_look(proc).status == PROC_KILLED && proc_look(proc).exit_code == 137);
	CHECK_OK(read_tape(proc));
	CHECK_STR(out, "last\n");
	proc_unref(take_ptr(proc));
	CHECK(files() > 100);
	box_free(take_ptr(box));
	for (int i = 0; i < 1500 && files() >= 0; i++) // a disk may stand still
		CHECK_OK(task_sleep_until(in(10)));
	CHECK(files() < 0);
}

TEST(closes, "nothing is left")
{
	fixture_close();
	CHECK(task_count() == 0);
}
