// pid 1 between two daemons: the first dies, the second finds everything.
#include <sys/ioctl.h>

#include "init/conn.h"
#include "tap.h"
#include "unit/init/talker.h"

static struct testbox box;

static bool begin_listening(void)
{
	snprintf(slot_listens, sizeof(slot_listens), "/tmp/cove-held-%d", getpid());
	return begin(&box, true);
}

static void end(void)
{
	if (box.pid > 0)
		kill(box.pid, SIGKILL);
	testbox_close(&box);
	unlink(slot_listens);
	box = (struct testbox){.control = -1};
}

struct held {
	struct talk talk;
	char tag[TALK_LABEL_MAX];
	int fds[3], count;
};

// Disconnects, connects as another daemon and adopts: how many are held; -1: malformed.
static int come_back(struct held *helds, int room)
{
	struct talk talk;
	int fds[3], count, n = 0;

	fd_drop(&box.control);
	box.control = testbox_connect(slot_listens);
	if (box.control < 0 || !hear(&box, &talk, fds, &count) || talk.kind != TALK_READY ||
	    talk.ready.features != (TALK_CAN_RETURN | TALK_CAN_NET | TALK_CAN_SYNC | TALK_CAN_PROC |
				    TALK_CAN_IGNORE | TALK_CAN_PROCESSES | TALK_CAN_STATS))
		return -1;
	talk = (struct talk){.kind = TALK_ADOPT};
	tell(&box, &talk, NULL, 0);
	for (;;) {
		if (!hear(&box, &talk, fds, &count))
			return -1;
		if (talk.kind == TALK_HELD_END)
			return n;
		if (talk.kind != TALK_HELD || count != talk_fds(&talk, 0))
			return -1;
		if (n < room) {
			helds[n].talk = talk;
			memcpy(helds[n].tag, talk.held.tag.at, talk.held.tag.len);
			memcpy(helds[n].fds, fds, sizeof(fds));
			helds[n].count = count;
		} else {
			for (int i = 0; i < count; i++)
				close(fds[i]);
		}
		n++;
	}
}

static void drop(struct held *held)
{
	for (int i = 0; i < held->count; i++)
		close(held->fds[i]);
}

// Started, and the fds are closed as by the death of a daemon.
static uint32_t start(const char *script, uint32_t flags, const char *tag, int *keep)
{
	static uint32_t exec_cgroup;
	struct talk talk = command((const char *[]){"/bin/bash", "-c", script, NULL}), said;
	int fds[3], count, join[2], joins = 0;

	talk.exec.flags = flags | TALK_EXEC_LABEL;
	talk.exec.tag = str_of(tag);
	if (flags & TALK_EXEC_PTY)
		talk.exec.cols = talk.exec.rows = 24;
	if (exec_cgroup++ > 0) {
		joins = testbox_cgroup(&box, join);
		talk.exec.exec_cgroup = (uint32_t)box.exec_cgroups - 1;
	}
	if (!tell(&box, &talk, join, joins))
		return 0;
	for (int i = 0; i < joins; i++)
		close(join[i]);
	if (!hear(&box, &said, fds, &count) || said.kind != TALK_STARTED ||
	    count != talk_fds(&said, flags))
		return 0;
	for (int i = 0; i < count; i++)
		if (keep)
			keep[i] = fds[i];
		else
			close(fds[i]);
	return talk.conn;
}

static bool ends(uint32_t conn, int code)
{
	struct talk talk;
	int fds[3], count;

	return hear(&box, &talk, fds, &count) && talk.kind == TALK_EXITED && talk.conn == conn &&
	       WIFEXITED(talk.exited.status) && WEXITSTATUS(talk.exited.status) == code;
}

TEST(returns, "END-7 a command runs on without a daemon, and the next one reads what it wrote")
{
	static struct held held;
	uint32_t conn;
	char text[64] = "";

	if (skip(true))
		return;
	CHECK(begin_listening());
	conn = start("echo one; sleep 0.3; echo two; exit 5", TALK_EXEC_KEEP, "the tag\377", NULL);
	CHECK(conn > 0);
	CHECK(come_back(&held, 1) == 1);
	CHECK(held.talk.conn == conn && held.talk.held.pid > 1 && held.talk.held.exec_cgroup == 0);
	CHECK(held.talk.held.tag.len == 8 && memcmp(held.tag, "the tag\377", 8) == 0);
	CHECK(held.talk.held.flags == (TALK_EXEC_KEEP | TALK_EXEC_LABEL));
	CHECK(fd_read_all(held.fds[0], text, 8) == 8);
	CHECK_STR(text, "one\ntwo\n");
	CHECK(ends(conn, 5));
	drop(&held);
	// Reported, but not forgotten: it is reported again.
	CHECK(come_back(&held, 1) == 1 && held.talk.conn == conn);
	drop(&held);
	CHECK(ends(conn, 5));
	forget(&box, conn);
	CHECK(come_back(&held, 1) == 0);
	end();
}

