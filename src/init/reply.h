// How a hand answers: to the verbs it is all they know of the daemon. When the daemon has gone, the
// process ends in here.
#pragma once

#include "protocol/fileop.h"

// From now on; `undo` is called before the process ends, maybe from a signal handler.
void reply_open(int sock, void (*undo)(void));
int reply_sock(void);
bool reply_is_alone(void); // the daemon's end is closed
void reply_leave(void) __attribute__((noreturn));

void reply_answer(const struct fileop_reply *reply, int fd); // fd -1: none
// Items in batches: `pack` is written to, then reply_item() sees to it that there is room.
struct reply_batch {
	enum fileop_kind kind;
	struct pack pack;
	uint64_t count;
};
void reply_begin(struct reply_batch *batch, enum fileop_kind kind);
// An item was put. True: it is among those told. An item that did not fit at all is not.
bool reply_item(struct reply_batch *batch, size_t len_before);
void reply_flush(struct reply_batch *batch);
