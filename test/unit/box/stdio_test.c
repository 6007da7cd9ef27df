// Commands with another stdin than a pipe that is written once: one that stays open, a terminal, a
// dialogue.
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <termios.h>

#include "box/exec.h"
#include "box/pipes.h"
#include "unit/box/fake_warden.h"

static struct box *box;

static int64_t in(int64_t ms)
{
	return loop_now(fixture.loop) + ms;
}

static struct exec_spec spec_of(const char *script)
{
	static const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TERM=xterm", NULL};
	static const char *argv[2];

	argv[0] = script;
	return (struct exec_spec){.shell = true,
				  .argv = argv,
				  .env = env,
				  .cwd = "/",
				  .user = "",
				  .output_cap = 1 << 20};
}

// Reads what comes until `text` is in it, or 5 s have passed.
static bool reads(int fd, const char *text)
{
	char room[8192];
	size_t len = 0;

	for (int64_t until = in(5000); loop_now(fixture.loop) < until;) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		ssize_t n = 0;

		if (poll(&ready, 1, 0) > 0)
			n = read(fd, room + len, sizeof(room) - 1 - len);
		if (n > 0)
			len += (size_t)n;
		room[len] = 0;
		if (strstr(room, text))
			return true;
		err_free(task_sleep_until(in(5)));
	}
	printf("# read: %s\n", room);
	return false;
}

// A host's own may give each terminal to the group tty, which has no id in a box: who lacks one of
// a file's ids may not change its owner.
static bool mount_terminals(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666") == 0;
}

TEST(opens, "the fixture opens")
{
	CHECK(testbox_cannot(true) || mount_terminals());
	CHECK(fixture_open());
}

BOX_TEST(builds, "a box is built")
{
	struct order order = {.kind = ORDER_BUILD, .host = "box", .limits = LIMITS_DEFAULT};

	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	snprintf(order.name, sizeof(order.name), "real");
	id_box(order.box);
	CHECK_OK(box_build(fixture.loop, fixture.ask, &order, fixture.tapes, &box));
}

BOX_TEST(open_stdin, "a stdin that stays open is written to until it is closed")
{
	struct exec_spec spec = spec_of("cat | wc -c; exit 7");
	static char much[200000];
	struct exec_result result;
	struct exec *exec = NULL;
	enum tape_stream stream;
	uint64_t offset = 0;
	char room[32];
	size_t len;

	spec.open_stdin = true;
	spec.stdin_bytes = STR("first ");
	CHECK_OK(exec_start(box, &spec, &exec));
	CHECK_OK(exec_write(exec, "second", 6, in(1000)));
	CHECK_OK(task_sleep_until(in(50)));
	CHECK_OK(exec_write(exec, much, sizeof(much), in(5000)));
	exec_close_stdin(exec);
	exec_close_stdin(exec);
	CHECK_OK(exec_wait(exec, in(10000), &result));
	CHECK(result.exit_code == 7);
	CHECK_OK(tape_read(exec_tape(exec), &offset, &stream, room, sizeof(room) - 1, &len,
			   in(1000)));
	room[len] = 0;
	CHECK_STR(room, "200012\n");
	CHECK_ERR(exec_write(exec, "x", 1, in(1000)), CONFLICT);
	exec_unref(exec);
}

BOX_TEST(full, "a full stdin pipe makes the writer wait until the command ends")
{
	struct exec_spec spec = spec_of("exec sleep 1000");
	static char much[200000];
	struct exec_result result;
	struct exec *exec = NULL;

	spec.open_stdin = true;
	CHECK_OK(exec_start(box, &spec, &exec));
	CHECK_ERR(exec_write(exec, much, sizeof(much), in(100)), TIMEOUT);
	exec_signal_alone(exec, SIGKILL);
	CHECK_ERR(exec_write(exec, much, sizeof(much), in(5000)), CONFLICT);
	CHECK_OK(exec_wait(exec, in(5000), &result));
	CHECK(result.signal == SIGKILL);
	exec_unref(exec);
}

