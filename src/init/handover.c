// A daemon that dies, or is replaced, takes nothing with it. pid 1 has a copy of whatever it gave
// away that cannot be had again: the reading ends of pipes, masters of terminals with their
// troughs; a stdin, or the daemon's end of a dialogue, only where it was asked to, for else a
// daemon could not end them by closing its own. What is written meanwhile waits in the pipe, and
// its writer with it.
//
// The next daemon connects to a socket whose path exists in no box. It is taken for a daemon if it
// is no process of the box: the kernel shows the number of a peer outside of our pid namespace as
// 0. From the greeting to its ADOPT it is told nothing, for it knows no conversation; then it is
// told each, and the ends that the last daemon may or may not have heard of.
//
// Hands are not kept: a hand ends with the socket to its daemon. Nor is a command whose start
// failed, nor one that is over and that nobody asked to keep.
#include "init/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/fd.h"

// Touched as far as they are used: commands without a long tag cost a page for each place.
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

bool handover_meet(void)
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

static bool init_handover_send(const struct talk *talk, const int *fds, int count)
{
	static char room[TALK_HELD_MAX];
	size_t len = talk_encode(talk, room, sizeof(room));
	ssize_t n = fd_send(TALK_FD_CONTROL, room, len, fds, count, MSG_DONTWAIT);

	return n >= 0 || (errno != EAGAIN && errno != ENOBUFS && errno != ETOOMANYREFS);
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
	return init_handover_send(&talk, fds, talk_fds(&talk, 0));
}

bool handover_send_sync(int listener)
{
	struct talk talk = {.kind = TALK_SYNC};

	return init_handover_send(&talk, &listener, 1);
}

bool handover_send_end(void)
{
	struct talk talk = {.kind = TALK_HELD_END};

	return init_handover_send(&talk, NULL, 0);
}
