// Contexts in a real box: real interpreters behind the real pid 1.
#include "box/context.h"

#include "base/mem.h"
#include "box/freeze.h"
#include "protocol/cell.h"
#include "unit/box/fake_warden.h"

static struct box *box;
static struct context *py;
static struct context_result result;
static char out[1 << 20], err_out[1 << 16];
static int fds_before;

static const char *const env[] = {"PATH=/usr/bin:/bin", "HOME=/tmp", "GIVEN=it's", NULL};

static int64_t in(int64_t ms)
{
	return loop_now(fixture.loop) + ms;
}

static int count_fds(void)
{
	int fds = 0;

	for (int fd = 3; fd < 2048; fd++)
		fds += fcntl(fd, F_GETFD) >= 0;
	return fds;
}

static fallible make(enum context_language language, struct context **context)
{
	struct context_spec spec = {
		.language = language,
		.env = env,
		.cwd = "/tmp",
		.output_cap = 1 << 18,
		.cpu_milli = 2000,
	};

	return context_create(box, &spec, context);
}

static fallible signal_process(int pid, const char *name)
{
	auto_free char *line = mem_fmt("kill -%s %d", name, pid);
	const char *argv[] = {line, NULL};
	struct exec_spec spec = {.shell = true, .argv = argv, .env = env, .cwd = "/", .user = ""};
	struct exec_result ended;
	struct exec *exec;
	struct err *err;

	TRY(exec_start(box, &spec, &exec));
	err = exec_wait(exec, in(20000), &ended);
	exec_unref(exec);
	return err		      ? err
	       : ended.exit_code == 0 ? OK
				      : err_new(INVALID, "kill", "%d", ended.exit_code);
}

static void add(char *room, size_t size, struct str bytes)
{
	size_t len = strlen(room);

	if (bytes.len > size - 1 - len)
		bytes.len = size - 1 - len;
	memcpy(room + len, bytes.at, bytes.len);
	room[len + bytes.len] = 0;
}

static void on_text(void *arg, struct str bytes)
{
	(void)arg;
	add(out, sizeof(out), bytes);
}

static void on_event(void *arg, struct str bytes)
{
	(void)arg;
	add(out, sizeof(out), STR("<"));
	add(out, sizeof(out), bytes);
	add(out, sizeof(out), STR(">"));
}

// Text and events of a run, to its end.
static fallible read_run(struct context_run *run)
{
	static char room[4096];
	struct cell cell = {.text = on_text, .event = on_event};
	auto_buf key = BUF_INIT(CELL_KEY + 2);
	uint64_t offset = 0;
	size_t n = 0;

	out[0] = err_out[0] = 0;
	cell_put_key(&key, context_run_key(run));
	cell_read(&cell, buf_view(&key));
	do {
		enum tape_stream stream = TAPE_STDOUT;
		struct err *err = tape_read(context_run_tape(run), &offset, &stream, room,
					    sizeof(room), &n, in(30000));

		if (err) {
			cell_done(&cell);
			return err;
		}
		if (stream == TAPE_STDOUT)
			cell_read(&cell, (struct str){room, n});
		else
			add(err_out, sizeof(err_out), (struct str){room, n});
	} while (n > 0);
	cell_end(&cell);
	cell_done(&cell);
	return context_run_wait(run, in(30000), &result);
}

static fallible run_for(struct context *context, const char *code, uint64_t timeout_ms)
{
	auto_context_run run = NULL;

	TRY(context_run(context, str_of(code), timeout_ms, &run));
	return read_run(run);
}

#define DONE(n) "<{\"type\":\"execution_complete\",\"execution_count\":" #n "}>"

static bool gives(const char *code, const char *want)
{
	auto_err err = run_for(py, code, 0);
	bool same = !err && result.end == CONTEXT_DONE && !strncmp(out, want, strlen(want));

	if (!same)
		printf("# %.80s: %s: end %d out '%.300s' err '%.80s'\n", code,
		       err ? err_trail(err) : "", result.end, out, err_out);
	return same;
}

TEST(opens, "the fixture opens")
{
	fds_before = count_fds();
	CHECK(fixture_open());
}

BOX_TEST(words, "languages are known by their names and aliases")
{
	enum context_language language = CONTEXT_PYTHON;

	CHECK(context_language(STR("ts"), &language) && language == CONTEXT_TYPESCRIPT);
	CHECK(context_language(STR("node"), &language) && language == CONTEXT_JAVASCRIPT);
	CHECK(context_language(STR("python3"), &language) && language == CONTEXT_PYTHON);
	CHECK(!context_language(STR("cobol"), &language));
}