TEST(unread, "requests of a dead daemon are executed, though it had not read everything")
{
	static struct held held;
	struct talk talk = {.kind = TALK_LABEL, .tag = STR("the second")}, exec;
	struct pollfd told;

	if (skip(true))
		return;
	CHECK(begin_listening());
	exec = command((const char *[]){"/bin/bash", "-c", "sleep 100", NULL});
	exec.exec.flags = TALK_EXEC_LABEL | TALK_EXEC_KEEP;
	exec.exec.tag = STR("the first");
	CHECK(tell(&box, &exec, NULL, 0));
	told = (struct pollfd){.fd = box.control, .events = POLLIN};
	CHECK(poll(&told, 1, PATIENCE_MS) == 1); // STARTED lies there, and is never read
	CHECK(kill(box.pid, SIGSTOP) == 0);
	talk.conn = exec.conn;
	CHECK(tell(&box, &talk, NULL, 0));
	fd_drop(&box.control);
	CHECK(kill(box.pid, SIGCONT) == 0);
	CHECK(come_back(&held, 1) == 1 && held.talk.conn == exec.conn);
	CHECK(held.talk.held.tag.len == 10 && memcmp(held.tag, "the second", 10) == 0);
	drop(&held);
	end();
}

// Waits until no process holds the write end of its output.
static void await_end(int fds[3])
{
	char room[64];

	for (int i = 0; i < 3; i++) {
		while (fds[i] >= 0 && read(fds[i], room, sizeof(room)) > 0)
			;
		fd_drop(&fds[i]);
	}
}

TEST(plain, "a command that is over without KEEP, or forgotten, is not held")
{
	static struct held held;
	static struct outcome got;
	int first[3] = {-1, -1, -1}, second[3] = {-1, -1, -1}, count = -1;
	uint32_t conn;

	if (skip(true))
		return;
	CHECK(begin_listening());
	CHECK(SH(&box, &got, "echo x"));
	conn = start("sleep 0.2", 0, "", first);
	forget(&box, conn);
	(void)start("exit 3", 0, "x", second);
	fd_drop(&box.control);
	await_end(second);
	for (int i = 0; i < 1000 && count; i++) { // until pid 1 has reaped it
		count = come_back(&held, 1);
		if (count == 1)
			drop(&held);
		usleep(2000);
	}
	CHECK(count == 0);
	await_end(first);
	// Its end is not reported: the next message answers the next command.
	CHECK(SH(&box, &got, "echo y"));
	CHECK_STR(got.out, "y\n");
	end();
}

TEST(seats, "terminals, dialogues and a kept stdin are passed again; SHUT closes a stdin")
{
	static struct held held[4];
	uint32_t in, pty, talks;
	int ends_[3];
	char text[64] = "";
	struct talk shut = {.kind = TALK_SHUT};
	struct held *of_in = &held[0], *of_pty = &held[1], *of_talk = &held[2];

	if (skip(true))
		return;
	CHECK(begin_listening());
	in = start("cat; exit 4", TALK_EXEC_STDIN | TALK_EXEC_KEEP_IN | TALK_EXEC_KEEP, "in", NULL);
	pty = start("read x; echo got $x; sleep 5", TALK_EXEC_PTY | TALK_EXEC_SPOOL, "pty", ends_);
	CHECK(in && pty);
	CHECK(write(ends_[2], "kept", 4) == 4);
	for (int i = 0; i < 3; i++)
		close(ends_[i]);
	talks = start("read x; echo said $x >&240; sleep 5", TALK_EXEC_DIALOGUE | TALK_EXEC_KEEP_IN,
		      "talks", NULL);
	CHECK(talks > 0);
	CHECK(come_back(held, 4) == 3);
	CHECK(of_in->talk.conn == in && of_in->count == 3);
	CHECK(of_pty->talk.conn == pty && of_pty->count == 3);
	CHECK(of_talk->talk.conn == talks && of_talk->count == 3);
	CHECK(read(of_pty->fds[1], text, sizeof(text)) == 4 && memcmp(text, "kept", 4) == 0);
	CHECK(write(of_pty->fds[0], "you\n", 4) == 4);
	memset(text, 0, sizeof(text));
	for (int i = 0; i < 50 && !strstr(text, "got you"); i++) {
		size_t len = strlen(text);
		struct pollfd ready = {.fd = of_pty->fds[0], .events = POLLIN};

		if (poll(&ready, 1, 100) > 0)
			(void)!read(of_pty->fds[0], text + len, sizeof(text) - 1 - len);
	}
	CHECK(strstr(text, "got you") != NULL);
	CHECK(write(of_talk->fds[2], "hm\n", 3) == 3);
	memset(text, 0, sizeof(text));
	CHECK(read(of_talk->fds[2], text, sizeof(text)) == 8 && !strcmp(text, "said hm\n"));
	CHECK(write(of_in->fds[2], "abc", 3) == 3);
	fd_drop(&of_in->fds[2]);
	memset(text, 0, sizeof(text));
	CHECK(read(of_in->fds[0], text, sizeof(text)) == 3 && !strcmp(text, "abc"));
	shut.conn = in;
	tell(&box, &shut, NULL, 0);
	CHECK(ends(in, 4));
	end();
}

