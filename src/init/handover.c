// Keeps commands over a change of daemons. pid 1 holds a copy of every fd that cannot be made
// again: read ends of pipes, pty masters with their spool pipes. It copies a stdin, or the daemon's
// end of a dialogue, only if asked to: else a daemon could not close them. Output meanwhile stays
// in the pipe. The next daemon connects to a socket whose path exists in no box. It is accepted if
// it is no process of the box: the kernel shows the pid of a peer outside of our pid namespace as
// 0. It is told nothing before its ADOPT; then each command is sent with its exit status, if it has
// one, whether or not the last daemon had it. Not kept: file workers, which end with their socket,
// commands that failed to start, and ended commands without TALK_EXEC_KEEP.
#include "init/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/fd.h"

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
