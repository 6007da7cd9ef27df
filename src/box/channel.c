// The control socket to pid 1. An idle box costs one watch: no task and no buffer. Every send and
// receive passes MSG_DONTWAIT: O_NONBLOCK belongs to the open file, which others may share. A
// message that does not decode, or that only the daemon may send, closes the channel.
//
// syscalls: sendmsg recvmsg close
#include "box/channel.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "loop/closer.h"
#include "os/fd.h"

#define WORDS_MAX (TALK_HELD_MAX + 64)
#define TURN_MAX 16 // messages read in one loop turn, so that one box cannot starve the others

#ifdef COVE_WEAK
static const char *talk_kind_word(unsigned kind)
{
	static const char *const words[TALK_KIND_COUNT] = {
		[TALK_EXEC] = "exec",		[TALK_SIGNAL] = "signal", [TALK_FORGET] = "forget",
		[TALK_WORKER] = "worker",	[TALK_READY] = "ready",	  [TALK_BROKEN] = "broken",
		[TALK_STARTED] = "started",	[TALK_FAILED] = "failed", [TALK_EXITED] = "exited",
		[TALK_WORKER_IS] = "worker_is", [TALK_RAN] = "ran",	  [TALK_ADOPT] = "adopt",
		[TALK_SHUT] = "shut",		[TALK_LABEL] = "tag",	  [TALK_HELD] = "held",
		[TALK_HELD_END] = "held_end",
	};

	return kind < TALK_KIND_COUNT ? words[kind] : "unknown";
}
#endif

static void lose(struct channel *channel, const char *why)
{
	channel_close(channel);
	channel->lost(channel, why);
}

// A peer that closes with unread data resets the connection (ECONNRESET). Its last messages are
// still in our queue behind that error.
static ssize_t channel_take_words(int fd, char *words, size_t size, int fds[CHANNEL_FDS_MAX],
				  int *count)
{
	ssize_t len;

	*count = CHANNEL_FDS_MAX;
	len = fd_recv_any(fd, words, size, fds, count, MSG_DONTWAIT);
	if (len >= 0 || errno != ECONNRESET)
		return len;
	*count = CHANNEL_FDS_MAX;
	return fd_recv_any(fd, words, size, fds, count, MSG_DONTWAIT);
}

// False: nothing more for now, or closed.
static bool channel_receive(struct channel *channel)
{
	static char words[WORDS_MAX]; // only the loop's thread is here
	const char *no_words[1] = {NULL};
	struct talk talk = {.exec = {.argv = no_words, .env = no_words}};
	int fds[CHANNEL_FDS_MAX], count;
	ssize_t len = channel_take_words(channel->watch.fd, words, sizeof(words), fds, &count);

	if (len < 0 && errno == EAGAIN)
		return false;
	if (len <= 0) {
		lose(channel, len == 0 || errno == ECONNRESET ? "pid 1 is gone"
							      : "pid 1 sent too long a message");
		return false;
	}
	// The first byte is checked before decoding: pid 1 may not send an EXEC.
	if (!talk_is_heard((uint8_t)words[0]) || !talk_decode(words, (size_t)len, &talk)) {
		closer_drop_all(fds, count);
		lose(channel, "pid 1 sent an invalid message");
		return false;
	}
	kill_point("daemon.talk_heard", talk_kind_word(talk.kind));
	channel->said(channel, &talk, fds, count);
	return channel->open && !channel->paused;
}

static uint32_t channel_events(const struct channel *channel)
{
	return channel->paused ? 0 : EPOLLIN;
}

static void channel_on_ready(struct watch *watch, uint32_t events)
{
	struct channel *channel = link_of(watch, struct channel, watch);

	if (events & EPOLLOUT) {
		err_free(loop_watch(channel->loop, watch, channel_events(channel)));
		condition_signal(&channel->room);
		channel->drained(channel);
	}
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || channel->paused)
		return;
	for (int i = 0; i < TURN_MAX && channel->open && channel_receive(channel); i++)
		continue;
}

fallible channel_open(struct channel *channel, struct loop *loop, int fd)
{
	struct err *err;

	channel->loop = loop;
	channel->watch = (struct watch){.fd = fd, .ready = channel_on_ready};
	condition_init(&channel->room);
	err = loop_watch(loop, &channel->watch, EPOLLIN);
	if (err)
		closer_drop(&fd);
	else
		channel->open = true;
	return err;
}

void channel_pause(struct channel *channel, bool on)
{
	channel->paused = on;
	if (!channel->open)
		return;
	// EPOLLHUP cannot be masked while the fd is watched.
	if (on)
		loop_unwatch(channel->loop, &channel->watch);
	else
		err_free(loop_watch(channel->loop, &channel->watch, EPOLLIN));
}

void channel_close(struct channel *channel)
{
	if (!channel->open)
		return;
	channel->open = false;
	loop_unwatch(channel->loop, &channel->watch);
	closer_drop(&channel->watch.fd);
	condition_signal(&channel->room);
}

enum channel_sent channel_send(struct channel *channel, const void *words, size_t len,
			       const int *fds, int count)
{
	if (!channel->open)
		return CHANNEL_GONE;
	if (fd_send(channel->watch.fd, words, len, fds, count, MSG_DONTWAIT) >= 0) {
		kill_point("daemon.talk_said", talk_kind_word(*(const uint8_t *)words));
		return CHANNEL_SENT;
	}
	if (errno == EMSGSIZE)
		return CHANNEL_TOO_LONG;
	if (errno != EAGAIN && errno != ENOBUFS)
		return CHANNEL_GONE; // the watch reports the close
	err_free(loop_watch(channel->loop, &channel->watch, channel_events(channel) | EPOLLOUT));
	return CHANNEL_FULL;
}

enum channel_sent channel_say(struct channel *channel, const struct talk *talk)
{
	static char room[TALK_LABEL_MAX + 64]; // only the loop's thread is here
	size_t len = talk_encode(talk, room, sizeof(room));

	return len ? channel_send(channel, room, len, NULL, 0) : CHANNEL_TOO_LONG;
}
