// How a hand answers: to the verbs it is all they know of the daemon. When the daemon has gone, the
// process ends in here.
#pragma once

#include "model/reach.h"

// From now on; `undo` is called before the process ends, maybe from a signal handler.
void say_open(int sock, void (*undo)(void));
int say_sock(void);
bool say_is_alone(void); // the daemon's end is closed
void say_leave(void) __attribute__((noreturn));

void say_answer(const struct reach_say *say, int fd); // fd -1: none
// Items in batches: `pack` is written to, then say_item() sees to it that there is room.
struct say_batch {
	enum reach_kind kind;
	struct pack pack;
	uint64_t count;
};
void say_begin(struct say_batch *batch, enum reach_kind kind);
// An item was put. True: it is among those told. An item that did not fit at all is not.
bool say_item(struct say_batch *batch, size_t len_before);
void say_flush(struct say_batch *batch);
