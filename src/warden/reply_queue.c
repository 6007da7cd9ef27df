// Sends answers on the daemon's SOCK_SEQPACKET socket without blocking. An answer that the socket
// does not take is queued with its fds, and later answers behind it, so the order is kept. The
// queue is bounded: the connection is shut down beyond REPLIES_MAX, and on any error but EAGAIN,
// ENOBUFS, ENOMEM.
//
// syscalls: sendmsg close shutdown
#include "warden/reply_queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/fd.h"

#define REPLIES_MAX 4096 // a daemon that reads none of this many is disconnected
#define MEMORY_US 5000	 // retry after ENOBUFS: epoll reports a writable socket even then

struct reply {
	struct link link;
	int fds[ORDER_FDS_MAX];
	int fd_count;
	size_t len;
	char bytes[];
};

static void drop_reply(struct warden *warden, struct reply *reply)
{
	link_drop(&reply->link);
	for (int i = 0; i < reply->fd_count; i++)
		fd_drop(&reply->fds[i]);
	warden->reply_count--;
	free(reply);
}

// After a failed send: true if the answer must be queued. Any other error shuts the connection
// down, because the daemon would wait for this answer for ever.
static bool try_again(struct warden *warden)
{
	if (errno == EAGAIN)
		return true;
	if (errno == ENOBUFS || errno == ENOMEM) {
		warden->reply_retry_us = clock_us() + MEMORY_US;
		return true;
	}
	shutdown(warden->daemon, SHUT_RDWR); // the loop sees EPOLLHUP
	return false;
}

static void reply_queue_keep(struct warden *warden, size_t len, const int *fds, int count)
{
	struct reply *reply = mem_new(sizeof(*reply) + len);

	reply->len = len;
	reply->fd_count = count;
	memcpy(reply->bytes, warden->room, len);
	if (count)
		memcpy(reply->fds, fds, (size_t)count * sizeof(int));
	link_add(&warden->replies, &reply->link);
	if (++warden->reply_count > REPLIES_MAX)
		shutdown(warden->daemon, SHUT_RDWR); // the loop sees EPOLLHUP
}

void reply_queue_answer(struct warden *warden, const struct answer *answer, int *fds, int count)
{
	size_t len = answer_encode(answer, warden->room, sizeof(warden->room));

	if (len == 0)
		log_event(LOG_ERROR, "answer.unfit", "operation", order_word(answer->to), NULL);
	if (warden->daemon >= 0 && len > 0) {
		bool later = !link_empty(&warden->replies);

		kill_point("warden.answer_due", order_word(answer->to));
		if (!later &&
		    fd_send(warden->daemon, warden->room, len, fds, count, MSG_DONTWAIT) < 0)
			later = try_again(warden);
		if (later) {
			reply_queue_keep(warden, len, fds, count);
			return;
		}
		kill_point("warden.answer_sent", order_word(answer->to));
	}
	for (int i = 0; i < count; i++)
		fd_drop(&fds[i]);
}

void reply_queue_ended(struct warden *warden, enum order_kind to, uint32_t id, uint64_t cpu_us)
{
	warden->answer = (struct answer){.kind = ANSWER_DONE, .to = to, .id = id, .cpu_us = cpu_us};
	reply_queue_answer(warden, &warden->answer, NULL, 0);
}

void reply_queue_done(struct warden *warden, enum order_kind to, uint32_t id)
{
	reply_queue_ended(warden, to, id, 0);
}

void reply_queue_describe(const struct err *err, enum order_kind to, uint32_t id,
			  struct answer *out)
{
	const char *hint = err_hint_of(err);

	*out = (struct answer){.kind = ANSWER_REFUSED, .to = to, .id = id, .error = err_kind(err)};
	snprintf(out->reason, sizeof(out->reason), "%s", err_reason(err));
	snprintf(out->message, sizeof(out->message), "%s", err_message(err));
	snprintf(out->hint, sizeof(out->hint), "%s", hint ? hint : "");
}

void reply_queue_refusal(struct warden *warden, enum order_kind to, uint32_t id, const char *box,
			 struct err *failure)
{
	auto_err err = failure;

	log_event(err_http(err) >= 500 ? LOG_ERROR : LOG_INFO, "order.refused", "operation",
		  order_word(to), "sandbox", box, "reason", err_reason(err), "trail",
		  err_trail(err), NULL);
	reply_queue_describe(err, to, id, &warden->answer);
	reply_queue_answer(warden, &warden->answer, NULL, 0);
}

void reply_queue_flush(struct warden *warden)
{
	while (!link_empty(&warden->replies)) {
		struct reply *reply = link_of(warden->replies.next, struct reply, link);
		ssize_t sent = fd_send(warden->daemon, reply->bytes, reply->len, reply->fds,
				       reply->fd_count, MSG_DONTWAIT);

		if (sent < 0 && try_again(warden))
			return;
		drop_reply(warden, reply);
	}
}

int64_t reply_queue_turn(struct warden *warden)
{
	if (warden->reply_retry_us && clock_us() >= warden->reply_retry_us) {
		warden->reply_retry_us = 0;
		reply_queue_flush(warden);
	}
	return warden->reply_retry_us ? warden->reply_retry_us : CLOCK_NEVER;
}

void reply_queue_forget(struct warden *warden)
{
	warden->reply_retry_us = 0;
	while (!link_empty(&warden->replies))
		drop_reply(warden, link_of(warden->replies.next, struct reply, link));
}
