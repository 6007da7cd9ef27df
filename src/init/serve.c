// One request at a time. Long ones are looked after by a timer: every tick asks whether the
// daemon's end is still there, and ends the process if not, wherever it is, in a regular expression
// or in a pipe that nobody reads. Files that are half done have no name by then, or a name that
// begins with a dot; what can be undone is undone in file_undo().
//
// Answers are sent by a call that may wait: a daemon that does not read slows its own hand.
#include "init/serve.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "init/file.h"
#include "init/grep.h"
#include "init/move.h"
#include "init/ports.h"
#include "init/sweep.h"
#include "init/tarin.h"
#include "init/tarout.h"
#include "init/tree.h"
#include "init/watch.h"
#include "os/fd.h"

#define TICK_US 100000
#define HEAD_MAX (5 * 1024) // an answer without its bytes or items

static struct {
	int sock;
	struct reach_ask ask;
	const char *globs[REACH_GLOBS_MAX + 1];
	char words[REACH_SIZE_MAX];
	char items[REACH_BATCH];
} hand;

typedef bool verb_fn(const struct reach_ask *ask, struct reach_say *say);

static const struct {
	verb_fn *serve;
	bool is_long;
} verbs[REACH_VERB_COUNT] = {
	[REACH_STAT] = {file_stat, false},     [REACH_READ] = {file_read, false},
	[REACH_WRITE] = {file_write, false},   [REACH_BEGIN] = {file_begin, false},
	[REACH_COMMIT] = {file_commit, false}, [REACH_ABORT] = {file_abort, false},
	[REACH_LIST] = {tree_list, true},      [REACH_MKDIR] = {tree_mkdir, false},
	[REACH_REMOVE] = {tree_remove, true},  [REACH_MOVE] = {move_serve, true},
	[REACH_CHMOD] = {tree_chmod, true},    [REACH_READLINK] = {file_readlink, false},
	[REACH_FIND] = {tree_find, true},      [REACH_GREP] = {grep_serve, true},
	[REACH_PACK] = {tarout_serve, true},   [REACH_UNPACK] = {tarin_serve, true},
	[REACH_WATCH] = {watch_serve, true},   [REACH_DIAL] = {ports_dial, false},
	[REACH_PORTS] = {ports_list, false},   [REACH_SWEEP] = {sweep_serve, false},
	[REACH_SPACE] = {file_space, false},
};

int serve_sock(void)
{
	return hand.sock;
}

bool serve_is_alone(void)
{
	struct pollfd end = {.fd = hand.sock, .events = POLLRDHUP};

	return poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL));
}

static void on_tick(int number)
{
	int kept = errno;

	(void)number;
	if (serve_is_alone()) {
		file_undo();
		_exit(0);
	}
	errno = kept;
}

static void tick(bool on)
{
	struct itimerval timer = {0};

	if (on)
		timer.it_value.tv_usec = timer.it_interval.tv_usec = TICK_US;
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void leave(void)
{
	file_undo();
	_exit(0);
}

static void send_parts(struct iovec *parts, int count, int fd)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} side;
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
	ssize_t n;

	if (fd >= 0) {
		memset(&side, 0, sizeof(side));
		message.msg_control = side.room;
		message.msg_controllen = sizeof(side.room);
		side.align.cmsg_level = SOL_SOCKET;
		side.align.cmsg_type = SCM_RIGHTS;
		side.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&side.align), &fd, sizeof(int));
	}
	do {
		n = sendmsg(hand.sock, &message, MSG_NOSIGNAL);
		if (n < 0 && (errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS))
			poll(NULL, 0, 10); // the host is short of it just now
		else if (n < 0 && errno != EINTR)
			leave();
	} while (n < 0);
}

void serve_say(const struct reach_say *say, int fd)
{
	static char head[HEAD_MAX];
	size_t len = reach_encode_say(say, head, sizeof(head));
	struct iovec parts[2] = {{head, len}, {(void *)say->rest.at, say->rest.len}};

	if (len == 0)
		leave();
	send_parts(parts, say->rest.len > 0 ? 2 : 1, fd);
}

void serve_begin(struct serve_batch *batch, enum reach_kind kind)
{
	*batch = (struct serve_batch){.kind = kind};
	pack_init(&batch->pack, hand.items, sizeof(hand.items));
}

void serve_flush(struct serve_batch *batch)
{
	struct reach_say say = {.kind = batch->kind};

	if (batch->pack.len == 0)
		return;
	say.rest = (struct str){(const char *)batch->pack.at, batch->pack.len};
	serve_say(&say, -1);
	pack_init(&batch->pack, hand.items, sizeof(hand.items));
}

bool serve_item(struct serve_batch *batch, size_t len_before)
{
	if (batch->pack.failed) {
		batch->pack.failed = false;
		batch->pack.len = len_before;
		return false;
	}
	batch->count++;
	// The longest item is two paths.
	if (batch->pack.len > sizeof(hand.items) - 3 * REACH_PATH_MAX)
		serve_flush(batch);
	return true;
}

static void obey(void)
{
	struct reach_say say = {.kind = REACH_DONE};
	bool is_long = verbs[hand.ask.verb].is_long;
	bool done;

	if (is_long)
		tick(true);
	errno = 0;
	done = verbs[hand.ask.verb].serve(&hand.ask, &say);
	if (!done) {
		say.kind = REACH_FAILED;
		say.errnum = errno;
	}
	if (is_long)
		tick(false);
	serve_say(&say, -1);
}

void serve_run(int sock)
{
	struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};

	hand.sock = sock;
	sigaction(SIGALRM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		ssize_t n = recv(sock, hand.words, sizeof(hand.words), 0);

		if (n < 0 && errno == EINTR)
			continue;
		hand.ask.globs = hand.globs;
		if (n <= 0 || !reach_decode_ask(hand.words, (size_t)n, &hand.ask))
			leave();
		obey();
	}
}
