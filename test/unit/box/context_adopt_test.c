// Adoption of contexts by the next daemon.
#include "box/context.h"
#include "box/context_private.h"
#include "unit/box/lives.h"

static char ids[4][CONTEXT_ID + 1];

TEST(opens, "the fixture opens; boxes outlive their daemon")
{
	char path[64];

	fake_warden_holds_on = true;
	signal(SIGPIPE, SIG_IGN);
	snprintf(tapes_path, sizeof(tapes_path), "/tmp/cove-adopt-%d", getpid());
	snprintf(path, sizeof(path), "/tmp/cove-ids-%d", getpid());
	CHECK(mkdir(tapes_path, 0700) == 0);
	life_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(life_fd >= 0 && unlink(path) == 0);
	fake_warden_open(&fixture.warden);
}

static fallible make(int number, struct context **out)
{
	struct context_spec spec = {
		.language = CONTEXT_PYTHON,
		.env = env,
		.cwd = "/tmp",
		.output_cap = 8 << 20,
		.cpu_milli = 2000,
		.is_default = number == 0,
	};

	TRY(context_create(box, &spec, out));
	(void)!pwrite(life_fd, context_view(*out).id, CONTEXT_ID, (off_t)number * CONTEXT_ID);
	return OK;
}

static struct context *again(int number)
{
	(void)!pread(life_fd, ids[number], CONTEXT_ID, (off_t)number * CONTEXT_ID);
	return context_find(box, str_of(ids[number]));
}

// What a cell wrote begins like that.
static bool wrote(struct context_run *run, const char *want)
{
	struct context_result result;
	size_t len;
	auto_free char *out = all_of(context_run_tape(run), TAPE_STDOUT, &len);
	auto_err err = context_run_wait(run, in(20000), &result);
	bool same = !err && result.end == CONTEXT_DONE && !strncmp(out, want, strlen(want));

	if (!same)
		printf("# end %d: '%.60s' is not '%.60s'\n", result.end, out, want);
	return same;
}

static bool answers(struct context *context, const char *code, const char *want)
{
	auto_context_run run = NULL;
	auto_err err = context_run(context, str_of(code), 0, &run);

	if (err)
		printf("# '%s': %s\n", code, err_trail(err));
	return !err && wrote(run, want);
}

#define PACED                                                                                      \
	"import time, sys\nfor i in range(1, 3001):\n print(i)\n if i % 100 == 0: "                \
	"time.sleep(0.005)\nX = 'done'\nsys.stderr.write('end')"

static void first_life(int said)
{
	struct context *busy, *idle, *gone;
	struct context_run *run;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(make(0, &busy));
	CHECK_OK(make(1, &idle));
	CHECK_OK(make(2, &gone));
	CHECK(answers(idle, "Y = 'kept'; import os; os.chdir('/usr'); print(Y)", "kept\n"));
	context_delete(gone);
	CHECK_OK(context_run(busy, STR(PACED), 0, &run));
	CHECK_OK(context_run_await_record(run, in(5000)));
}

static bool counts(struct context *context, uint64_t number)
{
	auto_context_run run = context_cell(context, number);
	struct context_result result;
	size_t len, at = 0;
	auto_free char *out = NULL;
	auto_err err = OK;

	if (!run)
		return false;
	out = all_of(context_run_tape(run), TAPE_STDOUT, &len);
	for (int i = 1; i <= 3000; i++) {
		int digits = 0;
		char line[16];

		digits = snprintf(line, sizeof(line), "%d\n", i);
		if (strncmp(out + at, line, (size_t)digits) != 0) {
			printf("# '%.20s' where %d should be\n", out + at, i);
			return false;
		}
		at += (size_t)digits;
	}
	err = context_run_wait(run, in(5000), &result);
	return !err && result.end == CONTEXT_DONE && strstr(out, "execution_complete");
}

static void go_on(void)
{
	auto_context busy = NULL;
	auto_context idle = NULL;
	auto_context fallback = NULL;
	auto_context_run old = NULL;

	CHECK_OK(adopt());
	busy = again(0);
	idle = again(1);
	CHECK(busy && idle && !again(2));
	fallback = context_default(box, CONTEXT_PYTHON);
	CHECK(fallback == busy);
	CHECK(context_view(busy).alive && context_view(idle).alive);
	CHECK(answers(idle, "print(Y)", "kept\n"));
	CHECK_STR(context_view(idle).cwd, "/usr");
	CHECK(counts(busy, 1));
	CHECK(answers(busy, "print(X)", "done\n"));
	old = context_cell(idle, 1);
	CHECK(old && wrote(old, "kept\n"));
	CHECK(context_cell(idle, 9) == NULL);
	context_delete(busy);
	end_box();
}

ADOPT_TEST(at_once, first_life, 0, "a cell that was told a moment ago ends, and nothing is lost")
{
	go_on();
}

ADOPT_TEST(early, first_life, 10, "the same of one that has begun to write")
{
	go_on();
}

ADOPT_TEST(midway, first_life, 80, "of one in the middle")
{
	go_on();
}

ADOPT_TEST(over, first_life, 600, "and of one that has ended")
{
	go_on();
}

static void first_huge(int said)
{
	static char huge[CONTEXT_CODE_MAX];
	struct context *context;
	struct context_run *run;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(make(0, &context));
	CHECK(answers(context, "import time; print('up')", "up\n"));
	CHECK_OK(context_run(context, STR("print('slow', flush=True); time.sleep(9)"), 0, &run));
	CHECK_OK(task_sleep_until(in(100)));
	memset(huge, '#', sizeof(huge));
	CHECK_OK(context_run(context, (struct str){huge, sizeof(huge)}, 0, &run));
	CHECK(context_interrupt(context));
	CHECK_OK(task_sleep_until(in(1)));
}

