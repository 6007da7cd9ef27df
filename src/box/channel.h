// The control socket of one box: words to pid 1 and from it, with fds beside them. What comes is
// hostile: it is bounded and decoded here, and held against the open conversations by the owner.
#pragma once

#include "loop/task.h"
#include "protocol/talk.h"

#define CHANNEL_FDS_MAX 3

struct channel {
	struct loop *loop;
	struct watch watch;
	bool open;
	bool paused;
	struct condition room; // rung when a full socket takes words again
	// Takes the fds over. May close the channel. `count` may be FD_LOST (os/fd.h).
	void (*said)(struct channel *channel, const struct talk *talk, int *fds, int count);
	// Once: it closed, or broke the rules (`why` says which). The channel is closed already.
	void (*lost)(struct channel *channel, const char *why);
	void (*drained)(struct channel *channel); // a full socket takes words again
};

enum channel_sent { CHANNEL_SENT, CHANNEL_FULL, CHANNEL_TOO_LONG, CHANNEL_GONE };

// The callbacks are set beforehand. Takes the fd over, also on failure.
fallible channel_open(struct channel *channel, struct loop *loop, int fd);
void channel_close(struct channel *channel);
// Nothing is heard, not even the end, until it goes on.
void channel_pause(struct channel *channel, bool on);
// Never waits. After CHANNEL_FULL, `room` is rung and `drained` called when it is worth a new try.
enum channel_sent channel_send(struct channel *channel, const void *words, size_t len,
			       const int *fds, int count);
