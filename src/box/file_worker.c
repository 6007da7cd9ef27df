// A file worker is a socket whose other end is a process in the box, forked by pid 1 on
// TALK_WORKER. Short requests share a few workers and wait PATIENCE_MS before another is forked;
// long ones get their own; endless ones are limited. An idle worker sends nothing: if its socket is
// readable, it has died. One that sends while its holder is not waiting is not watched, so that it
// cannot spin the loop.
//
// syscalls: sendmsg recvmsg recvfrom close
#include "box/file_worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "box/exec_message.h"
#include "box/pipe.h"
#include "box/private.h"
#include "loop/closer.h"
#include "os/fd.h"

#define REST_MS 30000
#define REST_MAX 4
#define SHORT_SHARED 4 // workers for short requests before another is forked
#define PATIENCE_MS 3
#define START_MS 10000
#define SPREE_MAX 64

enum file_worker_phase {
	FILE_WORKER_ASKED,     // pid 1 was asked; WORKER_IS or FAILED answers
	FILE_WORKER_ABANDONED, // the same, but its requester stopped waiting: the answer ends it
	FILE_WORKER_FAILED,    // there is none; the requester drops it
	FILE_WORKER_BUSY,      // a request has it
	FILE_WORKER_RESTS,     // it is idle and may be taken; a timer ends it
	FILE_WORKER_GONE       // its socket is closed; the holder drops it
};

struct box_file_worker {
	struct box *box;
	struct link link; // box->workers
	char user[65];
	uint32_t conn;
	enum file_worker_phase phase;
	enum file_worker_use use;
	bool fresh; // a request was sent: wait before reading
	bool waits;
	bool hung_up;
	bool unheard;	// it died without reading the request
	uint32_t spree; // answers without a wait in between
	struct watch watch;
	struct timer timer;
	struct condition condition;
	struct talk failure;
	struct deferred free_later;
};

// Only the loop's thread is here; the content is used before the next wait.
static char words[FILEOP_SIZE_MAX];

static void free_worker(struct deferred *deferred)
{
	struct box_file_worker *worker = link_of(deferred, struct box_file_worker, free_later);

	box_unref(worker->box);
	free(worker);
}

static void close_worker(struct box_file_worker *worker)
{
	if (worker->watch.fd >= 0)
		loop_unwatch(worker->box->loop, &worker->watch);
	closer_drop(&worker->watch.fd);
	loop_drop_timer(worker->box->loop, &worker->timer);
	worker->phase = FILE_WORKER_GONE;
}

void box_file_worker_drop(struct box_file_worker *worker)
{
	struct box *box = worker->box;

	close_worker(worker);
	link_drop(&worker->link);
	box->worker_count--;
	condition_signal(&box->worker_free);
	loop_defer(box->loop, &worker->free_later);
}

static void on_rest_over(struct timer *timer)
{
	box_file_worker_drop(link_of(timer, struct box_file_worker, timer));
}

static void box_file_worker_on_ready(struct watch *watch, uint32_t events)
{
	struct box_file_worker *worker = link_of(watch, struct box_file_worker, watch);

	worker->hung_up |= (events & (EPOLLHUP | EPOLLERR)) != 0;
	if (worker->phase == FILE_WORKER_RESTS) {
		box_file_worker_drop(worker);
		return;
	}
	if (worker->waits)
		condition_signal(&worker->condition);
	else
		loop_unwatch(worker->box->loop, watch);
}

static struct box_file_worker *new_worker(struct box *box, const char *user,
					  enum file_worker_use use)
{
	struct box_file_worker *worker = mem_new_of(struct box_file_worker);

	box_ref(box);
	worker->box = box;
	worker->use = use;
	strncpy(worker->user, user, sizeof(worker->user) - 1);
	worker->watch.fd = -1;
	worker->watch.ready = box_file_worker_on_ready;
	worker->timer.due = on_rest_over;
	worker->free_later.run = free_worker;
	condition_init(&worker->condition);
	link_add(&box->workers, &worker->link);
	box->worker_count++;
	return worker;
}

