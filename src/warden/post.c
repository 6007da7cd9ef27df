// syscalls: sendmsg close shutdown
#include "warden/post.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/mem.h"
#include "os/fd.h"

#define LETTERS_MAX 4096 // a daemon that reads none of this many is gone

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

static void keep(struct warden *warden, size_t len, const int *fds, int count)
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
	ssize_t sent = -1;

	if (len == 0)
		log_event(LOG_ERROR, "answer.unfit", "operation", order_word(answer->to), NULL);
	if (warden->daemon >= 0 && len > 0) {
		if (link_empty(&warden->letters))
			sent = fd_send(warden->daemon, warden->room, len, fds, count, MSG_DONTWAIT);
		else
			errno = EAGAIN;
		if (sent < 0 && errno == EAGAIN) {
			keep(warden, len, fds, count);
			return;
		}
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

		if (sent < 0 && errno == EAGAIN)
			return;
		drop_letter(warden, letter);
	}
}

void post_forget(struct warden *warden)
{
	while (!link_empty(&warden->letters))
		drop_letter(warden, link_of(warden->letters.next, struct letter, link));
}
