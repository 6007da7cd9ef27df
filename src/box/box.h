// One sandbox that is alive on this host: its control socket to pid 1 and the kernel's counters.
#pragma once

#include "box/ask.h"
#include "loop/task.h"
#include "protocol/order.h"

struct box;
struct tape_quota;

// Has the box built and waits until its pid 1 is ready. On failure everything is undone (the warden
// destroys what is left). TIMEOUT after BOX_READY_MS. The caller owns *out.
#define BOX_READY_MS 20000
fallible box_build(struct loop *loop, struct ask *ask, const struct order *build, int tapes_dir,
		   struct box **out);
// Tells the warden the parameters of the box that it expects, so that it can prepare ahead of the
// build order. Nothing runs yet. True: box_build() of the same order, or box_forget(), must follow.
// False: the warden expects another box, or the socket is full. Never waits.
bool box_foretell(struct ask *ask, const struct order *build);
void box_forget(struct loop *loop, struct ask *ask, const char *id);

// Adopts a running box: asks the warden for it (ORDER_ADOPT), connects to its pid 1 at `sockets`/ID
// and restores processes with records, tapes and limits, sessions with shells, terminals with
// screens; ends that no client was told are told then. A failure ends nothing in the box: retry.
// UNAVAILABLE box_lost, TIMEOUT: pid 1 does not answer; NOT_FOUND (the warden's): no such box;
// EXHAUSTED daemon_files. Many may run at once. The caller owns *out.
//
// A daemon that wants its boxes to live on only has to exit: all that was promised is on disk or
// with pid 1. (box_free() ends sessions and removes tapes.)
#define BOX_ADOPT_MS 10000
struct box_return {
	const char *id;
	const char *sockets; // the directory RUN/box
	int tapes_dir;
	bool ephemeral;
};
fallible box_adopt(struct loop *loop, struct ask *ask, const struct box_return *from,
		   struct box **out);

// Restores the process records of a stopped box from the files of the previous daemon. Waits for
// the disk.
fallible box_recover(struct box *box);

// Destroys the box: running execs end as killed_by_api, then the warden verifies that all is gone.
// After OK only memory is left; box_free() it when no exec holds it. Idempotent; may be retried.
fallible box_destroy(struct box *box, int64_t deadline);
void box_free(
	struct box *box); // closes; the caller destroys the box first if the warden still has it

// Bytes of output kept on disk: at most `max`, oldest ended first to go; bytes beyond `floor` count
// in `quota` (NULL: none) until box_free(). Without this call there is no bound.
void box_keep_output(struct box *box, uint64_t max, uint64_t floor, struct tape_quota *quota);

// The user of sessions, terminals, interpreters, and of commands that name none; "": root.
void box_set_user(struct box *box, const char *user);
bool box_is_alive(const struct box *box);
// Called once, when pid 1 is gone unasked (socket closed, protocol broken, warden lost).
void box_on_loss(struct box *box, void (*lost)(struct box *box, void *arg), void *arg);
// Processes that the kernel killed for the memory limit of the box; 0: not known.
uint64_t box_oom_kills(const struct box *box);
uint32_t box_execs(const struct box *box);	      // running now
const struct stall_at *box_at(const struct box *box); // the owner of its pipes, for pipe_take()

// Opens fds that all boxes of this process share. Once, at its start.
void box_prepare(void);
