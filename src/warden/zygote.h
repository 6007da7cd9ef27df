// The process that boxes are cloned from: small, with few fds, in a mount namespace that holds next
// to nothing. Cloning the warden itself would copy its memory, its fd table and its mounts.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "protocol/rootfs_mounts.h"
#include "warden/builder.h"

struct zygote;

// Forks it and waits until it is ready. Call it before the warden confines itself: what the zygote
// has, every box inherits.
fallible zygote_start(bool joins_by_clone, struct zygote **out);
void zygote_stop(struct zygote *zygote);    // kills it and reaps it
int zygote_fd(const struct zygote *zygote); // readable: zygote_take() has something
// A child ended: true when it was the zygote.
bool zygote_reaped(struct zygote *zygote, int pid);

// Orders one clone. The fds stay the caller's. UNAVAILABLE when its queue is full.
fallible zygote_send(struct zygote *zygote, const struct builder_plan *plan,
		     const struct builder_fds *fds);

// An answer, in the order of the sending. Or the word of a pid 1, whenever it has come so far.
struct zygote_answer {
	int errnum; // 0: all is well
	int pid;
	int pidfd; // the caller's; -1 on failure
	int net;   // its network namespace, the caller's; -1: the plan does
		   // not want it shown, or there was none
	struct rootfs_mounts_witness witness; // WITNESS, and its mounts, the caller's; -1: none
	int mounts;
};
enum zygote_news { ZYGOTE_ANSWER, ZYGOTE_WITNESS, ZYGOTE_NOTHING, ZYGOTE_LOST };
enum zygote_news zygote_take(struct zygote *zygote, struct zygote_answer *out);
