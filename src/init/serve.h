// What a hand does all its life: one request after another (model/reach.h), until its socket
// closes. It is a process of its own: it may use the heap, and end when it likes.
#pragma once

#include "model/reach.h"

void serve_run(int sock);

// For the verbs. Each returns true with `say` as the last answer, or false with errno, or with
// say->why and say->text. Those that have more to tell say it before. When the daemon has gone, the
// process ends in here.
void serve_say(const struct reach_say *say, int fd); // fd -1: none
// Items in batches: `pack` is written to, then serve_item() sees to it that there is room.
struct serve_batch {
	enum reach_kind kind;
	struct pack pack;
	uint64_t count;
};
void serve_begin(struct serve_batch *batch, enum reach_kind kind);
// An item was put. True: it is among those told. An item that did not fit at all is not.
bool serve_item(struct serve_batch *batch, size_t len_before);
void serve_flush(struct serve_batch *batch);
// The daemon's end is closed. For those who wait for something else as well.
bool serve_is_alone(void);
int serve_sock(void);
