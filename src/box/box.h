// One sandbox, alive on this host: its control socket to pid 1 and the kernel's counters.
#pragma once

#include "box/ask.h"
#include "loop/task.h"
#include "model/order.h"

struct box;

// Orders the box built and waits until its pid 1 is ready, or all is undone again (the warden is
// told to bury what is left). TIMEOUT after BOX_READY_MS. The caller owns *out.
#define BOX_READY_MS 20000
fallible box_build(struct loop *loop, struct ask *ask, const struct order *build, int tapes_dir,
		   struct box **out);

// Ends it: running execs end as killed_by_api, then the warden verifies that all is gone. After OK
// the box is only memory; box_free() it when no exec holds it. Idempotent; may be tried again.
fallible box_bury(struct box *box, int64_t deadline);
void box_free(struct box *box); // closes; what the warden still has is the caller's to bury first

bool box_is_alive(const struct box *box);
// Called once, when pid 1 is gone though nobody asked (socket closed, protocol broken, warden
// lost).
void box_on_loss(struct box *box, void (*lost)(struct box *box, void *arg), void *arg);
uint32_t box_execs(const struct box *box); // running now