BOX_TEST(keeps, "a context keeps its state, and has its directory and environment")
{
	struct order order = {.kind = ORDER_BUILD, .host = "box", .limits = LIMITS_DEFAULT};

	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	snprintf(order.name, sizeof(order.name), "real");
	id_box(order.box);
	CHECK_OK(box_build(fixture.loop, fixture.ask, &order, fixture.tapes, &box));
	CHECK_OK(make(CONTEXT_PYTHON, &py));
	CHECK(gives("x = 1", DONE(1)));
	CHECK(gives("print(x)", "1\n" DONE(2)));
	CHECK(gives("import os; os.environ['GIVEN'], os.getcwd()",
		    "<{\"type\":\"result\",\"text\":\"(\\\"it's\\\", '/tmp')\",\"metadata\":{}}>"));
	CHECK(gives("os.chdir('/usr')", DONE(4)));
	CHECK_STR(context_view(py).cwd, "/usr");
	CHECK(context_view(py).alive && !context_view(py).busy && context_view(py).cells == 4);
	CHECK(strlen(context_view(py).id) == CONTEXT_ID);
}

BOX_TEST(errors, "an error is an event and a status")
{
	CHECK(gives("1/0", "<{\"type\":\"error\",\"ename\":\"ZeroDivisionError\""));
	CHECK(result.status == 1);
	CHECK_OK(run_for(py, "import os; _ = os.system('echo raw; echo bad >&2')", 0));
	CHECK(!strncmp(out, "raw\n<", 5) && !strcmp(err_out, "bad\n"));
}

BOX_TEST(line, "cells run one after another; a cell without a waiter is skipped")
{
	auto_context_run first = NULL;
	auto_context_run second = NULL;
	auto_context_run third = NULL;

	CHECK_OK(context_run(py, STR("import time; time.sleep(0.2); n = 1"), 0, &first));
	CHECK_OK(context_run(py, STR("n = 100"), 0, &second));
	CHECK_OK(context_run(py, STR("print(n)"), 0, &third));
	CHECK(context_view(py).busy && box_is_busy(box));
	context_run_drop(take_ptr(second));
	CHECK_OK(read_run(third));
	CHECK(!strncmp(out, "1\n", 2));
	CHECK(!box_is_busy(box)); // an interpreter that waits keeps no box awake
}

BOX_TEST(side_by_side, "contexts run in parallel")
{
	auto_context other = NULL;
	auto_context_run slow = NULL;

	CHECK_OK(make(CONTEXT_PYTHON, &other));
	CHECK_OK(context_run(py, STR("import time; time.sleep(30)"), 0, &slow));
	CHECK_OK(run_for(other, "'x' in globals()", 0));
	CHECK(strstr(out, "\"False\"") != NULL && context_view(py).busy);
	CHECK(context_interrupt(py));
	CHECK_OK(read_run(slow));
	CHECK(strstr(out, "KeyboardInterrupt") != NULL && result.end == CONTEXT_DONE);
	CHECK(!context_interrupt(py));
	CHECK(gives("x", "<{\"type\":\"result\",\"text\":\"1\""));
	context_delete(other);
	CHECK(context_find(box, str_of(context_view(other).id)) == NULL);
}

BOX_TEST(late, "a late cell is interrupted; one that ignores that is killed")
{
	CHECK_OK(run_for(py, "while True: pass", 100));
	CHECK(result.end == CONTEXT_DONE && result.timed_out && result.status == 1);
	CHECK(gives("x", "<{\"type\":\"result\",\"text\":\"1\""));
	CHECK_OK(run_for(py, "import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass",
			 100));
	CHECK(result.end == CONTEXT_DIED && result.timed_out);
	CHECK(!context_view(py).alive);
	CHECK_ERR(run_for(py, "1", 0), INTERNAL);
	CHECK_OK(context_restart(py));
	CHECK(gives("1", "<{\"type\":\"result\",\"text\":\"1\""));
	CHECK(result.count == 1);
}

BOX_TEST(deaths, "a process that dies ends its cell, with what it wrote before")
{
	CHECK_OK(run_for(py, "import os; print('last'); os._exit(7)", 0));
	CHECK(result.end == CONTEXT_DIED && result.exec.exit_code == 7 && !strcmp(out, "last\n"));
	CHECK_OK(context_restart(py));
	CHECK_OK(run_for(py, "import os; os.kill(os.getpid(), 11)", 0));
	CHECK(result.end == CONTEXT_DIED && result.exec.signal == 11);
	CHECK_OK(context_restart(py));
}

BOX_TEST(memory, "memory that runs out ends the context, not the box")
{
	if (access(FAKE_WARDEN_MEMORY "/memory.limit_in_bytes", F_OK) < 0)
		return; // then a box of this fixture has no limit
	CHECK_OK(run_for(py, "b = b'x' * (400 << 20)", 0));
	CHECK(result.end == CONTEXT_DIED && result.exec.ending == ENDING_OOM);
	CHECK_OK(context_restart(py));
	CHECK(gives("1", "<{\"type\":\"result\",\"text\":\"1\""));
}

