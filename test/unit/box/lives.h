// Adoption across daemons. The first daemon is a process of its own that is killed at any moment;
// this process is the next daemon and adopts the box.
//
// The first daemon is this program executed again: a process that is only forked has the locks of
// its parent's threads without the threads, and the thread sanitizer takes its tasks for threads
// that race.
#include <sys/ioctl.h>

#include "base/mem.h"
#include "box/box.h"
#include "box/procs.h"
#include "box/session.h"
#include "box/tape.h"
#include "box/term.h"
#include "protocol/exec_label.h"
#include "unit/box/fake_warden.h"

static struct box *box;
static char box_id[ID_BOX_LEN + 1];
static char tapes_path[64];

__attribute__((unused)) static int64_t in(int64_t ms)
{
	return loop_now(fixture.loop) + ms;
}

static const char *const env[] = {"PATH=/usr/bin:/bin", "GIVEN=yes", NULL};

__attribute__((unused)) static fallible start_process(const char *id, const char *script,
						      bool open_stdin, struct proc **out)
{
	const char *argv[] = {"/bin/bash", "-c", script, NULL};
	struct exec_spec exec = {
		.argv = argv,
		.env = env,
		.cwd = "/",
		.user = "",
		.open_stdin = open_stdin,
		.output_cap = 64 << 20,
	};
	struct proc_spec spec = {
		.id = str_of(id),
		.session = STR("its session"),
		.command = str_of(script),
		.exec = &exec,
	};

	return procs_start(box, &spec, out);
}

__attribute__((unused)) static struct session_spec session_spec(void)
{
	return (struct session_spec){.env = env, .cwd = "/usr", .output_cap = 1 << 20};
}

static int life_fd = -1; // an fd that all daemons inherit; -1: none

// What one life does: it builds or takes up the box, does something, says so, and goes on until it
// is killed.
static void (*life_body)(int said);

__attribute__((unused)) static void life_task(void *arg)
{
	int said = (int)(intptr_t)arg;

	life_body(said);
	fflush(stdout);
	fd_write_all(said, tap_bad ? "!" : ".", 1);
	err_free(task_sleep_until(CLOCK_NEVER));
}

__attribute__((unused)) static fallible build(void)
{
	struct order order = {.kind = ORDER_BUILD, .host = "box", .limits = LIMITS_DEFAULT};

	TRY(ask_wait_linked(fixture.ask, in(5000)));
	snprintf(order.name, sizeof(order.name), "real");
	memcpy(order.box, box_id, sizeof(order.box));
	return box_build(fixture.loop, fixture.ask, &order, fixture.tapes, &box);
}

__attribute__((unused)) static fallible adopt(void)
{
	struct box_return from = {
		.id = box_id,
		.sockets = fake_warden_sockets,
		.tapes_dir = fixture.tapes,
	};

	TRY(ask_wait_linked(fixture.ask, in(5000)));
	return box_adopt(fixture.loop, fixture.ask, &from, &box);
}

