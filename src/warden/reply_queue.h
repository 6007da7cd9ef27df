// Answers to the daemon. The socket does not block: what it cannot take waits here, in order.
#pragma once

#include "warden/box.h"

// Encodes and sends `answer` with `fds`, which it takes and closes. Nobody to send to: dropped.
void reply_queue_answer(struct warden *warden, const struct answer *answer, int *fds, int count);
void reply_queue_done(struct warden *warden, enum order_kind to, uint32_t id);
// The refusal that `failure` describes. Takes the error; its trail goes to the log.
void reply_queue_refusal(struct warden *warden, enum order_kind to, uint32_t id, const char *box,
			 struct err *failure);
// Fills `out` with what the tenant may see of `err`, which stays the caller's.
void reply_queue_describe(const struct err *err, enum order_kind to, uint32_t id,
			  struct answer *out);
// The socket takes more again; or it is gone.
void reply_queue_flush(struct warden *warden);
// Tries again what the kernel had no memory for. Returns when to come again, as teardown_turn()
// does.
int64_t reply_queue_turn(struct warden *warden);
void reply_queue_forget(struct warden *warden);