static struct box_file_worker *find_asked(struct box *box, uint32_t conn)
{
	list_each (at, &box->workers) {
		struct box_file_worker *worker = link_of(at, struct box_file_worker, link);

		if (worker->phase <= FILE_WORKER_ABANDONED && worker->conn == conn)
			return worker;
	}
	return NULL;
}

bool box_file_worker_on_message(struct box *box, const struct talk *talk, int *fds, int count)
{
	struct box_file_worker *worker = find_asked(box, talk->conn);
	bool is = talk->kind == TALK_WORKER_IS, abandoned;

	if (!worker || (!is && talk->kind != TALK_FAILED))
		return false;
	if (is && count != FD_LOST && (count != 1 || !pipe_fd_is(fds[0], S_IFSOCK))) {
		closer_drop_all(fds, count);
		box_break(box, "pid 1 sent no file worker");
		return true;
	}
	abandoned = worker->phase == FILE_WORKER_ABANDONED;
	worker->failure = *talk;
	worker->phase = is && count == 1 ? FILE_WORKER_BUSY : FILE_WORKER_FAILED;
	worker->watch.fd = is && count == 1 ? fds[0] : -1;
	if (abandoned)
		box_file_worker_drop(worker);
	else
		condition_signal(&worker->condition);
	return true;
}

void box_file_worker_end_all(struct box *box)
{
	list_each (at, &box->workers) {
		struct box_file_worker *worker = link_of(at, struct box_file_worker, link);

		if (worker->phase == FILE_WORKER_RESTS || worker->phase == FILE_WORKER_ABANDONED) {
			box_file_worker_drop(worker);
			continue;
		}
		close_worker(worker);
		condition_signal(&worker->condition);
	}
	condition_signal(&box->worker_free);
}

// -------------------------------------------------------------------------------- taking one

static fallible send_worker(struct box_file_worker *worker, int64_t deadline)
{
	struct talk talk = {.kind = TALK_WORKER, .conn = worker->conn};

	talk.worker.user = str_of(worker->user);
	for (;;) {
		switch (channel_say(&worker->box->channel, &talk)) {
		case CHANNEL_SENT:
			return OK;
		case CHANNEL_FULL:
			TRY(condition_wait(&worker->box->channel.room, deadline), "send to pid 1");
			break;
		default:
			return exec_message_box_lost();
		}
	}
}

static fallible box_file_worker_explain(const struct box_file_worker *worker)
{
	struct exec_spec spec = {.user = worker->user};

	if (worker->phase == FILE_WORKER_GONE)
		return exec_message_box_lost();
	if (worker->failure.kind == TALK_WORKER_IS)
		return ask_no_files();
	return exec_message_explain(&worker->failure, &spec);
}

static fallible box_file_worker_make(struct box *box, const char *user, enum file_worker_use use,
				     int64_t deadline, struct box_file_worker **out)
{
	int64_t latest = loop_now(box->loop) + START_MS;
	struct box_file_worker *worker;
	struct err *err;

	if (strlen(user) >= sizeof(worker->user))
		return err_new(INVALID, "no_user", "there is no such user in the sandbox");
	worker = new_worker(box, user, use);
	worker->conn = ++box->last_conn;
	err = send_worker(worker, deadline < latest ? deadline : latest);
	if (err) {
		box_file_worker_drop(worker);
		return err;
	}
	while (worker->phase == FILE_WORKER_ASKED && !err)
		err = condition_wait(&worker->condition, deadline < latest ? deadline : latest);
	if (worker->phase == FILE_WORKER_ASKED) {
		worker->phase = FILE_WORKER_ABANDONED; // the answer of pid 1 is still to come
		return err;
	}
	err_free(err);
	if (worker->phase == FILE_WORKER_BUSY) {
		err = loop_watch(box->loop, &worker->watch, EPOLLIN);
		if (!err) {
			*out = worker;
			return OK;
		}
	} else {
		err = box_file_worker_explain(worker);
	}
	box_file_worker_drop(worker);
	return err;
}

