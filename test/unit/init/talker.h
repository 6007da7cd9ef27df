// The daemon's side of the protocol with a pid 1 in a test box: commands are run to their end.
#pragma once

#include "tap.h"
#include "unit/init/testbox.h"

#define PATIENCE_MS 10000

struct outcome {
	struct talk first, last; // STARTED or FAILED, then EXITED
	char out[8192], err[1024];
};

__attribute__((unused)) static uint32_t next_conn;

// One message; fds beyond `room` are an error. False: none came in time. RAN is heard as the two
// that it stands for, and pipes that it does not bring as ones that are at their end.
__attribute__((unused)) static bool hear(struct testbox *slot, struct talk *talk, int *fds,
					 int *count)
{
	static struct talk rest = {.kind = TALK_KIND_COUNT};
	struct pollfd ready = {.fd = slot->control, .events = POLLIN};
	static char room[TALK_HELD_MAX];
	ssize_t len;

	if (rest.kind == TALK_EXITED) {
		*talk = rest;
		*count = 0;
		rest.kind = TALK_KIND_COUNT;
		return true;
	}
	*count = 3;
	if (poll(&ready, 1, PATIENCE_MS) <= 0)
		return false;
	len = fd_recv(slot->control, room, sizeof(room), fds, count, 0);
	if (len <= 0 || !talk_decode(room, (size_t)len, talk))
		return false;
	if (talk->kind == TALK_RAN) {
		rest = *talk;
		rest.kind = TALK_EXITED;
		*talk = (struct talk){.kind = TALK_STARTED, .conn = rest.conn};
		talk->started.pid = rest.exited.pid;
		while (rest.exited.over && *count < 2)
			fds[(*count)++] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	return true;
}

__attribute__((unused)) static bool begin(struct testbox *slot, bool by_clone)
{
	struct talk talk;
	int fds[3], count;

	if (!testbox_open(slot, by_clone) || !hear(slot, &talk, fds, &count))
		return false;
	if (talk.kind == TALK_BROKEN)
		printf("# broken: %s: %s\n", talk.failed.note, strerror(talk.failed.errnum));
	return talk.kind == TALK_READY && talk.ready.version == TALK_VERSION && count == 0;
}

__attribute__((unused)) static struct talk command(const char **argv)
{
	static const char *env[] = {"PATH=/usr/bin:/bin", "X=1", NULL};
	struct talk talk = {.kind = TALK_EXEC, .conn = ++next_conn};

	talk.exec = (struct talk_exec){.cwd = STR("/"), .user = STR(""), .argv = argv, .env = env};
	while (argv[talk.exec.argc])
		talk.exec.argc++;
	talk.exec.envc = 2;
	return talk;
}

__attribute__((unused)) static bool tell(struct testbox *slot, const struct talk *talk,
					 const int *fds, int count)
{
	static char room[TALK_SIZE_MAX];
	size_t len = talk_encode(talk, room, sizeof(room));

	return len > 0 && fd_send(slot->control, room, len, fds, count, 0) == (ssize_t)len;
}

__attribute__((unused)) static void slurp(int fd, char *room, size_t size)
{
	ssize_t n = fd_read_all(fd, room, size - 1);

	room[n > 0 ? n : 0] = 0;
	close(fd);
}

__attribute__((unused)) static void forget(struct testbox *slot, uint32_t conn)
{
	struct talk talk = {.kind = TALK_FORGET, .conn = conn};

	tell(slot, &talk, NULL, 0);
}

// Runs it to its end and forgets it.
__attribute__((unused)) static bool run(struct testbox *slot, const struct talk *talk,
					const char *input, struct outcome *out)
{
	int fds[3], count;

	memset(out, 0, sizeof(*out));
	if (!tell(slot, talk, NULL, 0) || !hear(slot, &out->first, fds, &count))
		return false;
	if (out->first.conn != talk->conn)
		return false;
	if (out->first.kind != TALK_STARTED)
		return out->first.kind == TALK_FAILED && count == 0;
	if (count != (input ? 3 : 2))
		return false;
	if (input) {
		fd_write_all(fds[2], input, strlen(input));
		close(fds[2]);
	}
	slurp(fds[0], out->out, sizeof(out->out));
	slurp(fds[1], out->err, sizeof(out->err));
	if (!hear(slot, &out->last, fds, &count) || out->last.kind != TALK_EXITED || count != 0)
		return false;
	forget(slot, talk->conn);
	return out->last.conn == talk->conn;
}

__attribute__((unused)) static bool run_argv(struct testbox *slot, struct outcome *out,
					     const char **argv)
{
	struct talk talk = command(argv);

	return run(slot, &talk, NULL, out);
}

#define RUN(slot, out, ...) run_argv(slot, out, (const char *[]){__VA_ARGS__, NULL})
#define SH(slot, out, script) RUN(slot, out, "/bin/sh", "-c", script)
#define STATUS(out) ((out).last.exited.status)

__attribute__((unused)) static bool skip(bool by_clone)
{
	const char *why = testbox_cannot(by_clone);

	if (why)
		printf("# skip: %s\n", why);
	if (why && getenv("COVE_TEST_MUST"))
		tap_bad = true;
	return why != NULL;
}
