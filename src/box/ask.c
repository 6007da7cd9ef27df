// One task keeps the connection to the warden: it dials, sends HELLO, then reads answers and hands
// each to the waiting order by its number. Orders are sent by the tasks that give them, one at a
// time.
//
// An order whose task has stopped waiting leaves the list; the fds of its late answer are closed. A
// lost connection fails every waiting order at once. Whether such an order was carried out is
// unknown until the boxes are listed over the next connection.
//
// syscalls: close fcntl
#include "box/ask.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/stall.h"
#include "loop/dial.h"
#include "loop/stream.h"
#include "os/fd.h"

#define HELLO_MS 5000
#define RELINK_MIN_MS 10
#define RELINK_MAX_MS 100 // a warden restarts within a second, and a dial is cheap

struct pending {
	struct link link;
	uint32_t id;
	enum order_kind kind;
	bool more; // MORE has come with its fd
	bool done; // the answer has come; `err` otherwise says why not
	struct err *err;
	struct answer *answer;
	int fds[ORDER_FDS_MAX];
	int fd_count;
	struct condition condition;
};

struct loss {
	struct link link;
	void (*lost)(void *arg);
	void *arg;
};

struct ask {
	struct loop *loop;
	char *path;
	struct task *task;
	bool closing;
	bool linked;
	bool refused; // a send met a closed socket; `linked` is cleared when the loop notices
	struct stream stream;
	struct condition linked_condition;
	struct order_host host;
	uint32_t last_id;
	char next[ID_BOX_LEN + 1];     // id of the next box
	char expected[ID_BOX_LEN + 1]; // the id that the warden expects
	struct link pending;
	uint32_t links; // connections so far
	bool sending;	// a task is in stream_send()
	struct condition sent;
	struct link losses;
	char room[ORDER_SIZE_MAX];
	struct answer answer; // too big for a stack
};

static fallible no_warden(void)
{
	return err_hint(err_new(UNAVAILABLE, "no_warden",
				"the warden, which creates sandboxes, is not running"),
			"try again in a moment; it is being restarted");
}

fallible ask_unanswered(struct err *err)
{
	if (!err || err_kind(err) != ERR_TIMEOUT)
		return err;
	return err_recast(err, ERR_UNAVAILABLE, "no_warden",
			  "the warden, which creates sandboxes, does not answer");
}

fallible ask_no_files(void)
{
	return err_hint(err_new(EXHAUSTED, ASK_NO_FILES, "this host is short of file descriptors"),
			"delete sandboxes that nobody needs, or try again in a moment");
}

static void drop_fds(int *fds, int *count)
{
	while (*count > 0)
		close(fds[--*count]);
}

static void answered(struct pending *pending, struct err *err)
{
	link_drop(&pending->link);
	pending->err = err;
	pending->done = !err;
	condition_signal(&pending->condition);
}

static void unlink_all(struct ask *ask)
{
	bool was_linked = ask->linked;

	ask->linked = ask->refused = false;
	stall_link(-1);
	stream_close(&ask->stream);
	list_each (at, &ask->pending)
		answered(link_of(at, struct pending, link), no_warden());
	condition_signal(&ask->linked_condition);
	if (!was_linked || ask->closing)
		return;
	list_each (at, &ask->losses) {
		struct loss *loss = link_of(at, struct loss, link);

		loss->lost(loss->arg);
	}
}

static struct pending *ask_find(struct ask *ask, const struct answer *answer)
{
	list_each (at, &ask->pending) {
		struct pending *pending = link_of(at, struct pending, link);

		if (pending->id == answer->id && pending->kind == answer->to)
			return pending;
	}
	return NULL;
}

// Takes ownership of the fds.
static void deliver(struct ask *ask, int *fds, int count)
{
	const struct answer *answer = &ask->answer;
	struct pending *pending = ask_find(ask, answer);

	if (!pending || (answer->kind == ANSWER_MORE && pending->more)) {
		drop_fds(fds, &count);
		return;
	}
	if (answer->kind == ANSWER_REFUSED) {
		answered(pending,
			 err_from(answer->error, answer->reason, answer->message, answer->hint));
		return;
	}
	drop_fds(pending->fds, &pending->fd_count);
	if (count == FD_LOST) {
		*pending->answer = *answer;
		answered(pending, ask_no_files());
		return;
	}
	memcpy(pending->fds, fds, (size_t)count * sizeof(*fds));
	pending->fd_count = count;
	if (answer->kind == ANSWER_MORE) {
		pending->more = true;
		condition_signal(&pending->condition);
		return;
	}
	*pending->answer = *answer;
	answered(pending, OK);
}

