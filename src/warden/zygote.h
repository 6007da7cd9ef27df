// The process that boxes are cloned from: small, with few fds and few mounts. Cloning the warden
// itself would copy its memory, its fd table and its mounts.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "protocol/rootfs_mounts.h"
#include "warden/builder.h"

struct zygote;

// The program that becomes pid 1 of every box: its bytes, put here by the build.
extern const unsigned char pid1_start[], pid1_end[];

// Forks it and waits until it is ready. Call before the warden confines itself: every box inherits
// from the zygote.
fallible zygote_start(bool joins_by_clone, struct zygote **out);
void zygote_stop(struct zygote *zygote);    // kills it and reaps it
int zygote_fd(const struct zygote *zygote); // readable: zygote_take() has something
// A child ended: true if it was the zygote.
bool zygote_reaped(struct zygote *zygote, int pid);

// Requests one clone. The fds stay the caller's. UNAVAILABLE if its queue is full.
fallible zygote_send(struct zygote *zygote, const struct builder_plan *plan,
		     const struct builder_fds *fds);

// An answer, in the order of the requests; or the message of a pid 1, whenever it comes.
struct zygote_answer {
	int errnum; // 0: success
	int pid;
	int pidfd; // owned by the caller; -1 on failure
	int net; // its network namespace, owned by the caller; -1: not wanted by the plan, or none
	struct rootfs_mounts_witness witness; // WITNESS, and its mounts, the caller's; -1: none
	int mounts;
};
enum zygote_news { ZYGOTE_ANSWER, ZYGOTE_WITNESS, ZYGOTE_NOTHING, ZYGOTE_LOST };
enum zygote_news zygote_take(struct zygote *zygote, struct zygote_answer *out);
