// The messages of pid 1 about one command. If a command has ended before its start was reported,
// both messages are sent together: the daemon is woken once, which for short commands is most of
// its work.
#include "init/conn.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "os/fd.h"

// One message. It must not be moved: `head` points into it.
struct word {
	char room[64];
	struct iovec part;
	struct msghdr head;
	union {
		char room[CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr align;
	} side;
};

static void write_word(struct word *word, const struct talk *talk, const int *fds, int count)
{
	struct msghdr *head = &word->head;

	word->part = (struct iovec){word->room, talk_encode(talk, word->room, sizeof(word->room))};
	*head = (struct msghdr){.msg_iov = &word->part, .msg_iovlen = 1};
	if (count == 0)
		return;
	memset(&word->side, 0, sizeof(word->side));
	head->msg_control = word->side.room;
	head->msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
	word->side.align.cmsg_level = SOL_SOCKET;
	word->side.align.cmsg_type = SCM_RIGHTS;
	word->side.align.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
	memcpy(CMSG_DATA(&word->side.align), fds, (size_t)count * sizeof(int));
}

// The pipe ends that go to the daemon. Returns their number.
static int list_ends(const struct conn *conn, int fds[3])
{
	fds[0] = conn->run.out;
	fds[1] = conn->run.err;
	fds[2] = conn->run.in;
	return fds[2] >= 0 ? 3 : fds[1] >= 0 ? 2 : 1;
}

static void write_started(const struct conn *conn, struct word *word)
{
	struct talk talk = {.kind = TALK_STARTED, .conn = conn->id};
	int fds[3], count = list_ends(conn, fds);

	talk.started.pid = conn->run.pid;
	write_word(word, &talk, fds, count);
}

static void write_worker(const struct conn *conn, struct word *word)
{
	struct talk talk = {.kind = TALK_WORKER_IS, .conn = conn->id};

	write_word(word, &talk, &conn->run.out, 1);
}

static void write_failed(const struct conn *conn, struct word *word)
{
	struct talk talk = {.kind = TALK_FAILED, .conn = conn->id};

	talk.failed.step = (enum talk_step)conn->step;
	talk.failed.errnum = conn->errnum;
	write_word(word, &talk, NULL, 0);
}

static void write_exited(const struct conn *conn, struct word *word)
{
	struct talk talk = {.kind = TALK_EXITED, .conn = conn->id};
	int fds[3], count = 0;

	if (conn->owes & OWES_STARTED) {
		talk.kind = TALK_RAN;
		talk.exited.pid = conn->run.pid;
		count = list_ends(conn, fds);
		if (count == 2 && conn->over)
			count = 0; // the pipes are empty
	}
	talk.exited.status = conn->status;
	talk.exited.max_rss = conn->max_rss;
	talk.exited.cpu_us = conn->cpu_us;
	talk.exited.cgroup_empty = conn->cgroup_empty;
	talk.exited.over = conn->over;
	write_word(word, &talk, fds, count);
}

bool conn_send(const struct conn *conn)
{
	struct word word;
	ssize_t n;

	if (conn->owes & OWES_EXITED)
		write_exited(conn, &word);
	else if (conn->owes & OWES_STARTED)
		write_started(conn, &word);
	else if (conn->owes & OWES_WORKER)
		write_worker(conn, &word);
	else
		write_failed(conn, &word);
	do {
		n = sendmsg(TALK_FD_CONTROL, &word.head, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n >= 0 || (errno != EAGAIN && errno != ENOBUFS && errno != ETOOMANYREFS);
}

bool conn_is_over(const struct conn *conn)
{
	struct pollfd ends[2] = {
		{.fd = conn->run.out, .events = POLLIN},
		{.fd = conn->run.err, .events = POLLIN},
	};

	return poll(ends, 2, 0) == 2 && ends[0].revents == POLLHUP && ends[1].revents == POLLHUP;
}

static bool init_conn_send(const struct talk *talk)
{
	char room[256];
	size_t len = talk_encode(talk, room, sizeof(room));

	return fd_send(TALK_FD_CONTROL, room, len, NULL, 0, MSG_DONTWAIT) >= 0;
}

bool conn_greet(bool returns)
{
	struct talk ready = {.kind = TALK_READY};

	ready.ready.version = TALK_VERSION;
	ready.ready.features = TALK_CAN_NET | TALK_CAN_PROC | TALK_CAN_SYNC | TALK_CAN_IGNORE |
			       (returns ? TALK_CAN_RETURN : 0);
	return init_conn_send(&ready);
}

int conn_tell_broken(const char *step)
{
	struct talk talk = {.kind = TALK_BROKEN};

	talk.failed.step = TALK_STEP_SETUP;
	talk.failed.errnum = errno;
	strncpy(talk.failed.note, step, sizeof(talk.failed.note) - 1);
	init_conn_send(&talk);
	return 1;
}
