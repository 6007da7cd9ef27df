// Copies between two sockets by splice(). Each direction holds a pipe only while it has bytes; idle
// pipes are pooled per thread. So ten thousand quiet connections have no pipes, and busy ones share
// a few large ones. A pipe that a slow reader leaves full stays with its direction.
//
// Both sockets are watched edge-triggered from the start: readiness is kept in flags until EAGAIN.
// EAGAIN into an empty pipe can only come from the socket. A direction moves at most TURN_MAX
// bytes, then returns to the loop.
//
// syscalls: splice pipe2 fcntl shutdown close setsockopt
#include "egress/splice.h"

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
	struct egress_splice *splice;
	bool readable, writable;
};

struct flow {
	struct pipe pipe; // ends[0] -1: none
	size_t held;	  // bytes in it
	bool ended;	  // end of stream
	bool shut;	  // and the other side was shut down
};

struct egress_splice {
	struct loop *loop;
	struct side side[2];
	struct flow flow[2];
	struct timer idle;
	struct deferred deferred;
	int64_t idle_ms;
	int64_t moved_ms; // when bytes last moved
	const struct egress_splice_table *table;
	void *arg;
	bool broken;
	enum egress_splice_end end;
	bool running; // in a callback: must not be freed now
	bool deferred_set;
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
	// Fails beyond the user's pipe limit (pipe-user-pages-soft): a small pipe works as well.
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

void egress_splice_trim(void)
{
	while (pool.count)
		pipe_close(&pool.at[--pool.count]);
}

// ------------------------------------------------------------------------------------ copying

static void fail(struct egress_splice *transfer, enum egress_splice_end end)
{
	if (!transfer->broken)
		transfer->end = end;
	transfer->broken = true;
}

// Moves bytes of `from` into the pipe. False: nothing to do now.
static bool egress_splice_draw(struct egress_splice *transfer, enum egress_splice_way way)
{
	struct flow *flow = &transfer->flow[way];
	struct side *from = &transfer->side[way];
	uint64_t want, granted;
	ssize_t n;

	if (flow->ended || !from->readable)
		return false;
	if (flow->pipe.ends[0] < 0 && !pipe_take(&flow->pipe)) {
		flow->pipe.ends[0] = flow->pipe.ends[1] = -1;
		fail(transfer, EGRESS_SPLICE_RESET);
		return false;
	}
	want = flow->pipe.size < PIECE ? flow->pipe.size : PIECE;
	granted = transfer->table->grant ? transfer->table->grant(transfer->arg, way, want) : want;
	// Nothing is granted; but an end of stream needs no budget.
	if (!granted) {
		char one;

		n = recv(from->watch.fd, &one, 1, MSG_PEEK | MSG_DONTWAIT);
		if (n > 0)
			fail(transfer, EGRESS_SPLICE_SPENT);
		else if (n == 0)
			flow->ended = true;
		else if (errno == EAGAIN)
			from->readable = false;
		else
			fail(transfer, EGRESS_SPLICE_RESET);
		return n == 0;
	}
	n = splice(from->watch.fd, NULL, flow->pipe.ends[1], NULL, granted,
		   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (transfer->table->moved)
		transfer->table->moved(transfer->arg, way, n > 0 ? (uint64_t)n : 0,
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
		fail(transfer, EGRESS_SPLICE_RESET);
	return n == 0;
}

// Moves the pipe's bytes into `to`. False: it takes no more now.
static bool egress_splice_push(struct egress_splice *transfer, enum egress_splice_way way)
{
	struct flow *flow = &transfer->flow[way];
	struct side *to = &transfer->side[!way];
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
		fail(transfer, EGRESS_SPLICE_RESET);
	return false;
}

// True: there is more to do at once.
static bool egress_splice_run(struct egress_splice *transfer, enum egress_splice_way way)
{
	struct flow *flow = &transfer->flow[way];
	size_t moved = 0;

	while (!transfer->broken && moved < TURN_MAX) {
		size_t before = flow->held;

		if (flow->held) {
			if (!egress_splice_push(transfer, way))
				break;
			moved += before - flow->held;
		} else if (!egress_splice_draw(transfer, way) || flow->ended) {
			break;
		}
	}
	if (moved)
		transfer->moved_ms = loop_now(transfer->loop);
	if (!flow->held)
		pipe_give(flow);
	if (flow->ended && !flow->held && !flow->shut && !transfer->broken) {
		shutdown(transfer->side[!way].watch.fd, SHUT_WR);
		flow->shut = true;
	}
	return !transfer->broken && moved >= TURN_MAX;
}

static void egress_splice_finish(struct egress_splice *transfer)
{
	const struct egress_splice_table *table = transfer->table;
	enum egress_splice_end end = transfer->end;
	void *arg = transfer->arg;
	static const struct linger now = {.l_onoff = 1};

	loop_drop_timer(transfer->loop, &transfer->idle);
	if (transfer->deferred_set)
		link_drop(&transfer->deferred.link);
	for (int i = 0; i < 2; i++) {
		loop_unwatch(transfer->loop, &transfer->side[i].watch);
		// Reset: the peer must not take it for an orderly end.
		if (end != EGRESS_SPLICE_DONE)
			setsockopt(transfer->side[i].watch.fd, SOL_SOCKET, SO_LINGER, &now,
				   sizeof(now));
		fd_drop(&transfer->side[i].watch.fd);
		if (transfer->flow[i].held)
			pipe_close(&transfer->flow[i].pipe);
		else
			pipe_give(&transfer->flow[i]);
	}
	free(transfer);
	table->ended(arg, end);
}

static void egress_splice_turn(struct egress_splice *transfer)
{
	bool more;

	transfer->running = true;
	more = egress_splice_run(transfer, EGRESS_SPLICE_OUT);
	more |= egress_splice_run(transfer, EGRESS_SPLICE_IN);
	transfer->running = false;
	if (transfer->broken ||
	    (transfer->flow[EGRESS_SPLICE_OUT].shut && transfer->flow[EGRESS_SPLICE_IN].shut)) {
		egress_splice_finish(transfer);
		return;
	}
	if (more && !transfer->deferred_set) {
		transfer->deferred_set = true;
		loop_defer(transfer->loop, &transfer->deferred);
	}
}

static void egress_splice_on_deferred(struct deferred *deferred)
{
	struct egress_splice *transfer = link_of(deferred, struct egress_splice, deferred);

	transfer->deferred_set = false;
	egress_splice_turn(transfer);
}

static void egress_splice_on_ready(struct watch *watch, uint32_t events)
{
	struct side *side = link_of(watch, struct side, watch);

	side->readable |= (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	side->writable |= (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
	egress_splice_turn(side->splice);
}

// Rearmed only when it fires: moving bytes updates a time, not the timer.
static void on_idle(struct timer *timer)
{
	struct egress_splice *transfer = link_of(timer, struct egress_splice, idle);
	int64_t at = transfer->moved_ms + transfer->idle_ms;

	if (at > loop_now(transfer->loop)) {
		loop_set_timer(transfer->loop, &transfer->idle, at);
		return;
	}
	fail(transfer, EGRESS_SPLICE_IDLE);
	egress_splice_finish(transfer);
}

fallible egress_splice_start(struct loop *loop, int first, int second, int64_t idle_ms,
			     const struct egress_splice_table *table, void *arg,
			     struct egress_splice **out)
{
	const uint32_t all = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	struct egress_splice *transfer = mem_new_of(struct egress_splice);
	const int fds[2] = {first, second};
	struct err *err = OK;

	*transfer = (struct egress_splice){.loop = loop,
					   .idle = {.due = on_idle},
					   .deferred = {.run = egress_splice_on_deferred},
					   .idle_ms = idle_ms,
					   .moved_ms = loop_now(loop),
					   .table = table,
					   .arg = arg};
	link_init(&transfer->deferred.link);
	for (int i = 0; i < 2; i++) {
		transfer->side[i] = (struct side){
			.watch = {.fd = fds[i], .ready = egress_splice_on_ready},
			.splice = transfer};
		transfer->flow[i].pipe.ends[0] = transfer->flow[i].pipe.ends[1] = -1;
		if (!err && fd_nonblock(fds[i], true))
			err = err_sys(errno, "make a socket non-blocking");
	}
	for (int i = 0; i < 2 && !err; i++)
		err = loop_watch(loop, &transfer->side[i].watch, all);
	if (err) {
		for (int i = 0; i < 2; i++) {
			loop_unwatch(loop, &transfer->side[i].watch);
			close(fds[i]);
		}
		free(transfer);
		return err;
	}
	loop_set_timer(loop, &transfer->idle, loop_now(loop) + idle_ms);
	*out = transfer;
	return OK;
}

void egress_splice_stop(struct egress_splice *transfer)
{
	fail(transfer, EGRESS_SPLICE_STOPPED);
	if (!transfer->running)
		egress_splice_finish(transfer);
}
