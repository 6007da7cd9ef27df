// Sends answers of a file worker with blocking calls: a daemon that does not read slows only its
// own worker. When the daemon's end is closed the process undoes its work and exits here.
#include "init/reply.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/fd.h"

#define HEAD_MAX (5 * 1024) // an answer without its bytes or items

static struct {
	int sock;
	void (*undo)(void);
	char items[FILEOP_BATCH];
} us;

void reply_open(int sock, void (*undo)(void))
{
	us.sock = sock;
	us.undo = undo;
}

int reply_sock(void)
{
	return us.sock;
}

bool reply_is_alone(void)
{
	struct pollfd end = {.fd = us.sock, .events = POLLRDHUP};

	return poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL));
}

void reply_leave(void)
{
	us.undo();
	_exit(0);
}

void reply_answer(const struct fileop_reply *reply, int fd)
{
	static char head[HEAD_MAX];
	size_t len = fileop_encode_reply(reply, head, sizeof(head));
	struct iovec parts[2] = {{head, len}, {(void *)reply->rest.at, reply->rest.len}};

	if (len == 0)
		reply_leave();
	// ENOBUFS: the host is short of memory.
	while (fd_send_parts(us.sock, parts, 2, &fd, fd >= 0, 0) < 0)
		if (errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS)
			poll(NULL, 0, 10);
		else
			reply_leave();
}

void reply_opened(int fd)
{
	reply_answer(&(struct fileop_reply){.kind = FILEOP_OPENED}, fd);
}

void reply_begin(struct reply_batch *batch, enum fileop_kind kind)
{
	*batch = (struct reply_batch){.kind = kind};
	pack_init(&batch->pack, us.items, sizeof(us.items));
}

void reply_flush(struct reply_batch *batch)
{
	struct fileop_reply reply = {.kind = batch->kind};

	if (batch->pack.len == 0)
		return;
	reply.rest = (struct str){(const char *)batch->pack.at, batch->pack.len};
	reply_answer(&reply, -1);
	batch->pack.len = batch->len = 0;
}

bool reply_item(struct reply_batch *batch)
{
	if (batch->pack.failed) {
		batch->pack.failed = false;
		batch->pack.len = batch->len;
		return false;
	}
	batch->len = batch->pack.len;
	batch->count++;
	// The longest item is two paths.
	if (batch->pack.len > sizeof(us.items) - 3 * FILEOP_PATH_MAX)
		reply_flush(batch);
	return true;
}
