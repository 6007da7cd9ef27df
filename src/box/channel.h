// The control socket of one box: messages to and from pid 1, with fds. Input is hostile: it is
// bounded and decoded here; the owner checks that it was due.
#pragma once

#include "loop/task.h"
#include "protocol/talk.h"

#define CHANNEL_FDS_MAX 3

struct channel {
	struct loop *loop;
	struct watch watch;
	bool open;
	bool paused;
	struct condition room; // signalled when a full socket is writable again
	// Takes ownership of the fds. May close the channel. `count` may be FD_LOST (os/fd.h).
	void (*said)(struct channel *channel, const struct talk *talk, int *fds, int count);
	// Once: closed, or protocol broken (`why`). The channel is closed already.
	void (*lost)(struct channel *channel, const char *why);
	void (*drained)(struct channel *channel); // a full socket is writable again
};

enum channel_sent { CHANNEL_SENT, CHANNEL_FULL, CHANNEL_TOO_LONG, CHANNEL_GONE };

// The callbacks are set beforehand. Takes ownership of the fd, also on failure.
fallible channel_open(struct channel *channel, struct loop *loop, int fd);
void channel_close(struct channel *channel);
// While paused nothing is read, not even the close.
void channel_pause(struct channel *channel, bool on);
// Never waits. After CHANNEL_FULL `room` is signalled and `drained` called when a retry is
// worthwhile.
enum channel_sent channel_send(struct channel *channel, const void *words, size_t len,
			       const int *fds, int count);
// The same for a message without fds that is no EXEC.
enum channel_sent channel_say(struct channel *channel, const struct talk *talk);
