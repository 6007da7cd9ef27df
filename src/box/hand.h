// The daemon's side of hands: children of pid 1 that work on the files and ports of a box
// (model/reach.h). Each serves one request at a time; a box keeps a few at rest, and they end when
// nobody has needed them for a while. What they say is hostile.
#pragma once

#include "base/auto.h"
#include "box/box.h"
#include "model/reach.h"

#define BOX_HANDS_MAX 32
#define BOX_HANDS_BOUND 28   // of those, for work that takes its time: the next one waits
#define BOX_HANDS_ENDLESS 16 // and for work without an end: the next one is refused

enum hand_use { HAND_SHORT, HAND_LONG, HAND_ENDLESS };

struct box_hand;

// One that has the rights of `user`. Waits for a free one, or for pid 1. EXHAUSTED
// too_many_requests; INVALID no_user; UNAVAILABLE box_lost; TIMEOUT.
fallible box_hand_take(struct box *box, const char *user, enum hand_use use, int64_t deadline,
		       struct box_hand **out);
// One request. INTERNAL hand_lost; TOO_LARGE request_too_large.
fallible box_hand_ask(struct box_hand *hand, const struct reach_ask *ask, int64_t deadline);
// Waits until it has something to say about that. INTERNAL hand_lost: it ended without a word.
fallible box_hand_await(struct box_hand *hand, int64_t deadline);
// After hand_lost: it cannot even have begun.
bool box_hand_unheard(const struct box_hand *hand);
// A byte in the midst of its work: to a watch it means that it is to catch up.
void box_hand_nudge(struct box_hand *hand);
// The next answer. Its texts are borrowed until the next wait of this task; *fd is the caller's, or
// -1. After an error other than TIMEOUT the hand is of no more use.
fallible box_hand_next(struct box_hand *hand, int64_t deadline, struct reach_say *out, int *fd);
// Its last answer was read: it may rest and serve again.
void box_hand_give(struct box_hand *hand);
// It is in the middle of something, or broke the rules: its socket is closed, and it ends.
void box_hand_drop(struct box_hand *hand);
static inline void auto_hand_(struct box_hand **hand)
{
	if (*hand)
		box_hand_drop(*hand);
}
#define auto_hand on_exit_call(auto_hand_) struct box_hand *

uint32_t box_hands(const struct box *box); // alive now
