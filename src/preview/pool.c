// A box with kept connections has a task that waits for its end and for their timeout: a socket in
// the box's network namespace keeps the namespace alive, and a deleted box must leave nothing
// behind.
//
// A server that handles one connection at a time is blocked while one is kept: therefore the
// timeout is short.
//
// syscalls: recvfrom
#include "preview/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/mem.h"
#include "loop/task.h"

#define KEEP_MS 1000
#define BOX_MAX 64
#define ALL_MAX 512

struct kept_box {
	struct pool *pool; // NULL: drained
	struct link link;
	struct entry *entry;   // its `kept` is this
	const struct box *box; // the box they lead to: a restarted box is another one
	struct task *task;
	struct link kept; // oldest first
	uint32_t count;
};

struct pool {
	struct loop *loop;
	struct link boxes;
	uint32_t count;
	bool drained;
};

struct pool *pool_new(struct loop *loop)
{
	struct pool *pool = mem_new_of(struct pool);

	pool->loop = loop;
	link_init(&pool->boxes);
	return pool;
}

fallible pool_conn_new(struct loop *loop, int fd, uint16_t port, struct pool_conn **out)
{
	auto_free struct pool_conn *conn = mem_new_of(struct pool_conn);

	conn->port = port;
	snprintf(conn->host, sizeof(conn->host), "localhost:%u", port);
	TRY(stream_open(&conn->relay.stream, loop, fd), "watch a connection to a server");
	*out = take_ptr(conn);
	return OK;
}

void pool_conn_free(struct pool_conn *conn)
{
	if (!conn)
		return;
	relay_conn_close(&conn->relay);
	free(conn);
}

// Removes it from the pool; the caller owns it then.
static void kept_take(struct kept_box *box, struct pool_conn *conn)
{
	link_drop(&conn->link);
	box->count--;
	if (box->pool)
		box->pool->count--;
}

static void kept_box_clear(struct kept_box *box, int64_t now_ms)
{
	list_each (at, &box->kept) {
		struct pool_conn *conn = link_of(at, struct pool_conn, link);

		if (conn->until_ms > now_ms)
			continue;
		kept_take(box, conn);
		pool_conn_free(conn);
	}
}

static bool is_same_box(const struct kept_box *box)
{
	const struct entry *entry = box->entry;

	return box->pool && entry->box == box->box && entry_is_alive(entry);
}

static void kept_box_run(void *arg)
{
	struct kept_box *box = arg;
	struct loop *loop = task_loop(); // the pool may already be drained
	auto_err err = NULL;

	while (!err && is_same_box(box)) {
		kept_box_clear(box, loop_now(loop));
		if (!box->count)
			break;
		err = condition_wait(&box->entry->changed, loop_now(loop) + KEEP_MS);
		if (err && err_kind(err) == ERR_TIMEOUT)
			err_free(take_ptr(err));
	}
	kept_box_clear(box, INT64_MAX);
	link_drop(&box->link);
	box->entry->kept = NULL;
	entry_unref(box->entry);
	free(box);
}

void pool_drain(struct pool *pool)
{
	if (!pool || pool->drained)
		return;
	pool->drained = true;
	list_each (at, &pool->boxes) {
		struct kept_box *box = link_of(at, struct kept_box, link);

		kept_box_clear(box, INT64_MAX);
		box->pool = NULL;
		task_cancel(box->task);
		link_drop(&box->link);
	}
}

void pool_free(struct pool *pool)
{
	pool_drain(pool);
	free(pool);
}

// Whether the server has neither closed it nor sent unexpected bytes. Asks the kernel: the stream
// does not know yet about input of this loop iteration.
static bool pool_is_idle(const struct stream *stream)
{
	char one;

	return !stream->hung_up && recv(stream->fd, &one, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
	       errno == EAGAIN;
}

struct pool_conn *pool_take(struct pool *pool, const struct entry *entry, uint16_t port)
{
	struct kept_box *box = entry->kept;

	if (pool->drained || !box || !is_same_box(box))
		return NULL;
	list_each (at, &box->kept) {
		struct pool_conn *conn = link_of(at, struct pool_conn, link);

		if (conn->port != port)
			continue;
		kept_take(box, conn);
		if (pool_is_idle(&conn->relay.stream))
			return conn;
		pool_conn_free(conn);
	}
	return NULL;
}

static struct kept_box *kept_box_new(struct pool *pool, struct entry *entry)
{
	struct kept_box *box = mem_new_of(struct kept_box);

	entry_ref(entry);
	*box = (struct kept_box){.pool = pool, .entry = entry, .box = entry->box};
	link_init(&box->kept);
	link_add(&pool->boxes, &box->link);
	entry->kept = box;
	box->task = task_start(pool->loop, "preview.pool", kept_box_run, box);
	return box;
}

void pool_give(struct pool *pool, struct entry *entry, struct pool_conn *conn)
{
	struct kept_box *box = entry->kept;

	// The task of the box before a restart must end first.
	if (pool->drained || pool->count >= ALL_MAX || entry->record.state != STATE_RUNNING ||
	    (box && (!is_same_box(box) || box->count >= BOX_MAX))) {
		pool_conn_free(conn);
		return;
	}
	if (!box)
		box = kept_box_new(pool, entry);
	conn->until_ms = loop_now(pool->loop) + KEEP_MS;
	link_add(&box->kept, &conn->link);
	box->count++;
	pool->count++;
}
