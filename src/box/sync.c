// sync and syncfs in a box also write the dirty pages of other boxes, so a loop of them slows the
// host. The box's seccomp filter notifies a listener, which pid 1 holds and passes here (SYNC) when
// a caller waits. One caller a second continues; the others wait in the kernel, interruptible by
// signals, also while no daemon runs. fsync is not filtered.
//
// pid 1 cannot answer the listener itself: its own filter forbids these ioctls. No process of a box
// can have a second listener: the kernel allows one in a chain of filters. A compromised pid 1 can
// therefore only make callers of its own box wait.
//
// syscalls: ioctl poll ppoll
#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

#include "box/private.h"
#include "loop/closer.h"
#include "os/fd.h"

#define EACH_MS 1000
#define AGAIN_MS 50 // retry after a full socket

static void tell_synced(struct box *box)
{
	struct talk talk = {.kind = TALK_SYNCED};

	box->sync.owes = channel_say(&box->channel, &talk) == CHANNEL_FULL;
	if (box->sync.owes)
		loop_set_timer(box->loop, &box->sync.timer, loop_now(box->loop) + AGAIN_MS);
}

// Lets one caller continue. False: `listener` is no seccomp listener. poll() first: NOTIF_RECV
// would wait if no caller did.
static bool let_one_go_on(int listener)
{
	union {
		struct seccomp_notif notif;
		char room[256]; // larger than any kernel's struct
	} waiting;
	struct seccomp_notif_resp answer = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
	struct pollfd ready = {.fd = listener, .events = POLLIN};
	uint64_t nobody = 0;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &nobody) == 0 || errno != ENOENT)
		return false;
	memset(&waiting, 0, sizeof(waiting));
	if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLIN) ||
	    ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &waiting))
		return true; // the caller was killed meanwhile
	answer.id = waiting.notif.id;
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	return true;
}

static void serve_sync(struct box *box)
{
	bool listens = let_one_go_on(box->sync.listener);

	closer_drop(&box->sync.listener);
	box->sync.next = loop_now(box->loop) + EACH_MS;
	if (listens)
		tell_synced(box);
	else
		box_break(box, "pid 1 sent an fd that is no seccomp listener");
}

static void sync_due(struct timer *timer)
{
	struct box *box = link_of(timer, struct box, sync.timer);

	if (box->sync.owes)
		tell_synced(box);
	else if (box->sync.listener >= 0)
		serve_sync(box);
}

void box_sync_on_message(struct box *box, int *fds, int count)
{
	box->sync.timer.due = sync_due;
	if (count == FD_LOST) { // no fd was left in this process: ask again later
		box->sync.owes = true;
		loop_set_timer(box->loop, &box->sync.timer, loop_now(box->loop) + EACH_MS);
		return;
	}
	if (count != 1 || box->sync.listener >= 0 || box->sync.owes ||
	    !(box->features & TALK_CAN_SYNC)) {
		closer_drop_all(fds, count);
		box_break(box, "pid 1 sent SYNC out of turn");
		return;
	}
	box->sync.listener = fds[0];
	if (box->sync.next <= loop_now(box->loop))
		serve_sync(box);
	else
		loop_set_timer(box->loop, &box->sync.timer, box->sync.next);
}

// No EXEC of ours has told this pid 1 that SYNC is handled.
void box_sync_adopted(struct box *box)
{
	box->sync.timer.due = sync_due;
	if (box->features & TALK_CAN_SYNC)
		tell_synced(box);
}

void box_sync_drop(struct box *box)
{
	loop_drop_timer(box->loop, &box->sync.timer);
	closer_drop(&box->sync.listener);
}