__attribute__((unused)) static bool open_loop(void)
{
	auto_err err = loop_new(&fixture.loop);

	if (!err)
		err = offload_open(fixture.loop, 2);
	if (err)
		return false;
	fixture.tapes = open(tapes_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fixture.ask = ask_open(fixture.loop, fixture.warden.path);
	return fixture.tapes >= 0;
}

// The box is destroyed and has no holder any more.
__attribute__((unused)) static void await_gone(void)
{
	int64_t deadline = in(5000);

	while (faccessat(fixture.tapes, box_id, F_OK, 0) == 0 && loop_now(fixture.loop) < deadline)
		CHECK_OK(task_sleep_until(in(5)));
	CHECK(faccessat(fixture.tapes, box_id, F_OK, 0) < 0);
	// This task, and that of the connection.
	while (task_count() > 2 && loop_now(fixture.loop) < deadline)
		CHECK_OK(task_sleep_until(in(5)));
}

__attribute__((unused)) static void close_loop(void)
{
	fixture_run(await_gone);
	ask_close(fixture.ask);
	fixture_run(fixture_settle);
	offload_close();
	loop_free(fixture.loop);
	close(fixture.tapes);
}

// As live() executes it.
__attribute__((constructor)) static void life_begin(void)
{
	const char *text = getenv("COVE_TEST_LIFE");
	ptrdiff_t body;
	int said;

	if (!text)
		return;
	if (sscanf(text, "%d %d %td %52s %63s %95s %63s", &said, &life_fd, &body, box_id,
		   tapes_path, fixture.warden.path, fake_warden_sockets) != 7)
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fcntl(said, F_SETFD, FD_CLOEXEC);
	if (life_fd >= 0)
		fcntl(life_fd, F_SETFD, FD_CLOEXEC);
	life_body = (void (*)(int))((char *)life_task + body);
	if (open_loop())
		task_start(fixture.loop, "life", life_task, (void *)(intptr_t)said);
	loop_run(fixture.loop);
	_exit(1);
}

// In a child. The body is told by its distance from a function that both have.
static _Noreturn void life_exec(void (*body)(int said), int said)
{
	char text[512], *argv[] = {(char *)"life", NULL};

	snprintf(text, sizeof(text), "%d %d %td %s %s %s %s", said, life_fd,
		 (char *)body - (char *)life_task, box_id, tapes_path, fixture.warden.path,
		 fake_warden_sockets);
	fcntl(said, F_SETFD, 0);
	if (life_fd >= 0)
		fcntl(life_fd, F_SETFD, 0);
	setenv("COVE_TEST_LIFE", text, 1);
	execv("/proc/self/exe", argv);
	_exit(1);
}

// Lives, and after `more_ms` of going on is killed. False: it did not come so far.
__attribute__((unused)) static bool live(void (*body)(int said), int more_ms)
{
	int said[2], status;
	char byte = 0;
	int pid;

	fflush(stdout);
	(void)!pipe2(said, O_CLOEXEC);
	pid = fork();
	if (pid == 0)
		life_exec(body, said[1]);
	close(said[1]);
	(void)!read(said[0], &byte, 1);
	close(said[0]);
	usleep((useconds_t)more_ms * 1000);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return byte == '.';
}

__attribute__((unused)) static bool next_box(void)
{
	id_box(box_id);
	return true;
}

__attribute__((unused)) static struct proc *find(const char *id)
{
	return procs_find(box, str_of(id));
}

// All of one stream of a tape.
static char *all_of(struct tape *tape, enum tape_stream stream, size_t *out_len)
{
	char *all = mem_new(1);
	uint64_t offset = 0;
	size_t len = 0, got = 1;

	while (got) {
		static char room[65536];
		enum tape_stream of = TAPE_STDERR;

		if (tape_read(tape, &offset, &of, room, sizeof(room), &got, in(5000)))
			break;
		if (of != stream || !got)
			continue;
		all = mem_grow(all, len + got + 1, 1);
		memcpy(all + len, room, got);
		len += got;
		all[len] = 0;
	}
	*out_len = len;
	return all;
}

// Numbers, one a line, from 1 to `last`: none is missing, none is there twice.
__attribute__((unused)) static bool counts_to(struct tape *tape, enum tape_stream stream, long last)
{
	size_t len;
	auto_free char *all = all_of(tape, stream, &len);
	char *at = all, *end;
	long want = 1;

	for (; *at; want++, at = end + 1) {
		long number = strtol(at, &end, 10);

		if (number != want || *end != '\n') {
			printf("# %ld where %ld should be, at %zd of %zu\n", number, want, at - all,
			       len);
			return false;
		}
	}
	if (want != last + 1)
		printf("# ends with %ld\n", want - 1);
	return want == last + 1;
}

#define ADOPT_TEST(fn, first, more_ms, sentence)                                                   \
	static void fn##_body(void);                                                               \
	TEST(fn, sentence)                                                                         \
	{                                                                                          \
		if (testbox_cannot(true)) {                                                        \
			printf("# skip: %s\n", testbox_cannot(true));                              \
			tap_bad |= getenv("COVE_TEST_MUST") != NULL;                               \
			return;                                                                    \
		}                                                                                  \
		CHECK(next_box() && live(first, more_ms));                                         \
		CHECK(open_loop());                                                                \
		fixture_run(fn##_body);                                                            \
		close_loop();                                                                      \
	}                                                                                          \
	static void fn##_body(void)

__attribute__((unused)) static void end_box(void)
{
	CHECK_OK(box_destroy(box, in(5000)));
	box_free(box);
}