// Reads one answer. *out_end: the warden closed the socket.
static fallible read_answer(struct ask *ask, int *fds, int *out_count, bool *out_end,
			    int64_t deadline)
{
	int count = 0;
	size_t len = 0;
	struct err *err;

	TRY(stream_recv(&ask->stream, ask->room, sizeof(ask->room), fds, ORDER_FDS_MAX, &count,
			&len, deadline));
	*out_end = len == 0;
	if (len == 0)
		return OK;
	err = answer_decode(ask->room, len, &ask->answer);
	if (!err && count != FD_LOST && count != answer_fds(&ask->answer))
		err = err_new(BAD_PEER, "bad_answer", "the warden sent %d fds with '%s'", count,
			      order_word(ask->answer.to));
	if (err)
		drop_fds(fds, &count);
	*out_count = count;
	if (!err)
		kill_point("daemon.answer_heard", order_word(ask->answer.to));
	return err;
}

static fallible ask_greet(struct ask *ask)
{
	struct order hello = {.kind = ORDER_HELLO, .id = ++ask->last_id, .version = ORDER_VERSION};
	int64_t deadline = loop_now(ask->loop) + HELLO_MS;
	int fds[ORDER_FDS_MAX], count = 0;
	bool end = false;
	size_t len;

	memcpy(hello.next, ask->next, sizeof(hello.next));
	memcpy(ask->expected, ask->next, sizeof(ask->expected));
	len = order_encode(&hello, ask->room, sizeof(ask->room));
	TRY(stream_send(&ask->stream, ask->room, len, NULL, 0, deadline));
	kill_point("daemon.order_sent", order_word(ORDER_HELLO));
	TRY(read_answer(ask, fds, &count, &end, deadline));
	drop_fds(fds, &count);
	if (end)
		return err_new(BAD_PEER, "peer_gone", "the warden hung up");
	if (ask->answer.kind != ANSWER_DONE || ask->answer.to != ORDER_HELLO ||
	    ask->answer.host.version != ORDER_VERSION)
		return err_new(BAD_PEER, "bad_answer", "the warden has another protocol version");
	ask->host = ask->answer.host;
	return OK;
}

static fallible serve_link(struct ask *ask)
{
	TRY(dial_local(ask->loop, ask->path, loop_now(ask->loop) + HELLO_MS, &ask->stream),
	    "dial the warden");
	TRY(ask_greet(ask), "send HELLO to the warden");
	ask->linked = true;
	ask->links++;
	stall_link(fcntl(ask->stream.fd, F_DUPFD_CLOEXEC, 3));
	condition_signal(&ask->linked_condition);
	for (;;) {
		int fds[ORDER_FDS_MAX], count = 0;
		bool end = false;

		TRY(read_answer(ask, fds, &count, &end, CLOCK_NEVER), "read from the warden");
		if (end)
			return err_new(BAD_PEER, "peer_gone", "the warden hung up");
		deliver(ask, fds, count);
	}
}

static void ask_free(struct ask *ask)
{
	list_each (at, &ask->losses)
		free(link_of(at, struct loss, link));
	free(ask->path);
	free(ask);
}

static void keep_link(void *arg)
{
	struct ask *ask = arg;
	int64_t pause = RELINK_MIN_MS;

	while (!ask->closing) {
		auto_err err = serve_link(ask);
		bool was_linked = ask->linked;

		unlink_all(ask);
		if (ask->closing)
			break;
		if (was_linked)
			log_event(LOG_WARN, "warden.lost", "error", err_trail(err), NULL);
		pause = was_linked ? RELINK_MIN_MS : pause * 2;
		if (pause > RELINK_MAX_MS)
			pause = RELINK_MAX_MS;
		err_free(task_sleep_until(loop_now(ask->loop) + pause));
	}
	ask_free(ask);
}

struct ask *ask_open(struct loop *loop, const char *path)
{
	struct ask *ask = mem_new_of(struct ask);

