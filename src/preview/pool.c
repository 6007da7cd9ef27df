// A box whose connections are kept has a task that waits for its end and for their time: a socket
// in the box's network namespace keeps that alive, and a deleted box must leave nothing behind.
//
// A server that handles one connection at a time serves nobody else while one is kept: that is why
// the time is short.
//
// syscalls: recvfrom close
#include "preview/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "loop/task.h"

#define KEEP_MS 1000
#define BOX_MAX 64
#define ALL_MAX 512

struct kept {
	struct link link;
	int fd;
	uint16_t port;
	int64_t until_ms;
};

struct kept_box {
	struct pool *pool; // NULL: it is drained
	struct entry *entry;
	const struct box *box; // that they lead into: a box that starts anew is another one
	struct task *task;
	struct link kept; // the oldest first
	uint32_t count;
};

struct pool {
	struct loop *loop;
	struct map *boxes; // id -> kept_box
	uint32_t count;
	bool drained;
};

struct pool *pool_new(struct loop *loop)
{
	struct pool *pool = mem_new_of(struct pool);

	pool->loop = loop;
	pool->boxes = map_new();
	return pool;
}

// The descriptor is the caller's.
static int kept_take(struct kept_box *box, struct kept *kept)
{
	int fd = kept->fd;

	link_drop(&kept->link);
	free(kept);
	box->count--;
	if (box->pool)
		box->pool->count--;
	return fd;
}

static void kept_box_clear(struct kept_box *box, int64_t now_ms)
{
	list_each (at, &box->kept) {
		struct kept *kept = link_of(at, struct kept, link);

		if (kept->until_ms <= now_ms)
			close(kept_take(box, kept));
	}
}

static bool is_same_box(const struct kept_box *box)
{
	const struct entry *entry = box->entry;

	return box->pool && entry->record.state == STATE_RUNNING && entry->box == box->box &&
	       box_is_alive(entry->box);
}

static void kept_box_run(void *arg)
{
	struct kept_box *box = arg;
	struct loop *loop = task_loop(); // the pool may be drained already
	auto_err err = NULL;

	while (!err && is_same_box(box)) {
		kept_box_clear(box, loop_now(loop));
		if (!box->count)
			break;
		err = bell_wait(&box->entry->changed, loop_now(loop) + KEEP_MS);
		if (err && err_kind(err) == ERR_TIMEOUT)
			err_free(take_ptr(err));
	}
	kept_box_clear(box, INT64_MAX);
	if (box->pool)
		map_take(box->pool->boxes, str_of(box->entry->record.id));
	entry_drop(box->entry);
	free(box);
}

void pool_drain(struct pool *pool)
{
	size_t at = 0;
	struct str key;
	void *value;

	if (!pool || pool->drained)
		return;
	pool->drained = true;
	while (map_next(pool->boxes, &at, &key, &value)) {
		struct kept_box *box = value;

		kept_box_clear(box, INT64_MAX);
		box->pool = NULL;
		task_cancel(box->task);
	}
	map_free(pool->boxes);
	pool->boxes = NULL;
}

void pool_free(struct pool *pool)
{
	pool_drain(pool);
	free(pool);
}

static struct kept_box *kept_box_find(struct pool *pool, const struct entry *entry)
{
	struct kept_box *box = pool->drained ? NULL
					     : map_get(pool->boxes, str_of(entry->record.id));

	return box && is_same_box(box) ? box : NULL;
}

// Neither closed by its server nor with bytes that nobody asked for.
static bool is_idle(int fd)
{
	char one;

	return recv(fd, &one, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

int pool_take(struct pool *pool, const struct entry *entry, uint16_t port)
{
	struct kept_box *box = kept_box_find(pool, entry);

	if (!box)
		return -1;
	list_each (at, &box->kept) {
		struct kept *kept = link_of(at, struct kept, link);
		int fd;

		if (kept->port != port)
			continue;
		fd = kept_take(box, kept);
		if (is_idle(fd))
			return fd;
		close(fd);
	}
	return -1;
}

static struct kept_box *kept_box_new(struct pool *pool, struct entry *entry)
{
	struct kept_box *box = mem_new_of(struct kept_box);

	entry_hold(entry);
	*box = (struct kept_box){.pool = pool, .entry = entry, .box = entry->box};
	link_init(&box->kept);
	map_put(pool->boxes, str_of(entry->record.id), box);
	box->task = task_start(pool->loop, "preview.pool", kept_box_run, box);
	return box;
}

void pool_give(struct pool *pool, struct entry *entry, uint16_t port, int fd)
{
	struct kept_box *box = kept_box_find(pool, entry);
	struct kept *kept;

	// An older box of that id is on its way out: its task has to end first.
	if (pool->drained || pool->count >= ALL_MAX || entry->record.state != STATE_RUNNING ||
	    (!box && map_get(pool->boxes, str_of(entry->record.id))) ||
	    (box && box->count >= BOX_MAX)) {
		close(fd);
		return;
	}
	if (!box)
		box = kept_box_new(pool, entry);
	kept = mem_new_of(struct kept);
	*kept = (struct kept){.fd = fd, .port = port, .until_ms = loop_now(pool->loop) + KEEP_MS};
	link_add(&box->kept, &kept->link);
	box->count++;
	pool->count++;
}