ADOPT_TEST(huge, first_huge, 0, "one that may have heard half of a cell is dead, or was not told")
{
	auto_context context = NULL;

	CHECK_OK(adopt());
	context = again(0);
	CHECK(context != NULL);
	for (int i = 0; i < 200 && context_view(context).alive && context_view(context).busy; i++)
		CHECK_OK(task_sleep_until(in(20)));
	if (!context_view(context).alive)
		CHECK_OK(context_restart(context));
	CHECK(answers(context, "print(5)", "5\n"));
	end_box();
}

static void first_dying(int said)
{
	struct context *context;
	struct context_run *run;

	CHECK_OK(build());
	CHECK_OK(make(0, &context));
	CHECK_OK(context_run(context,
			     STR("import time, os\nprint('x' * 30000, flush=True)\n"
				 "time.sleep(0.2)\nprint('y' * 9000, flush=True)\nos.abort()"),
			     0, &run));
	CHECK_OK(task_sleep_until(in(50)));
	fd_write_all(said, ".", 1);
	kill(getpid(), SIGKILL); // no daemon runs for a while
}

ADOPT_TEST(dying, first_dying, 600, "the end of one that died alone is told, behind its words")
{
	auto_context context = NULL;
	auto_context_run run = NULL;
	struct context_result result = {0};
	auto_free char *out = NULL;
	size_t len;

	CHECK_OK(adopt());
	context = again(0);
	run = context ? context_cell(context, 1) : NULL;
	CHECK(run != NULL);
	out = all_of(context_run_tape(run), TAPE_STDOUT, &len);
	CHECK(len == 39002 && out[0] == 'x' && out[39000] == 'y');
	CHECK_OK(context_run_wait(run, in(5000), &result));
	CHECK(result.end == CONTEXT_DIED && result.exec.signal == SIGABRT);
	CHECK(!context_view(context).alive);
	end_box();
}

// One cell has ended, and the next was given: the end of the first is not on record yet.
static struct context_run *row;

static void first_row(int said)
{
	struct context *context;

	(void)said;
	CHECK_OK(build());
	CHECK_OK(make(0, &context));
	CHECK(answers(context, "import time; print('one')", "one\n"));
	CHECK_OK(context_run(context, STR("print('two', flush=True); time.sleep(0.2)"), 0, &row));
}

static void first_told(int said)
{
	first_row(said);
	CHECK_OK(task_sleep_until(in(2)));
}

static void first_begun(int said)
{
	first_row(said);
	while (!tape_kept(context_run_tape(row)))
		CHECK_OK(task_sleep_until(in(1)));
}

// Each cell has what it wrote, and nothing of the other's; the second is there, or never was.
static void check_row(bool has_begun)
{
	auto_context context = NULL;
	auto_context_run one = NULL;
	auto_context_run two = NULL;
	auto_context_run last = NULL;
	auto_free char *out = NULL;
	size_t len;

	CHECK_OK(adopt());
	context = again(0);
	CHECK(context != NULL);
	CHECK(answers(context, "print(3)", "3\n")); // behind what there was
	last = context_cell(context, 3);
	CHECK(!last || context_run_is_recorded(last)); // its file is no earlier cell's
	two = context_cell(context, 2);
	if (has_begun || two) // else it was never told, and its number left out or used again
		CHECK(two && (last || !has_begun) && wrote(two, last ? "two\n" : "3\n"));
	one = context_cell(context, 1);
	CHECK(one && wrote(one, "one\n"));
	out = all_of(context_run_tape(one), TAPE_STDOUT, &len);
	CHECK(!strstr(out, "two"));
	end_box();
}

ADOPT_TEST(row_given, first_row, 0, "a cell that was given as another had ended is no part of it")
{
	check_row(false);
}

ADOPT_TEST(row_told, first_told, 0, "nor is one that was told")
{
	check_row(false);
}

ADOPT_TEST(row_begun, first_begun, 0, "one that was followed by another had ended well")
{
	check_row(true);
}

// Files stand where the next tapes are to be made: no cell of this daemon has a record.
static void first_taken(int said)
{
	auto_free char *folder = mem_fmt("%s/%s", tapes_path, box_id);
	struct context *context;
	struct context_run *run;

	(void)said;
	CHECK_OK(build());
	CHECK(mkdir(folder, 0700) == 0 || errno == EEXIST);
	for (int i = 1; i < 10; i++) {
		auto_free char *path = mem_fmt("%s/%c%d", folder, CONTEXT_TAPE, i);
		auto_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

		CHECK(fd >= 0 && write(fd, "taken", 5) == 5);
	}
	CHECK_OK(make(0, &context));
	CHECK_OK(context_run(context, STR("X = 1"), 0, &run));
	CHECK_OK(context_run_await_record(run, in(5000)));
	CHECK(!context_run_is_recorded(run));
}

ADOPT_TEST(taken, first_taken, 200,
	   "a cell without a record is not told by its number; the next daemon's are")
{
	auto_context context = NULL;
	auto_context_run run = NULL;

	CHECK_OK(adopt());
	context = again(0);
	CHECK(context != NULL);
	CHECK_OK(context_run(context, STR("print(X)"), 0, &run));
	CHECK_OK(context_run_await_record(run, in(5000)));
	CHECK(context_run_is_recorded(run) && wrote(run, "1\n"));
	end_box();
}

TEST(closes, "the fixture closes: no task is left, no folder of a destroyed box")
{
	CHECK(task_count() == 0);
	fake_warden_close(&fixture.warden);
	CHECK(rmdir(tapes_path) == 0);
}