BOX_TEST(flood, "output past the cap is dropped, and the cell ends all the same")
{
	CHECK_OK(run_for(py, "for i in range(20000): print('y' * 100)", 0));
	CHECK(result.end == CONTEXT_DONE && result.status == 0);
	CHECK_OK(run_for(py, "while True: print('y' * 100)", 300));
	CHECK(result.end == CONTEXT_DONE && result.timed_out);
	CHECK(gives("1", "<{\"type\":\"result\",\"text\":\"1\""));
}

// The process is stopped, and its socket takes a part of the cell only.
BOX_TEST(unsent, "a cell is not told before its process has all of it, whatever this daemon's end")
{
	auto_buf code = BUF_INIT(1 << 20);
	auto_context_run run = NULL;
	auto_context own = NULL;

	CHECK_OK(make(CONTEXT_PYTHON, &own));
	CHECK_OK(signal_process(context_view(own).pid, "STOP"));
	buf_text(&code, "x = '");
	while (code.len < 600000)
		buf_text(&code, "0123456789");
	buf_text(&code, "'");
	CHECK_OK(context_run(own, buf_view(&code), 0, &run));
	while (!context_run_is_recorded(run))
		CHECK_OK(tape_await_write(context_run_tape(run), in(30000)));
	CHECK_ERR(context_run_await_record(run, in(20)), TIMEOUT);
	CHECK_OK(signal_process(context_view(own).pid, "CONT"));
	CHECK_OK(context_run_await_record(run, in(30000)));
	CHECK_OK(context_run_wait(run, in(30000), &result));
	CHECK(result.end == CONTEXT_DONE && result.status == 0);
	context_delete(own);
}

BOX_TEST(restarted, "a restart ends the running cell, and queued cells run")
{
	auto_context_run slow = NULL;
	auto_context_run next = NULL;

	CHECK_OK(context_run(py, STR("import time; time.sleep(30)"), 0, &slow));
	CHECK_OK(context_run(py, STR("print('next')"), 0, &next));
	CHECK_OK(context_restart(py));
	CHECK_OK(read_run(slow));
	CHECK(result.end == CONTEXT_DIED && result.deleted);
	CHECK_OK(read_run(next));
	CHECK(!strncmp(out, "next\n", 5));
}

BOX_TEST(limits, "code and queue are bounded")
{
	static char code[CONTEXT_CODE_MAX + 1];
	auto_context_run run = NULL;

	memset(code, '#', sizeof(code));
	CHECK_ERR(context_run(py, (struct str){code, sizeof(code)}, 0, &run), TOO_LARGE);
	CHECK_OK(context_run(py, (struct str){code, sizeof(code) - 1}, 0, &run));
	CHECK_OK(read_run(run));
	CHECK(result.end == CONTEXT_DONE && result.status == 0);
}

BOX_TEST(cwd, "a missing directory is an error of the start")
{
	struct context_spec spec = {.env = env, .cwd = "/nowhere", .output_cap = 1 << 18};
	static const char *const no_path[] = {"PATH=/nowhere", NULL};
	struct context *none = NULL;

	CHECK_ERR(context_create(box, &spec, &none), INVALID);
	spec.cwd = "/tmp";
	spec.env = no_path;
	CHECK_ERR(context_create(box, &spec, &none), NOT_OFFERED);
}

BOX_TEST(node, "JavaScript and TypeScript")
{
	auto_context js = NULL;
	auto_context ts = NULL;

	if (access("/usr/bin/node", X_OK) < 0)
		return;
	CHECK_OK(make(CONTEXT_JAVASCRIPT, &js));
	CHECK_OK(run_for(js, "const a = await 5; console.log(a)", 0));
	CHECK(!strncmp(out, "5\n" DONE(1), strlen(DONE(1)) + 2));
	context_delete(js);
	CHECK_OK(make(CONTEXT_TYPESCRIPT, &ts));
	CHECK_OK(run_for(ts, "const b: number = 6; b", 0));
	CHECK(strstr(out, "\"text\":\"6\"") != NULL);
	context_delete(ts);
}

BOX_TEST(destroyed, "a box that ends ends its contexts, and their waiters get an error")
{
	struct context_run *first, *second;

	CHECK_OK(context_run(py, STR("import time; time.sleep(100)"), 0, &first));
	CHECK_OK(context_run(py, STR("1"), 0, &second));
	CHECK_OK(box_destroy(box, in(5000)));
	CHECK_OK(context_run_wait(first, in(1000), &result));
	CHECK(result.end == CONTEXT_DIED);
	CHECK_ERR(context_run_wait(second, in(1000), &result), UNAVAILABLE);
	context_run_drop(first);
	context_run_drop(second);
	context_unref(py);
	box_free(box);
}

TEST(closes, "the fixture closes: no task is left, and no fd")
{
	fixture_close();
	CHECK(task_count() == 0);
	CHECK(count_fds() <= fds_before + 2); // pipes.c may keep a pipe of its own
}
