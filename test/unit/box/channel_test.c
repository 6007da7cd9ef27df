// Messages that pid 1 sends before it ends.
#include "box/channel.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "os/fd.h"
#include "unit/loop/inside.h"

static char heard[64];
static const char *lost;

static void on_said(struct channel *channel, const struct talk *talk, int *fds, int count)
{
	(void)channel;
	while (count > 0)
		fd_drop(&fds[--count]);
	CHECK(talk->kind == TALK_BROKEN);
	snprintf(heard, sizeof(heard), "%s", talk->failed.note);
}

static void on_lost(struct channel *channel, const char *why)
{
	(void)channel;
	lost = why;
}

static void on_drained(struct channel *channel)
{
	(void)channel;
}

// Says why it is broken, and ends; `unread`: with words of ours that it never took.
static void break_off(bool unread)
{
	struct channel channel = {.said = on_said, .lost = on_lost, .drained = on_drained};
	struct talk talk = {.kind = TALK_BROKEN, .failed = {.errnum = 12, .note = "lay out /dev"}};
	char room[256];
	size_t len = talk_encode(&talk, room, sizeof(room));
	int ends[2];

	heard[0] = 0;
	lost = NULL;
	CHECK(len > 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	if (unread)
		CHECK(send(ends[0], "bytes", 5, MSG_NOSIGNAL) == 5);
	CHECK(send(ends[1], room, len, MSG_NOSIGNAL) == (ssize_t)len);
	close(ends[1]);
	CHECK_OK(channel_open(&channel, inside_loop, ends[0]));
	for (int i = 0; i < 1000 && !lost; i++)
		inside_sleep(1);
	CHECK_STR(heard, "lay out /dev");
	CHECK(lost && !strcmp(lost, "pid 1 is gone"));
}

TASK_TEST(ended, "messages that pid 1 sent before its end are read")
{
	break_off(false);
}

TASK_TEST(unread, "the same when pid 1 ended with unread messages of ours")
{
	break_off(true);
}