TEST(many, "more than a socket holds are sent, one after another if the daemon is slow")
{
	char tag[TALK_LABEL_MAX];
	uint32_t first = 0;
	struct talk talk;
	int fds[3], count, n = 0;

	if (skip(true))
		return;
	CHECK(begin_listening());
	memset(tag, 'x', sizeof(tag) - 1);
	tag[sizeof(tag) - 1] = 0;
	for (int i = 0; i < 100; i++) {
		uint32_t conn = start("sleep 30", TALK_EXEC_KEEP, tag, NULL);

		CHECK(conn > 0);
		first = first ? first : conn;
	}
	fd_drop(&box.control);
	box.control = testbox_connect(slot_listens);
	CHECK(hear(&box, &talk, fds, &count) && talk.kind == TALK_READY);
	talk = (struct talk){.kind = TALK_ADOPT};
	tell(&box, &talk, NULL, 0);
	usleep(50000); // it fills the socket
	while (hear(&box, &talk, fds, &count) && talk.kind == TALK_HELD) {
		CHECK(talk.conn == first + (uint32_t)n++ && talk.held.tag.len == strlen(tag));
		while (count > 0)
			close(fds[--count]);
	}
	CHECK(talk.kind == TALK_HELD_END && n == 100);
	end();
}

TEST(replaced, "a new connection replaces the old, also in the middle of HELD messages")
{
	static struct held held;
	struct talk talk;
	int fds[3], count, old;

	if (skip(true))
		return;
	CHECK(begin_listening());
	CHECK(start("sleep 30", TALK_EXEC_KEEP, "a", NULL) > 0);
	old = box.control;
	box.control = testbox_connect(slot_listens);
	CHECK(hear(&box, &talk, fds, &count) && talk.kind == TALK_READY);
	CHECK(recv(old, &count, sizeof(count), 0) == 0);
	close(old);
	CHECK(come_back(&held, 1) == 1);
	drop(&held);
	CHECK(come_back(&held, 1) == 1);
	drop(&held);
	end();
}

TEST(strangers, "a request before ADOPT, or a connection from inside the box, is disconnected")
{
	static struct outcome got;
	static struct held held;
	struct talk talk;
	char script[512];
	int fds[3], count;

	if (skip(true))
		return;
	CHECK(begin_listening());
	fd_drop(&box.control);
	box.control = testbox_connect(slot_listens);
	CHECK(hear(&box, &talk, fds, &count) && talk.kind == TALK_READY);
	talk = command((const char *[]){"true", NULL});
	tell(&box, &talk, NULL, 0);
	CHECK(!hear(&box, &talk, fds, &count));
	CHECK(come_back(&held, 1) == 0);
	chmod(slot_listens, 0777);
	snprintf(script, sizeof(script),
		 "python3 -c 'import socket;s=socket.socket(1,5);s.connect(\"%s\");"
		 "print(s.recv(9))'",
		 slot_listens);
	CHECK(SH(&box, &got, script));
	CHECK_STR(got.out, "b''\n");
	CHECK(SH(&box, &got, "echo still"));
	CHECK_STR(got.out, "still\n");
	end();
}
