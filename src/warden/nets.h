// Network namespaces made ahead, in the zygote: a new one costs half a millisecond, more than all
// the other namespaces of a box together. None is ever used twice.
//
// Each that waits holds 200 KiB of the kernel's memory. So there are few, and one more for each
// that a rush did not find, for the next rush; until as many have been taken as there are, and half
// would have done.
#pragma once

#include <stdbool.h>

#include "base/weak.h"

#define NETS_LEAST (WEAK_BUILD ? 2 : 32) // a weak build lives for one attack
#define NETS_MOST 128

struct nets {
	int home; // where the zygote itself lives
	int proc; // see mount_own_proc(), for the next few
	unsigned made;
	int ready[NETS_MOST];
	int count, want;
	int taken, low; // since `want` was looked at; the fewest that were left meanwhile
};

// `proc` is the host's /proc. Without a home (-1) nothing is made ahead.
void nets_open(struct nets *nets, int proc);
// One with its loopback up, the caller's; -1 when none is ready, or when one `must` be made at once
// and cannot be.
int nets_take(struct nets *nets, int proc, bool must);
bool nets_are_missing(const struct nets *nets);
bool nets_are_few(const struct nets *nets); // and not much time to wait with more
// Makes one more, when some are missing. -1: it could not.
int nets_refill(struct nets *nets, int proc);
