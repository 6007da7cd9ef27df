// Answers to the daemon. The socket does not block: answers that it does not take wait here, in
// order.
#pragma once

#include "warden/box.h"

// Encodes and sends `answer` with `fds`, which it takes over. Dropped if no daemon is connected.
void reply_queue_answer(struct warden *warden, const struct answer *answer, int *fds, int count);
void reply_queue_done(struct warden *warden, enum order_kind to, uint32_t id);
// The same for STOP and DESTROY. `cpu_us`: see protocol/order.h.
void reply_queue_ended(struct warden *warden, enum order_kind to, uint32_t id, uint64_t cpu_us);
// The refusal that `failure` describes. Takes the error; its trail goes to the log.
void reply_queue_refusal(struct warden *warden, enum order_kind to, uint32_t id, const char *box,
			 struct err *failure);
// Fills `out` with what the tenant may see of `err`, which stays the caller's.
void reply_queue_describe(const struct err *err, enum order_kind to, uint32_t id,
			  struct answer *out);
// The socket is writable again, or closed.
void reply_queue_flush(struct warden *warden);
// Sends again after ENOBUFS. Returns when to call again, like teardown_turn().
int64_t reply_queue_turn(struct warden *warden);
void reply_queue_forget(struct warden *warden);