BOX_TEST(alone, "a signal to one process spares its process group")
{
	struct exec_spec spec = spec_of("trap 'echo got' INT; sleep 0.5; sleep 0.5; echo done");
	struct exec_result result;
	struct exec *exec = NULL;

	CHECK_OK(exec_start(box, &spec, &exec));
	CHECK_OK(task_sleep_until(in(200)));
	exec_signal_alone(exec, SIGINT);
	CHECK_OK(exec_wait(exec, in(10000), &result));
	CHECK(result.exit_code == 0 && result.duration_ms >= 900);
	CHECK(tape_bytes(exec_tape(exec), TAPE_STDOUT) == 9);
	exec_unref(exec);
}

BOX_TEST(pty, "a command has a controlling terminal of the requested size")
{
	struct exec_spec spec = spec_of("tty; stty size; echo $PPID; trap 'stty size' WINCH; "
					"read x; echo \"<$x>\"; sleep 1000; echo over");
	struct winsize size = {.ws_row = 50, .ws_col = 132};
	struct exec_result result;
	struct exec *exec = NULL;
	auto_fd master = -1;

	spec.cols = 80;
	spec.rows = 24;
	CHECK_OK(exec_start(box, &spec, &exec));
	master = exec_take_master(exec);
	CHECK(master >= 0 && exec_take_master(exec) == -1);
	CHECK(reads(master, "24 80"));
	CHECK(ioctl(master, TIOCSWINSZ, &size) == 0);
	CHECK(write(master, "hi\n", 3) == 3 && reads(master, "<hi>"));
	CHECK(write(master, "\x03", 1) == 1); // Ctrl-C ends the sleep
	CHECK_OK(exec_wait(exec, in(10000), &result));
	CHECK(result.signal == SIGINT || result.exit_code == 130);
	exec_unref(exec);
	spec.rows = 4097;
	CHECK_ERR(exec_start(box, &spec, &exec), INVALID);
}

BOX_TEST(pty_user, "a terminal belongs to its user")
{
	struct exec_spec spec = spec_of(
		"[ $(stat -Lc %u /dev/fd/0) = 65534 ] && echo x > $(tty) && echo fine");
	struct exec_result result;
	struct exec *exec = NULL;
	auto_fd master = -1;

	spec.cols = spec.rows = 24;
	spec.user = "65534";
	CHECK_OK(exec_start(box, &spec, &exec));
	master = exec_take_master(exec);
	CHECK(reads(master, "fine"));
	CHECK_OK(exec_wait(exec, in(10000), &result));
	exec_unref(exec);
}

BOX_TEST(dialogue, "a shell in a dialogue reads commands and answers on fds of their own")
{
	struct exec_spec spec = {.argv = (const char *const[]){"bash", "--norc", "-i", NULL},
				 .env = (const char *const[]){"PATH=/usr/bin:/bin", NULL},
				 .cwd = "/",
				 .user = "",
				 .dialogue = true};
	static const char talk[] = "PS1= PS2=\n"
				   "{ echo out >&241; echo err >&242; ls /proc/self/fd >&241; }\n"
				   "echo lost; echo lost >&2; printf 'end %d' $? >&240\n";
	struct exec_dialogue ends;
	struct exec_result result;
	struct exec *exec = NULL;

	CHECK_OK(exec_start(box, &spec, &exec));
	ends = exec_take_dialogue(exec);
	CHECK(ends.out >= 0 && ends.err >= 0 && ends.dialogue >= 0);
	CHECK(exec_take_dialogue(exec).out == -1);
	CHECK(send(ends.dialogue, talk, sizeof(talk) - 1, 0) == sizeof(talk) - 1);
	CHECK(reads(ends.dialogue, "end 0"));
	CHECK(reads(ends.out, "out\n0\n1\n2\n240\n241\n242\n"));
	CHECK(reads(ends.err, "err\n"));
	close(ends.dialogue);
	CHECK_OK(exec_wait(exec, in(10000), &result));
	CHECK(result.exit_code == 0);
	close(ends.out);
	close(ends.err);
	exec_unref(exec);
}

BOX_TEST(ends, "the box ends")
{
	CHECK_OK(box_destroy(box, in(10000)));
	box_free(box);
}

TEST(closes, "the fixture closes")
{
	fixture_close();
}
