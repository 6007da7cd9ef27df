// A hand is a socket whose other end is a process in the box. It is asked for by TALK_HAND, and its
// life on this side is
//
//	ASKED   pid 1 was told; HAND_IS or FAILED answers
//	BUSY    somebody has it
//	RESTS   it may be taken; a timer ends it
//	GONE    its socket is closed; whoever has it drops it
//
// Short requests share a few hands and rather wait a moment for one than have pid 1 fork another;
// long ones get their own, but not all of them, and those without an end are few.
//
// A hand at rest has nothing to say: if its socket moves, it has died. One that speaks while its
// holder is elsewhere is not watched until it is asked again, so that it cannot spin the loop.
//
// syscalls: sendmsg recvmsg recvfrom close fstat newfstatat
#include "box/hand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "box/inner.h"
#include "box/word.h"
#include "loop/closer.h"
#include "os/fd.h"

#define REST_MS 30000
#define REST_MAX 4
#define SHORT_SHARED 4 // so many serve short requests before another is made
#define PATIENCE_MS 3
#define START_MS 10000
#define SPREE_MAX 64

enum hand_phase { HAND_ASKED, HAND_FAILED, HAND_BUSY, HAND_RESTS, HAND_GONE };

struct box_hand {
	struct box *box;
	struct link link; // box->hands
	char user[65];
	uint32_t conv;
	enum hand_phase phase;
	enum hand_use use;
	bool abandoned; // whoever asked for it has gone
	bool fresh;	// asked, and nothing heard since: it is too early to look
	bool waits;
	bool hung_up;
	bool unheard;	// it has not read what it was asked
	uint32_t spree; // answers without a wait between them
	struct watch watch;
	struct timer timer;
	struct bell bell;
	struct talk failure;
	struct later free_later;
};

// One thread turns the loop; what is in here is used up before the next wait.
static char words[REACH_SIZE_MAX];

static void free_hand(struct later *later)
{
	struct box_hand *hand = link_of(later, struct box_hand, free_later);

	box_drop(hand->box);
	free(hand);
}

static void close_hand(struct box_hand *hand)
{
	if (hand->watch.fd >= 0)
		loop_unwatch(hand->box->loop, &hand->watch);
	closer_drop(&hand->watch.fd);
	loop_drop_timer(hand->box->loop, &hand->timer);
	hand->phase = HAND_GONE;
}

static void box_hand_let_go(struct box_hand *hand)
{
	struct box *box = hand->box;

	close_hand(hand);
	link_drop(&hand->link);
	box->hand_count--;
	bell_ring(&box->hand_free);
	loop_later(box->loop, &hand->free_later);
}

static void on_rest_over(struct timer *timer)
{
	box_hand_let_go(link_of(timer, struct box_hand, timer));
}

static void box_hand_on_ready(struct watch *watch, uint32_t events)
{
	struct box_hand *hand = link_of(watch, struct box_hand, watch);

	hand->hung_up |= (events & (EPOLLHUP | EPOLLERR)) != 0;
	if (hand->phase == HAND_RESTS) {
		box_hand_let_go(hand);
		return;
	}
	if (hand->waits)
		bell_ring(&hand->bell);
	else
		loop_unwatch(hand->box->loop, watch);
}

static struct box_hand *new_hand(struct box *box, const char *user, enum hand_use use)
{
	struct box_hand *hand = mem_new_of(struct box_hand);

	box_hold(box);
	hand->box = box;
	hand->use = use;
	strncpy(hand->user, user, sizeof(hand->user) - 1);
	hand->watch.fd = -1;
	hand->watch.ready = box_hand_on_ready;
	hand->timer.due = on_rest_over;
	hand->free_later.run = free_hand;
	bell_init(&hand->bell);
	link_add(&box->hands, &hand->link);
	box->hand_count++;
	return hand;
}

