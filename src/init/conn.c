// The messages of pid 1, and what it keeps over a change of daemons. If a command has ended before
// its start was reported, both messages are sent together: the daemon is woken once, which for
// short commands is most of its work.
#include "init/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/fd.h"

static bool talk_send(const struct talk *talk, const int *fds, int count)
{
	static char held[TALK_HELD_MAX]; // not touched in a box that no daemon adopts
	char room[128];
	bool is_held = talk->kind == TALK_HELD;
	char *bytes = is_held ? held : room;
	size_t len = talk_encode(talk, bytes, is_held ? sizeof(held) : sizeof(room));

	return fd_send(TALK_FD_CONTROL, bytes, len, fds, count, MSG_DONTWAIT) >= 0;
}

// After a failed talk_send(): whether the same message may be sent later.
static bool is_full(void)
{
	return errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS;
}

bool conn_send(const struct conn *conn)
{
	struct talk talk = {.conn = conn->id};
	int fds[3] = {conn->run.out, conn->run.err, conn->run.in};
	int count = fds[2] >= 0 ? 3 : fds[1] >= 0 ? 2 : 1;

	if (conn->owes & OWES_EXITED) {
		bool with_start = conn->owes & OWES_STARTED;

		talk.kind = with_start ? TALK_RAN : TALK_EXITED;
		talk.exited.pid = conn->run.pid;
		talk.exited.status = conn->status;
		talk.exited.max_rss = conn->max_rss;
		talk.exited.cpu_us = conn->cpu_us;
		talk.exited.cgroup_empty = conn->cgroup_empty;
		talk.exited.over = conn->over;
		if (!with_start || (count == 2 && conn->over))
			count = 0; // the pipes are empty
	} else if (conn->owes & OWES_STARTED) {
		talk.kind = TALK_STARTED;
		talk.started.pid = conn->run.pid;
	} else if (conn->owes & OWES_WORKER) {
		talk.kind = TALK_WORKER_IS;
	} else {
		talk.kind = TALK_FAILED;
		talk.failed.step = (enum talk_step)conn->step;
		talk.failed.errnum = conn->errnum;
		talk.failed.note[0] = 0;
		count = 0;
	}
	return talk_send(&talk, fds, count) || !is_full();
}

bool conn_is_over(const struct conn *conn)
{
	struct pollfd ends[2] = {
		{.fd = conn->run.out, .events = POLLIN},
		{.fd = conn->run.err, .events = POLLIN},
	};

	return poll(ends, 2, 0) == 2 && ends[0].revents == POLLHUP && ends[1].revents == POLLHUP;
}

bool conn_greet(bool returns)
{
	struct talk ready = {.kind = TALK_READY};

	ready.ready.version = TALK_VERSION;
	ready.ready.features = TALK_CAN_NET | TALK_CAN_PROC | TALK_CAN_SYNC | TALK_CAN_IGNORE |
			       TALK_CAN_PROCESSES | TALK_CAN_STATS |
			       (returns ? TALK_CAN_RETURN : 0);
	return talk_send(&ready, NULL, 0);
}

int conn_send_broken(const char *step)
{
	struct talk talk = {.kind = TALK_BROKEN};

	talk.failed.step = TALK_STEP_SETUP;
	talk.failed.errnum = errno;
	strncpy(talk.failed.note, step, sizeof(talk.failed.note) - 1);
	talk_send(&talk, NULL, 0);
	return 1;
}

// Keeps commands over a change of daemons.
//
// pid 1 holds a copy of every fd that cannot be made again: read ends of pipes, pty masters with
// their spool pipes. It copies a stdin, or the daemon's end of a dialogue, only if asked to: else a
// daemon could not close them. Output meanwhile stays in the pipe. The next daemon connects to a
// socket whose path exists in no box. It is accepted if it is no process of the box: the kernel
// shows the pid of a peer outside of our pid namespace as 0. It is told nothing before its ADOPT;
// then each command is sent with its exit status, if it has one, whether or not the last daemon had
// it. Not kept: file workers, which end with their socket, commands that failed to start, and ended
// commands without TALK_EXEC_KEEP.

// Touched as far as used: commands without a long label cost no page.
static char tags[TALK_CONN_MAX][TALK_LABEL_MAX];

bool handover_may_return(void)
{
	int listens = 0;
	socklen_t len = sizeof(listens);

	return getsockopt(TALK_FD_LISTEN, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 &&
	       listens;
}

static bool is_outsider(int sock)
{
	struct ucred who = {.pid = -1};
	socklen_t len = sizeof(who);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.pid == 0;
}

bool handover_accept(void)
{
	int sock = accept4(TALK_FD_LISTEN, NULL, NULL, SOCK_CLOEXEC);
	bool met;

	if (sock < 0)
		return false;
	met = is_outsider(sock) && dup3(sock, TALK_FD_CONTROL, O_CLOEXEC) >= 0;
	close(sock);
	return met;
}

void handover_set_label(struct conn *conn, int place, struct str tag)
{
	conn->tag = tags[place];
	conn->tag_len = (uint16_t)tag.len;
	if (tag.len)
		memcpy(tags[place], tag.at, tag.len);
}

bool handover_keeps_in(const struct conn *conn)
{
	return conn->flags & (TALK_EXEC_SPOOL | TALK_EXEC_KEEP_IN);
}

void handover_owe(struct conn *conn)
{
	if (!conn->forgotten) {
		conn->owes = conn->pid == 0 ? OWES_HELD | OWES_EXITED : OWES_HELD;
		return;
	}
	conn->owes = 0;
	conn->mute = true;
}

static uint32_t flags_of(const struct conn *conn)
{
	uint32_t flags = conn->flags & ~(uint32_t)(TALK_EXEC_SHELL | TALK_EXEC_HOME |
						   TALK_EXEC_IF_EMPTY | TALK_EXEC_PACES);

	if (conn->run.in < 0)
		flags &= ~(uint32_t)(TALK_EXEC_STDIN | TALK_EXEC_DIALOGUE | TALK_EXEC_KEEP_IN);
	return flags;
}

bool handover_send(const struct conn *conn)
{
	struct talk talk = {.kind = TALK_HELD, .conn = conn->id};
	int fds[3] = {conn->run.out, conn->run.err, conn->run.in};

	talk.held.flags = flags_of(conn);
	talk.held.exec_cgroup = conn->exec_cgroup;
	talk.held.pid = conn->run.pid;
	talk.held.ended = conn->pid == 0;
	talk.held.tag = (struct str){conn->tag, conn->tag_len};
	return talk_send(&talk, fds, talk_fds(&talk, 0)) || !is_full();
}

bool handover_send_end(void)
{
	return talk_send(&(struct talk){.kind = TALK_HELD_END}, NULL, 0) || !is_full();
}

bool conn_send_sync(int listener)
{
	return talk_send(&(struct talk){.kind = TALK_SYNC}, &listener, 1) || !is_full();
}
