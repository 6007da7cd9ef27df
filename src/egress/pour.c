// Two directions, each with a pipe while there are bytes in it: most of the time there are none,
// and the pipe lies in a pool of the thread. So ten thousand quiet connections have no pipes, and
// busy ones share a few large ones. A pipe that a slow reader leaves full stays with its direction.
//
// Both sockets are watched for everything, edge-triggered, from the beginning: what came is
// remembered in flags until the kernel says EAGAIN. Into an empty pipe EAGAIN can only mean that
// the socket has nothing.
//
// A direction moves at most TURN_MAX bytes, then lets the loop go on.
//
// syscalls: splice pipe2 fcntl shutdown close setsockopt
#include "egress/pour.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "os/fd.h"

#define PIPE_SIZE (512 * 1024)
#define PIECE PIPE_SIZE
#define TURN_MAX (4 * 1024 * 1024)
#define POOL_MAX 8

struct pipe {
	int ends[2];
	size_t size;
};

static _Thread_local struct pool {
	struct pipe at[POOL_MAX];
	int count;
} pool;

struct side {
	struct watch watch;
	struct pour *pour;
	bool readable, writable;
};

struct flow {
	struct pipe pipe; // ends[0] -1: none
	size_t held;	  // bytes in it
	bool ended;	  // nothing more will come
	bool shut;	  // and the other side was told
};

struct pour {
	struct loop *loop;
	struct side side[2];
	struct flow flow[2];
	struct timer idle;
	struct later later;
	int64_t idle_ms;
	int64_t moved_ms; // when bytes last moved
	const struct pour_table *table;
	void *arg;
	bool broken;
	enum pour_end end;
	bool running; // in a callback of the table: it may not go away beneath us
	bool later_set;
};

// ---------------------------------------------------------------------------------------- pipes