static bool is_socket(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static struct box_hand *find_asked(struct box *box, uint32_t conv)
{
	list_each (at, &box->hands) {
		struct box_hand *hand = link_of(at, struct box_hand, link);

		if (hand->phase == HAND_ASKED && hand->conv == conv)
			return hand;
	}
	return NULL;
}

bool box_hand_heard(struct box *box, const struct talk *talk, int *fds, int count)
{
	struct box_hand *hand = find_asked(box, talk->conv);
	bool is = talk->kind == TALK_HAND_IS;

	if (!hand || (!is && talk->kind != TALK_FAILED))
		return false;
	if (is && count != FD_LOST && (count != 1 || !is_socket(fds[0]))) {
		closer_drop_all(fds, count);
		box_break(box, "pid 1 gave no hand");
		return true;
	}
	hand->failure = *talk;
	hand->phase = is && count == 1 ? HAND_BUSY : HAND_FAILED;
	hand->watch.fd = is && count == 1 ? fds[0] : -1;
	if (hand->abandoned)
		box_hand_let_go(hand);
	else
		bell_ring(&hand->bell);
	return true;
}

void box_hand_end_all(struct box *box)
{
	list_each (at, &box->hands) {
		struct box_hand *hand = link_of(at, struct box_hand, link);

		if (hand->phase == HAND_RESTS || hand->abandoned) {
			box_hand_let_go(hand);
			continue;
		}
		close_hand(hand);
		bell_ring(&hand->bell);
	}
	bell_ring(&box->hand_free);
}

void box_hand_rest_end(struct box *box)
{
	list_each (at, &box->hands) {
		struct box_hand *hand = link_of(at, struct box_hand, link);

		if (hand->phase == HAND_RESTS)
			box_hand_let_go(hand);
	}
}

uint32_t box_hands(const struct box *box)
{
	return box->hand_count;
}

// -------------------------------------------------------------------------------- taking one

static fallible say_hand(struct box_hand *hand, int64_t deadline)
{
	struct talk talk = {.kind = TALK_HAND, .conv = hand->conv};
	char room[128];
	size_t len;

	talk.hand.user = str_of(hand->user);
	len = talk_encode(&talk, room, sizeof(room));
	for (;;) {
		switch (channel_say(&hand->box->channel, room, len, NULL, 0)) {
		case CHANNEL_SENT:
			return OK;
		case CHANNEL_FULL:
			TRY(bell_wait(&hand->box->channel.room, deadline), "talk to pid 1");
			break;
		default:
			return word_box_lost();
		}
	}
}

static fallible box_hand_explain(const struct box_hand *hand)
{
	struct exec_spec spec = {.user = hand->user};

	if (hand->phase == HAND_GONE)
		return word_box_lost();
	if (hand->failure.kind == TALK_HAND_IS)
		return ask_no_files();
	return word_explain(&hand->failure, &spec);
}

static fallible box_hand_make(struct box *box, const char *user, enum hand_use use,
			      int64_t deadline, struct box_hand **out)
{
	int64_t latest = loop_now(box->loop) + START_MS;
	struct box_hand *hand;
	struct err *err;

	if (strlen(user) >= sizeof(hand->user))
		return err_new(INVALID, "no_user", "there is no such user in the sandbox");
	hand = new_hand(box, user, use);
	hand->conv = ++box->last_conv;
	err = say_hand(hand, deadline < latest ? deadline : latest);
	if (err) {
		box_hand_let_go(hand);
		return err;
	}
	while (hand->phase == HAND_ASKED && !err)
		err = bell_wait(&hand->bell, deadline < latest ? deadline : latest);
	if (hand->phase == HAND_ASKED) {
		hand->abandoned = true; // pid 1's answer is still to come
		return err;
	}
	err_free(err);
	if (hand->phase == HAND_BUSY) {
		err = loop_watch(box->loop, &hand->watch, EPOLLIN);
		if (!err) {
			*out = hand;
			return OK;
		}
	} else {
		err = box_hand_explain(hand);
	}
	box_hand_let_go(hand);
	return err;
}

static struct box_hand *find_resting(struct box *box, const char *user)
{
	list_each (at, &box->hands) {
		struct box_hand *hand = link_of(at, struct box_hand, link);

		if (hand->phase == HAND_RESTS && strcmp(hand->user, user) == 0)
			return hand;
	}
	return NULL;
}

static struct box_hand *wake(struct box_hand *hand, enum hand_use use)
{
	loop_drop_timer(hand->box->loop, &hand->timer);
	hand->phase = HAND_BUSY;
	hand->use = use;
	return hand;
}

struct tally {
	uint32_t by_use[HAND_ENDLESS + 1], resting;
};

static struct tally box_hand_count(const struct box *box)
{
	struct tally tally = {0};

	list_each (at, (struct link *)&box->hands) {
		const struct box_hand *hand = link_of(at, struct box_hand, link);

		if (hand->phase == HAND_RESTS)
			tally.resting++;
		else
			tally.by_use[hand->use]++;
	}
	return tally;
}

static fallible too_many(void)
{
	return err_hint(err_new(EXHAUSTED, "too_many_requests",
				"too much is going on in the sandbox at once"),
			"at most %d watches at the same time", BOX_HANDS_ENDLESS);
}

// Room for another, by ending one that rests for another user if need be.
static bool box_hand_make_room(struct box *box)
{
	if (box->hand_count < BOX_HANDS_MAX)
		return true;
	list_each (at, &box->hands) {
		struct box_hand *hand = link_of(at, struct box_hand, link);

		if (hand->phase == HAND_RESTS) {
			box_hand_let_go(hand);
			return true;
		}
	}
	return false;
}

// It has to wait for somebody else: short ones for a moment, long ones while all are taken.
static bool must_wait(const struct tally *tally, enum hand_use use, bool is_patient)
{
	if (use == HAND_SHORT)
		return is_patient && tally->by_use[HAND_SHORT] >= SHORT_SHARED;
	return tally->by_use[HAND_LONG] + tally->by_use[HAND_ENDLESS] >= BOX_HANDS_BOUND;
}

fallible box_hand_take(struct box *box, const char *user, enum hand_use use, int64_t deadline,
		       struct box_hand **out)
{
	int64_t patience = loop_now(box->loop) + PATIENCE_MS;

	for (;;) {
		struct tally tally = box_hand_count(box);
		struct box_hand *hand = find_resting(box, user);
		bool is_patient = use == HAND_SHORT && loop_now(box->loop) < patience;
		bool waits = must_wait(&tally, use, is_patient);
		int64_t until = is_patient && patience < deadline ? patience : deadline;
		auto_err err = OK;

		if (!box_is_alive(box))
			return word_box_lost();
		if (use == HAND_ENDLESS && tally.by_use[HAND_ENDLESS] >= BOX_HANDS_ENDLESS)
			return too_many();
		if (hand && (use == HAND_SHORT || !waits)) {
			*out = wake(hand, use);
			return OK;
		}
		if (!waits && box_hand_make_room(box))
			return box_hand_make(box, user, use, deadline, out);
		err = bell_wait(&box->hand_free, until);
		if (err && (err_kind(err) != ERR_TIMEOUT || until == deadline))
			return take_ptr(err);
	}
}

void box_hand_give(struct box_hand *hand)
{
	struct box *box = hand->box;
	struct tally tally = box_hand_count(box);

	if (hand->phase != HAND_BUSY || tally.resting >= REST_MAX || !box_is_alive(box)) {
		box_hand_let_go(hand);
		return;
	}
	if (!hand->watch.events) {
		struct err *err = loop_watch(box->loop, &hand->watch, EPOLLIN);

		if (err) {
			err_free(err);
			box_hand_let_go(hand);
			return;
		}
	}
	hand->phase = HAND_RESTS;
	loop_set_timer(box->loop, &hand->timer, loop_now(box->loop) + REST_MS);
	link_drop(&hand->link);
	link_push(&box->hands, &hand->link); // the one that served last serves next
	bell_ring(&box->hand_free);
}

void box_hand_drop(struct box_hand *hand)
{
	box_hand_let_go(hand);
}

// ------------------------------------------------------------------------------- using one

static fallible lost(const struct box_hand *hand)
{
	if (!box_is_alive(hand->box))
		return word_box_lost();
	return err_hint(err_new(INTERNAL, "hand_lost",
				"the request ended inside of the sandbox before it was done"),
			"something in the sandbox killed it, or there was no memory left");
}

fallible box_hand_ask(struct box_hand *hand, const struct reach_ask *ask, int64_t deadline)
{
	size_t len = reach_encode_ask(ask, words, sizeof(words));

	if (len == 0)
		return err_new(TOO_LARGE, "request_too_large", "the request is too large");
	if (hand->phase != HAND_BUSY ||
	    fd_send(hand->watch.fd, words, len, NULL, 0, MSG_DONTWAIT) < 0) {
		// A hand that was at rest has read all it was told.
		(void)deadline;
		hand->unheard = true;
		return lost(hand);
	}
	hand->fresh = true;
	return OK;
}

void box_hand_nudge(struct box_hand *hand)
{
	// When it has room for no more it has not read the one before.
	if (hand->phase == HAND_BUSY)
		(void)fd_send(hand->watch.fd, "", 1, NULL, 0, MSG_DONTWAIT);
}

static fallible box_hand_await_event(struct box_hand *hand, int64_t deadline)
{
	struct err *err = OK;

	if (!hand->watch.events)
		TRY(loop_watch(hand->box->loop, &hand->watch, EPOLLIN), "watch a hand");
	hand->spree = 0;
	hand->waits = true;
	err = bell_wait(&hand->bell, deadline);
	hand->waits = false;
	return err_while(err, "wait for a hand");
}

fallible box_hand_await(struct box_hand *hand, int64_t deadline)
{
	char byte;
	ssize_t n;

	hand->fresh = false;
	TRY(box_hand_await_event(hand, deadline));
	if (!hand->hung_up || hand->phase != HAND_BUSY)
		return OK;
	n = recv(hand->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	// That is how a socket says that its peer was closed with something unread.
	hand->unheard = n < 0 && errno == ECONNRESET;
	return n > 0 ? OK : lost(hand);
}

bool box_hand_unheard(const struct box_hand *hand)
{
	return hand->unheard;
}

// One that always has more to say would never let us wait: others get their turn, and time passes.
static fallible box_hand_breathe(struct box_hand *hand, int64_t deadline)
{
	if (++hand->spree < SPREE_MAX)
		return OK;
	hand->spree = 0;
	TRY(task_sleep_until(0));
	if (loop_now(hand->box->loop) >= deadline)
		return err_new(TIMEOUT, "timeout", "it took too long");
	return OK;
}

fallible box_hand_next(struct box_hand *hand, int64_t deadline, struct reach_say *out, int *fd)
{
	TRY(box_hand_breathe(hand, deadline));
	for (;;) {
		int came = 1, got = -1;
		ssize_t n;

		if (hand->fresh) {
			hand->fresh = false;
			TRY(box_hand_await_event(hand, deadline));
		}
		if (hand->phase != HAND_BUSY)
			return lost(hand);
		n = fd_recv_any(hand->watch.fd, words, sizeof(words), &got, &came, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN) {
			TRY(box_hand_await_event(hand, deadline));
			continue;
		}
		if (n <= 0)
			return lost(hand);
		if (came == FD_LOST)
			return ask_no_files();
		if (!reach_decode_say(words, (size_t)n, out) || came != reach_fds(out)) {
			closer_drop(&got);
			return err_new(BAD_PEER, "bad_hand", "the sandbox answers nonsense");
		}
		*fd = came > 0 ? got : -1;
		return OK;
	}
}