	ask->loop = loop;
	ask->path = mem_str(path);
	id_box(ask->next);
	ask->stream.fd = -1;
	condition_init(&ask->linked_condition);
	condition_init(&ask->sent);
	link_init(&ask->pending);
	link_init(&ask->losses);
	ask->task = task_start(loop, "ask.link", keep_link, ask);
	return ask;
}

void ask_name_box(struct ask *ask, char out[ID_BOX_LEN + 1])
{
	memcpy(out, ask->next, sizeof(ask->next));
	id_box(ask->next);
}

void ask_close(struct ask *ask)
{
	if (!ask)
		return;
	ask->closing = true;
	task_cancel(ask->task); // the task frees `ask`
}

const struct order_host *ask_host(const struct ask *ask)
{
	return ask->linked ? &ask->host : NULL;
}

const struct order_host *ask_last_host(const struct ask *ask)
{
	return ask->links ? &ask->host : NULL;
}

bool ask_is_same(const struct ask *ask, uint32_t links)
{
	return ask->linked && ask->links == links;
}

uint32_t ask_links(const struct ask *ask)
{
	return ask->links;
}

fallible ask_wait_linked(struct ask *ask, int64_t deadline)
{
	while (!ask->linked || ask->refused) {
		auto_err err = condition_wait(&ask->linked_condition, deadline);

		if (err && err_kind(err) == ERR_TIMEOUT)
			return no_warden();
		if (err)
			return take_ptr(err);
	}
	return OK;
}

void ask_on_loss(struct ask *ask, void (*lost)(void *arg), void *arg)
{
	struct loss *loss = mem_new_of(struct loss);

	*loss = (struct loss){.lost = lost, .arg = arg};
	link_add(&ask->losses, &loss->link);
}

static fallible send_order(struct ask *ask, const struct order *order, int fd, int64_t deadline)
{
	char room[1024];
	size_t len = order_encode(order, room, sizeof(room));
	struct err *err;

	if (len == 0)
		return err_sys(0, "encode the order '%s'", order_word(order->kind));
	while (ask->linked && ask->sending)
		TRY(condition_wait(&ask->sent, deadline), "wait to send an order");
	if (!ask->linked)
		return no_warden();
	ask->sending = true;
	err = stream_send(&ask->stream, room, len, &fd, order_brings(order), deadline);
	kill_point("daemon.order_sent", order_word(order->kind));
	ask->sending = false;
	condition_signal(&ask->sent);
	// The socket may be closed before the loop has noticed. Set `refused`, so that
	// ask_wait_linked() waits for the next connection: a caller that retried at once would
	// never let the loop notice.
	if (err && (!ask->linked || err_kind(err) == ERR_BAD_PEER)) {
		ask->refused = ask->linked;
		err_free(err);
		return no_warden();
	}
	return err;
}

bool ask_is_expected(const struct ask *ask, const char *box)
{
	return !strcmp(ask->expected, box);
}

static void box_ask_number(struct ask *ask, struct order *order)
{
	if (++ask->last_id == 0)
		ask->last_id = 1;
	order->id = ask->last_id;
	memcpy(order->next, ask->next, sizeof(order->next));
	if ((order->kind == ORDER_BUILD && !order->ahead) ||
	    (order->kind == ORDER_DESTROY && ask_is_expected(ask, order->box)))
		memcpy(ask->expected, ask->next, sizeof(ask->expected));
	if (order_is_trace(str_of(log_trace_now())))
		snprintf(order->trace, sizeof(order->trace), "%s", log_trace_now());
}

bool ask_send(struct ask *ask, struct order *order)
{
	char room[1024];
	size_t len;

	if (!ask->linked || ask->sending)
		return false;
	box_ask_number(ask, order);
	len = order_encode(order, room, sizeof(room));
	return len && fd_send(ask->stream.fd, room, len, NULL, 0, MSG_DONTWAIT) >= 0;
}

static fallible ask_begin(struct ask *ask, struct order *order, int fd, struct pending *pending,
			  struct answer *answer, int64_t deadline)
{
	struct err *err;

	if (!ask->linked)
		return no_warden();
	box_ask_number(ask, order);
	*pending = (struct pending){.id = order->id, .kind = order->kind, .answer = answer};
	condition_init(&pending->condition);
	link_add(&ask->pending, &pending->link);
	err = send_order(ask, order, fd, deadline);
	if (err) {
		link_drop(&pending->link);
		drop_fds(pending->fds, &pending->fd_count);
		err_free(pending->err);
	}
	return err;
}