// An idle worker of that user; NULL: of any.
static struct box_file_worker *find_resting(struct box *box, const char *user)
{
	list_each (at, &box->workers) {
		struct box_file_worker *worker = link_of(at, struct box_file_worker, link);

		if (worker->phase == FILE_WORKER_RESTS && (!user || !strcmp(worker->user, user)))
			return worker;
	}
	return NULL;
}

void box_file_worker_rest_end(struct box *box)
{
	struct box_file_worker *idle;

	while ((idle = find_resting(box, NULL)))
		box_file_worker_drop(idle);
}

struct tally {
	uint32_t by_use[FILE_WORKER_ENDLESS + 1], resting;
};

static struct tally box_file_worker_count(const struct box *box)
{
	struct tally tally = {0};

	list_each (at, (struct link *)&box->workers) {
		const struct box_file_worker *worker = link_of(at, struct box_file_worker, link);

		if (worker->phase == FILE_WORKER_RESTS)
			tally.resting++;
		else
			tally.by_use[worker->use]++;
	}
	return tally;
}

static fallible too_many(void)
{
	return err_hint(err_new(EXHAUSTED, "too_many_requests",
				"too much is going on in the sandbox at once"),
			"at most %d watches at the same time", BOX_WORKERS_ENDLESS);
}

// Makes room for another, by ending an idle one if need be.
static bool box_file_worker_make_room(struct box *box)
{
	struct box_file_worker *idle;

	if (box->worker_count < BOX_WORKERS_MAX)
		return true;
	idle = find_resting(box, NULL);
	if (idle)
		box_file_worker_drop(idle);
	return idle;
}

// True if the request must wait for a worker: short ones for a moment, long ones while all are
// taken.
static bool must_wait(const struct tally *tally, enum file_worker_use use, bool is_patient)
{
	if (use == FILE_WORKER_SHORT)
		return is_patient && tally->by_use[FILE_WORKER_SHORT] >= SHORT_SHARED;
	return tally->by_use[FILE_WORKER_LONG] + tally->by_use[FILE_WORKER_ENDLESS] >=
	       BOX_WORKERS_BOUND;
}

fallible box_file_worker_take(struct box *box, const char *user, enum file_worker_use use,
			      int64_t deadline, struct box_file_worker **out)
{
	int64_t patience = loop_now(box->loop) + PATIENCE_MS;

	for (;;) {
		struct tally tally = box_file_worker_count(box);
		struct box_file_worker *worker = find_resting(box, user);
		bool is_patient = use == FILE_WORKER_SHORT && loop_now(box->loop) < patience;
		bool waits = must_wait(&tally, use, is_patient);
		int64_t until = is_patient && patience < deadline ? patience : deadline;
		auto_err err = OK;

		if (!box_is_alive(box))
			return exec_message_box_lost();
		if (use == FILE_WORKER_ENDLESS &&
		    tally.by_use[FILE_WORKER_ENDLESS] >= BOX_WORKERS_ENDLESS)
			return too_many();
		if (worker && (use == FILE_WORKER_SHORT || !waits)) {
			loop_drop_timer(box->loop, &worker->timer);
			worker->phase = FILE_WORKER_BUSY;
			worker->use = use;
			*out = worker;
			return OK;
		}
		if (!waits && box_file_worker_make_room(box))
			return box_file_worker_make(box, user, use, deadline, out);
		err = condition_wait(&box->worker_free, until);
		if (err && (err_kind(err) != ERR_TIMEOUT || until == deadline))
			return take_ptr(err);
	}
}

const char *box_file_worker_box(const struct box_file_worker *worker)
{
	return worker->box->id;
}

void box_file_worker_give(struct box_file_worker *worker)
{
	struct box *box = worker->box;
	struct tally tally = box_file_worker_count(box);

	if (worker->phase != FILE_WORKER_BUSY || tally.resting >= REST_MAX || !box_is_alive(box)) {
		box_file_worker_drop(worker);
		return;
	}
	if (!worker->watch.events) {
		struct err *err = loop_watch(box->loop, &worker->watch, EPOLLIN);

		if (err) {
			err_free(err);
			box_file_worker_drop(worker);
			return;
		}
	}
	worker->phase = FILE_WORKER_RESTS;
	loop_set_timer(box->loop, &worker->timer, loop_now(box->loop) + REST_MS);
	link_drop(&worker->link);
	link_push(&box->workers, &worker->link); // the worker used last is used next
	condition_signal(&box->worker_free);
}

