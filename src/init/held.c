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
#include "init/held.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/fd.h"

// Touched as far as they are used: commands without a long tag cost a page for each place.
static char tags[TALK_CONV_MAX][TALK_TAG_MAX];

bool held_may_return(void)
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

bool held_meet(void)
{
	int sock = accept4(TALK_FD_LISTEN, NULL, NULL, SOCK_CLOEXEC);
	bool met;

	if (sock < 0)
		return false;
	met = is_outsider(sock) && dup3(sock, TALK_FD_CONTROL, O_CLOEXEC) >= 0;
	close(sock);
	return met;
}

void held_set_tag(struct conv *conv, int place, struct str tag)
{
	conv->tag = tags[place];
	conv->tag_len = (uint16_t)tag.len;
	if (tag.len)
		memcpy(tags[place], tag.at, tag.len);
}

bool held_keeps_in(const struct conv *conv)
{
	return conv->flags & (TALK_EXEC_TROUGH | TALK_EXEC_KEEP_IN);
}

void held_owe(struct conv *conv)
{
	if (!conv->forgotten) {
		conv->owes = conv->pid == 0 ? OWES_HELD | OWES_EXITED : OWES_HELD;
		return;
	}
	conv->owes = 0;
	conv->mute = true;
}

static uint32_t flags_of(const struct conv *conv)
{
	uint32_t flags = conv->flags & ~(uint32_t)(TALK_EXEC_SHELL | TALK_EXEC_HOME |
						   TALK_EXEC_IF_EMPTY | TALK_EXEC_PACES);

	if (conv->run.in < 0)
		flags &= ~(uint32_t)(TALK_EXEC_STDIN | TALK_EXEC_DIALOGUE | TALK_EXEC_KEEP_IN);
	return flags;
}

static bool init_held_say(const struct talk *talk, const int *fds, int count)
{
	static char room[TALK_HELD_MAX];
	size_t len = talk_encode(talk, room, sizeof(room));
	ssize_t n = fd_send(TALK_FD_CONTROL, room, len, fds, count, MSG_DONTWAIT);

	return n >= 0 || (errno != EAGAIN && errno != ENOBUFS && errno != ETOOMANYREFS);
}

bool held_say(const struct conv *conv)
{
	struct talk talk = {.kind = TALK_HELD, .conv = conv->id};
	int fds[3] = {conv->run.out, conv->run.err, conv->run.in};

	talk.held.flags = flags_of(conv);
	talk.held.leaf = conv->leaf;
	talk.held.pid = conv->run.pid;
	talk.held.ended = conv->pid == 0;
	talk.held.tag = (struct str){conv->tag, conv->tag_len};
	return init_held_say(&talk, fds, talk_fds(&talk, 0));
}

bool held_say_sync(int listener)
{
	struct talk talk = {.kind = TALK_SYNC};

	return init_held_say(&talk, &listener, 1);
}

bool held_say_end(void)
{
	struct talk talk = {.kind = TALK_HELD_END};

	return init_held_say(&talk, NULL, 0);
}
