// One sandbox, alive on this host: its control socket to pid 1 and the kernel's counters.
#pragma once

#include "box/ask.h"
#include "loop/task.h"
#include "protocol/order.h"

struct box;
struct tape_quota;

// Orders the box built and waits until its pid 1 is ready, or all is undone again (the warden is
// told to destroy what is left). TIMEOUT after BOX_READY_MS. The caller owns *out.
#define BOX_READY_MS 20000
fallible box_build(struct loop *loop, struct ask *ask, const struct order *build, int tapes_dir,
		   struct box **out);
// Tells the warden what the box that it expects will be, so that little is left to do when it is
// ordered. That runs nothing yet, and is nobody's. True: box_build() of the same order must follow,
// or box_forget(). False: it expects another, or cannot be told now. Never waits.
bool box_foretell(struct ask *ask, const struct order *build);
void box_forget(struct loop *loop, struct ask *ask, const char *id);

// Takes up a box that lives already: asks the warden for what belongs to it (ORDER_ADOPT), connects
// to its pid 1 at `sockets`/ID, and knows again what it holds: processes with their records, tapes
// and limits, sessions with their shells, terminals with their screens; then ends that nobody was
// told are told. Nothing is ended by it, whatever fails: it may be tried again. A pid 1 that does
// not answer, or not in time: UNAVAILABLE box_lost, TIMEOUT; none at all: NOT_FOUND (the warden's);
// EXHAUSTED daemon_files. Many at once are welcome. The caller owns *out.
//
// A daemon that wants its boxes to live on has nothing to do but to end: what it was told of is on
// disk or with pid 1. (box_free() on the other hand ends sessions and removes tapes.)
#define BOX_ADOPT_MS 10000
struct box_return {
	const char *id;
	const char *sockets; // the directory RUN/box
	int tapes_dir;
	bool ephemeral;
};
fallible box_adopt(struct loop *loop, struct ask *ask, const struct box_return *from,
		   struct box **out);

// A box that does not run: what an earlier daemon has written down of its processes is known again.
// Waits for the disk.
fallible box_recover(struct box *box);

// Ends it: running execs end as killed_by_api, then the warden verifies that all is gone. After OK
// the box is only memory; box_free() it when no exec holds it. Idempotent; may be tried again.
fallible box_destroy(struct box *box, int64_t deadline);
// Closes; the caller has destroyed whatever the warden still has.
void box_free(struct box *box);

// Bytes of output that it keeps on disk: `max`, the oldest ended first to go; those beyond `floor`
// count in `quota` until box_free(); NULL: in none. Until then it has no bound.
void box_keep_output(struct box *box, uint64_t max, uint64_t floor, struct tape_quota *quota);

// The user of sessions, terminals, interpreters, and of commands that name none; "": root.
void box_set_user(struct box *box, const char *user);
bool box_is_alive(const struct box *box);
// Called once, when pid 1 is gone though nobody asked (socket closed, protocol broken, warden
// lost).
void box_on_loss(struct box *box, void (*lost)(struct box *box, void *arg), void *arg);
uint32_t box_execs(const struct box *box);	      // running now
const struct stall_at *box_at(const struct box *box); // whose a pipe is, for pipe_take()

// What all boxes of this process share. Once, at its start.
void box_prepare(void);