// ------------------------------------------------------------------------------- using one

static fallible lost(const struct box_file_worker *worker)
{
	if (!box_is_alive(worker->box))
		return exec_message_box_lost();
	return err_hint(err_new(INTERNAL, "file_worker_lost",
				"the request ended inside of the sandbox before it was done"),
			"something in the sandbox killed it, or there was no memory left");
}

fallible box_file_worker_ask(struct box_file_worker *worker, const struct fileop_request *ask)
{
	size_t len = fileop_encode_request(ask, words, sizeof(words));

	if (len == 0)
		return err_new(TOO_LARGE, "request_too_large", "the request is too large");
	if (worker->phase != FILE_WORKER_BUSY ||
	    fd_send(worker->watch.fd, words, len, NULL, 0, MSG_DONTWAIT) < 0) {
		// An idle worker has read all earlier requests: a failed send means that it is
		// dead.
		worker->unheard = true;
		return lost(worker);
	}
	worker->fresh = true;
	return OK;
}

void box_file_worker_nudge(struct box_file_worker *worker)
{
	// A full socket means that an earlier nudge is unread.
	if (worker->phase == FILE_WORKER_BUSY)
		(void)fd_send(worker->watch.fd, "", 1, NULL, 0, MSG_DONTWAIT);
}

static fallible box_file_worker_await_event(struct box_file_worker *worker, int64_t deadline)
{
	struct err *err = OK;

	if (!worker->watch.events)
		TRY(loop_watch(worker->box->loop, &worker->watch, EPOLLIN), "watch a file worker");
	worker->spree = 0;
	worker->waits = true;
	err = condition_wait(&worker->condition, deadline);
	worker->waits = false;
	return err_while(err, "wait for a file worker");
}

fallible box_file_worker_await(struct box_file_worker *worker, int64_t deadline)
{
	char byte;
	ssize_t n;

	worker->fresh = false;
	TRY(box_file_worker_await_event(worker, deadline));
	if (!worker->hung_up || worker->phase != FILE_WORKER_BUSY)
		return OK;
	n = recv(worker->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	// ECONNRESET: the peer was closed with unread data.
	worker->unheard = n < 0 && errno == ECONNRESET;
	return n > 0 ? OK : lost(worker);
}

bool box_file_worker_unheard(const struct box_file_worker *worker)
{
	return worker->unheard;
}

// Yields after SPREE_MAX answers, so that a worker that always has more cannot starve other tasks
// or outlive its deadline.
static fallible box_file_worker_breathe(struct box_file_worker *worker, int64_t deadline)
{
	if (++worker->spree < SPREE_MAX)
		return OK;
	worker->spree = 0;
	TRY(task_sleep_until(0));
	if (loop_now(worker->box->loop) >= deadline)
		return err_new(TIMEOUT, "timeout", "it took too long");
	return OK;
}

fallible box_file_worker_next(struct box_file_worker *worker, int64_t deadline,
			      struct fileop_reply *out, int *fd)
{
	TRY(box_file_worker_breathe(worker, deadline));
	for (;;) {
		int came = 1, got = -1;
		ssize_t n;

		if (worker->fresh) {
			worker->fresh = false;
			TRY(box_file_worker_await_event(worker, deadline));
		}
		if (worker->phase != FILE_WORKER_BUSY)
			return lost(worker);
		n = fd_recv_any(worker->watch.fd, words, sizeof(words), &got, &came, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN) {
			TRY(box_file_worker_await_event(worker, deadline));
			continue;
		}
		if (n <= 0)
			return lost(worker);
		if (came == FD_LOST)
			return ask_no_files();
		if (!fileop_decode_reply(words, (size_t)n, out) || came != fileop_fds(out)) {
			closer_drop(&got);
			return err_new(BAD_PEER, "bad_file_worker",
				       "the sandbox sent an invalid answer");
		}
		*fd = came > 0 ? got : -1;
		return OK;
	}
}
