// The answers of a file worker. Request handlers know nothing else of the daemon. When the daemon
// has gone, the process exits in here.
#pragma once

#include "protocol/fileop.h"

// `undo` is called before the process exits, possibly from a signal handler.
void reply_open(int sock, void (*undo)(void));
int reply_sock(void);
bool reply_is_alone(void); // the daemon's end is closed
void reply_leave(void) __attribute__((noreturn));

void reply_answer(const struct fileop_reply *reply, int fd); // fd -1: none
void reply_opened(int fd);				     // OPENED, without a stat
// Items in batches: write to `pack`, then call reply_item(), which keeps room for the next.
struct reply_batch {
	enum fileop_kind kind;
	struct pack pack;
	size_t len; // of the items in it
	uint64_t count;
};
void reply_begin(struct reply_batch *batch, enum fileop_kind kind);
// An item was written. True: it is in the batch. False: it did not fit at all.
bool reply_item(struct reply_batch *batch);
void reply_flush(struct reply_batch *batch);