static bool pipe_take(struct pipe *out)
{
	int size;

	if (pool.count) {
		*out = pool.at[--pool.count];
		return true;
	}
	if (pipe2(out->ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	// Refused when this user has many already: a small one is good as well.
	size = fcntl(out->ends[1], F_SETPIPE_SZ, PIPE_SIZE);
	if (size <= 0)
		size = fcntl(out->ends[1], F_GETPIPE_SZ);
	out->size = size > 0 ? (size_t)size : 4096;
	return true;
}

static void pipe_close(struct pipe *pipe)
{
	fd_drop(&pipe->ends[0]);
	fd_drop(&pipe->ends[1]);
}

static void pipe_give(struct flow *flow)
{
	if (flow->pipe.ends[0] < 0)
		return;
	if (flow->held || pool.count == POOL_MAX)
		pipe_close(&flow->pipe);
	else
		pool.at[pool.count++] = flow->pipe;
	flow->pipe.ends[0] = flow->pipe.ends[1] = -1;
	flow->held = 0;
}

void pour_trim(void)
{
	while (pool.count)
		pipe_close(&pool.at[--pool.count]);
}

// ------------------------------------------------------------------------------------ movement

static void fail(struct pour *pour, enum pour_end end)
{
	if (!pour->broken)
		pour->end = end;
	pour->broken = true;
}

// Bytes of `from` into the pipe. False: nothing to do now.
static bool egress_pour_draw(struct pour *pour, enum pour_way way)
{
	struct flow *flow = &pour->flow[way];
	struct side *from = &pour->side[way];
	uint64_t want, granted;
	ssize_t n;

	if (flow->ended || !from->readable)
		return false;
	if (flow->pipe.ends[0] < 0 && !pipe_take(&flow->pipe)) {
		flow->pipe.ends[0] = flow->pipe.ends[1] = -1;
		fail(pour, POUR_RESET);
		return false;
	}
	want = flow->pipe.size < PIECE ? flow->pipe.size : PIECE;
	granted = pour->table->grant ? pour->table->grant(pour->arg, way, want) : want;
	// Nothing may be moved: but an end that nothing precedes is no use of anything.
	if (!granted) {
		char one;

		n = recv(from->watch.fd, &one, 1, MSG_PEEK | MSG_DONTWAIT);
		if (n > 0)
			fail(pour, POUR_SPENT);
		else if (n == 0)
			flow->ended = true;
		else if (errno == EAGAIN)
			from->readable = false;
		else
			fail(pour, POUR_RESET);
		return n == 0;
	}
	n = splice(from->watch.fd, NULL, flow->pipe.ends[1], NULL, granted,
		   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (pour->table->moved)
		pour->table->moved(pour->arg, way, n > 0 ? (uint64_t)n : 0,
				   granted - (n > 0 ? (uint64_t)n : 0));
	if (n > 0) {
		flow->held = (size_t)n;
		return true;
	}
	if (n == 0)
		flow->ended = true;
	else if (errno == EAGAIN)
		from->readable = false;
	else if (errno != EINTR)
		fail(pour, POUR_RESET);
	return n == 0;
}

// The pipe's bytes into `to`. False: it takes no more now.
static bool egress_pour_push(struct pour *pour, enum pour_way way)
{
	struct flow *flow = &pour->flow[way];
	struct side *to = &pour->side[!way];
	ssize_t n;

	if (!to->writable)
		return false;
	n = splice(flow->pipe.ends[0], NULL, to->watch.fd, NULL, flow->held,
		   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0) {
		flow->held -= (size_t)n;
		return true;
	}
	if (n < 0 && errno == EAGAIN)
		to->writable = false;
	else if (n == 0 || errno != EINTR)
		fail(pour, POUR_RESET);
	return false;
}

// True: there is more to do at once.
static bool egress_pour_run(struct pour *pour, enum pour_way way)
{
	struct flow *flow = &pour->flow[way];
	size_t moved = 0;

	while (!pour->broken && moved < TURN_MAX) {
		size_t before = flow->held;

		if (flow->held) {
			if (!egress_pour_push(pour, way))
				break;
			moved += before - flow->held;
		} else if (!egress_pour_draw(pour, way) || flow->ended) {
			break;
		}
	}
	if (moved)
		pour->moved_ms = loop_now(pour->loop);
	if (!flow->held)
		pipe_give(flow);
	if (flow->ended && !flow->held && !flow->shut && !pour->broken) {
		shutdown(pour->side[!way].watch.fd, SHUT_WR);
		flow->shut = true;
	}
	return !pour->broken && moved >= TURN_MAX;
}

static void egress_pour_finish(struct pour *pour)
{
	const struct pour_table *table = pour->table;
	enum pour_end end = pour->end;
	void *arg = pour->arg;
	static const struct linger now = {.l_onoff = 1};

	loop_drop_timer(pour->loop, &pour->idle);
	if (pour->later_set)
		link_drop(&pour->later.link);
	for (int i = 0; i < 2; i++) {
		loop_unwatch(pour->loop, &pour->side[i].watch);
		// Who is cut off has to know that it was not the end.
		if (end != POUR_DONE)
			setsockopt(pour->side[i].watch.fd, SOL_SOCKET, SO_LINGER, &now,
				   sizeof(now));
		fd_drop(&pour->side[i].watch.fd);
		if (pour->flow[i].held)
			pipe_close(&pour->flow[i].pipe);
		else
			pipe_give(&pour->flow[i]);
	}
	free(pour);
	table->ended(arg, end);
}

static void egress_pour_turn(struct pour *pour)
{
	bool more;

	pour->running = true;
	more = egress_pour_run(pour, POUR_OUT);
	more |= egress_pour_run(pour, POUR_IN);
	pour->running = false;
	if (pour->broken || (pour->flow[POUR_OUT].shut && pour->flow[POUR_IN].shut)) {
		egress_pour_finish(pour);
		return;
	}
	if (more && !pour->later_set) {
		pour->later_set = true;
		loop_later(pour->loop, &pour->later);
	}
}

static void egress_pour_on_later(struct later *later)
{
	struct pour *pour = link_of(later, struct pour, later);

	pour->later_set = false;
	egress_pour_turn(pour);
}

static void egress_pour_on_ready(struct watch *watch, uint32_t events)
{
	struct side *side = link_of(watch, struct side, watch);

	side->readable |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	side->writable |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
	egress_pour_turn(side->pour);
}

// Set anew only when it is due: bytes that move leave a mark, not a timer.
static void on_idle(struct timer *timer)
{
	struct pour *pour = link_of(timer, struct pour, idle);
	int64_t at = pour->moved_ms + pour->idle_ms;

	if (at > loop_now(pour->loop)) {
		loop_set_timer(pour->loop, &pour->idle, at);
		return;
	}
	fail(pour, POUR_IDLE);
	egress_pour_finish(pour);
}

fallible pour_start(struct loop *loop, int first, int second, int64_t idle_ms,
		    const struct pour_table *table, void *arg, struct pour **out)
{
	const uint32_t all = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	struct pour *pour = mem_new_of(struct pour);
	const int fds[2] = {first, second};
	struct err *err = OK;

	*pour = (struct pour){.loop = loop,
			      .idle = {.due = on_idle},
			      .later = {.run = egress_pour_on_later},
			      .idle_ms = idle_ms,
			      .moved_ms = loop_now(loop),
			      .table = table,
			      .arg = arg};
	link_init(&pour->later.link);
	for (int i = 0; i < 2; i++) {
		pour->side[i] = (struct side){
			.watch = {.fd = fds[i], .ready = egress_pour_on_ready}, .pour = pour};
		pour->flow[i].pipe.ends[0] = pour->flow[i].pipe.ends[1] = -1;
		if (!err && fd_nonblock(fds[i], true))
			err = err_sys(errno, "make a socket non-blocking");
	}
	for (int i = 0; i < 2 && !err; i++)
		err = loop_watch(loop, &pour->side[i].watch, all);
	if (err) {
		for (int i = 0; i < 2; i++) {
			loop_unwatch(loop, &pour->side[i].watch);
			close(fds[i]);
		}
		free(pour);
		return err;
	}
	loop_set_timer(loop, &pour->idle, loop_now(loop) + idle_ms);
	*out = pour;
	return OK;
}

void pour_stop(struct pour *pour)
{
	fail(pour, POUR_STOPPED);
	if (!pour->running)
		egress_pour_finish(pour);
}
