// syscalls: sendmsg close shutdown
#include "warden/post.h"

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

#define LETTERS_MAX 4096 // a daemon that reads none of this many is gone
#define MEMORY_US 5000	 // the kernel has no memory: a socket that is writable says nothing then

struct letter {
	struct link link;
	int fds[ORDER_FDS_MAX];
	int fd_count;
	size_t len;
	char bytes[];
};

static void drop_letter(struct warden *warden, struct letter *letter)
{
	link_drop(&letter->link);
	for (int i = 0; i < letter->fd_count; i++)
		fd_drop(&letter->fds[i]);
	warden->letter_count--;
	free(letter);
}

// After a failed sending: true when the answer must be kept and tried again. A link that fails in
// any other way is shut down, for on it the daemon would wait for this answer for ever.
static bool try_again(struct warden *warden)
{
	if (errno == EAGAIN)
		return true;
	if (errno == ENOBUFS || errno == ENOMEM) {
		warden->post_us = clock_us() + MEMORY_US;
		return true;
	}
	shutdown(warden->daemon, SHUT_RDWR); // its end is seen by the loop
	return false;
}

static void post_keep(struct warden *warden, size_t len, const int *fds, int count)
{
	struct letter *letter = mem_new(sizeof(*letter) + len);

	letter->len = len;
	letter->fd_count = count;
	memcpy(letter->bytes, warden->room, len);
	if (count)
		memcpy(letter->fds, fds, (size_t)count * sizeof(int));
	link_add(&warden->letters, &letter->link);
	if (++warden->letter_count > LETTERS_MAX)
		shutdown(warden->daemon, SHUT_RDWR); // its end is seen by the loop
}

void post_answer(struct warden *warden, const struct answer *answer, int *fds, int count)
{
	size_t len = answer_encode(answer, warden->room, sizeof(warden->room));

	if (len == 0)
		log_event(LOG_ERROR, "answer.unfit", "operation", order_word(answer->to), NULL);
	if (warden->daemon >= 0 && len > 0) {
		bool later = !link_empty(&warden->letters);

		kill_point("warden.answer_due", order_word(answer->to));
		if (!later &&
		    fd_send(warden->daemon, warden->room, len, fds, count, MSG_DONTWAIT) < 0)
			later = try_again(warden);
		if (later) {
			post_keep(warden, len, fds, count);
			return;
		}
		kill_point("warden.answer_sent", order_word(answer->to));
	}
	for (int i = 0; i < count; i++)
		fd_drop(&fds[i]);
}

void post_done(struct warden *warden, enum order_kind to, uint32_t id)
{
	warden->answer = (struct answer){.kind = ANSWER_DONE, .to = to, .id = id};
	post_answer(warden, &warden->answer, NULL, 0);
}

void post_describe(const struct err *err, enum order_kind to, uint32_t id, struct answer *out)
{
	const char *hint = err_hint_of(err);

	*out = (struct answer){.kind = ANSWER_REFUSED, .to = to, .id = id, .error = err_kind(err)};
	snprintf(out->reason, sizeof(out->reason), "%s", err_reason(err));
	snprintf(out->message, sizeof(out->message), "%s", err_message(err));
	snprintf(out->hint, sizeof(out->hint), "%s", hint ? hint : "");
}

void post_refusal(struct warden *warden, enum order_kind to, uint32_t id, const char *box,
		  struct err *failure)
{
	auto_err err = failure;

	log_event(err_http(err) >= 500 ? LOG_ERROR : LOG_INFO, "order.refused", "operation",
		  order_word(to), "sandbox", box, "reason", err_reason(err), "trail",
		  err_trail(err), NULL);
	post_describe(err, to, id, &warden->answer);
	post_answer(warden, &warden->answer, NULL, 0);
}

void post_flush(struct warden *warden)
{
	while (!link_empty(&warden->letters)) {
		struct letter *letter = link_of(warden->letters.next, struct letter, link);
		ssize_t sent = fd_send(warden->daemon, letter->bytes, letter->len, letter->fds,
				       letter->fd_count, MSG_DONTWAIT);

		if (sent < 0 && try_again(warden))
			return;
		drop_letter(warden, letter);
	}
}

int64_t post_turn(struct warden *warden)
{
	if (warden->post_us && clock_us() >= warden->post_us) {
		warden->post_us = 0;
		post_flush(warden);
	}
	return warden->post_us ? warden->post_us : CLOCK_NEVER;
}

void post_forget(struct warden *warden)
{
	warden->post_us = 0;
	while (!link_empty(&warden->letters))
		drop_letter(warden, link_of(warden->letters.next, struct letter, link));
}