// Waits for the answer, or with `more` for its MORE only.
static fallible ask_await(struct pending *pending, bool more, int64_t deadline)
{
	struct err *err = OK;

	while (!err && !pending->done && !pending->err && !(more && pending->more))
		err = condition_wait(&pending->condition, deadline);
	if (err && (pending->done || pending->err)) {
		err_free(err); // the deadline passed, but the answer had come
		err = OK;
	}
	if (!err)
		err = take_ptr(pending->err);
	if (err) {
		link_drop(&pending->link);
		drop_fds(pending->fds, &pending->fd_count);
	}
	return err;
}

fallible ask_order_with(struct ask *ask, struct order *order, int fd, struct answer *out, int *fds,
			int64_t deadline)
{
	struct pending pending;

	TRY(ask_begin(ask, order, fd, &pending, out, deadline));
	TRY(ask_await(&pending, false, deadline), "order '%s'", order_word(order->kind));
	if (pending.fd_count > 0)
		memcpy(fds, pending.fds, (size_t)pending.fd_count * sizeof(*fds));
	return OK;
}

fallible ask_order(struct ask *ask, struct order *order, struct answer *out, int *fds,
		   int64_t deadline)
{
	return ask_order_with(ask, order, -1, out, fds, deadline);
}

fallible ask_plain(struct ask *ask, struct order *order, const char *box, int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	int none[ORDER_FDS_MAX];

	memcpy(order->box, box, sizeof(order->box));
	return ask_order(ask, order, answer, none, deadline);
}

fallible ask_end(struct ask *ask, enum order_kind kind, const char *box, int64_t deadline,
		 uint64_t *out_cpu_us)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = kind};
	int none[ORDER_FDS_MAX];

	memcpy(order.box, box, sizeof(order.box));
	TRY(ask_order(ask, &order, answer, none, deadline));
	*out_cpu_us = answer->cpu_us;
	return OK;
}

fallible ask_boxes(struct ask *ask, void (*each)(void *arg, const struct order_box *cell),
		   void *arg, int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_BOXES};
	int none[ORDER_FDS_MAX];

	do {
		TRY(ask_order(ask, &order, answer, none, deadline));
		for (uint32_t i = 0; i < answer->cell_count; i++)
			each(arg, &answer->cells[i]);
		if (answer->cell_count)
			memcpy(order.box, answer->cells[answer->cell_count - 1].box,
			       sizeof(order.box));
	} while (answer->cell_count == ORDER_BOXES_PAGE);
	return OK;
}

fallible ask_volumes(struct ask *ask, void (*each)(void *arg, const struct order_volume *volume),
		     void *arg, int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_VOLUMES};
	int none[ORDER_FDS_MAX];

	do {
		TRY(ask_order(ask, &order, answer, none, deadline));
		for (uint32_t i = 0; i < answer->volume_count; i++)
			each(arg, &answer->volumes[i]);
		if (answer->volume_count)
			memcpy(order.volume, answer->volumes[answer->volume_count - 1].volume,
			       sizeof(order.volume));
	} while (answer->volume_count == ORDER_VOLUMES_PAGE);
	return OK;
}

struct ask_import {
	struct pending pending;
	struct answer answer;
};

fallible ask_import_begin(struct ask *ask, const char *name, struct ask_import **out, int *out_pipe)
{
	auto_free struct ask_import *import = mem_new_of(struct ask_import);
	struct order order = {.kind = ORDER_IMPORT};
	int64_t deadline = loop_now(ask->loop) + HELLO_MS;

	strncpy(order.name, name, sizeof(order.name) - 1);
	TRY(ask_begin(ask, &order, -1, &import->pending, &import->answer, deadline));
	TRY(ask_await(&import->pending, true, deadline), "begin an import");
	if (!import->pending.more) {
		drop_fds(import->pending.fds, &import->pending.fd_count);
		return err_new(BAD_PEER, "bad_answer", "the warden sent no pipe for the archive");
	}
	import->pending.fd_count = 0;
	*out_pipe = import->pending.fds[0];
	*out = take_ptr(import);
	return OK;
}

fallible ask_import_end(struct ask_import *import, struct answer *out, int64_t deadline)
{
	auto_free struct ask_import *held = import;

	TRY(ask_await(&held->pending, false, deadline), "end an import");
	*out = held->answer;
	return OK;
}
