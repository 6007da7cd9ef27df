// Network namespaces made ahead, in the zygote: a new one costs half a millisecond, more than all
// the other namespaces of a box together. None is used twice.
//
// Each one in stock holds 200 KiB of kernel memory. The stock is small, and grows by one for each
// take that found it empty. It shrinks again after as many takes as it holds, if half would have
// sufficed.
#pragma once

#include <stdbool.h>

#include "base/weak.h"

#define NETS_LEAST (WEAK_BUILD ? 2 : 32) // a weak build serves one attack only
#define NETS_MOST 128

struct nets {
	int home; // the zygote's own
	int proc; // see mount_own_proc(), for the next few
	unsigned made;
	int ready[NETS_MOST];
	int count, want;
	int taken, low; // since `want` was checked; the fewest in stock since then
};

// `proc` is the host's /proc. If `home` cannot be opened nothing is made ahead.
void nets_open(struct nets *nets, int proc);
// A namespace with its loopback up, owned by the caller. -1: none is ready, or `must` is set and
// making one failed.
int nets_take(struct nets *nets, int proc, bool must);
bool nets_are_missing(const struct nets *nets);
bool nets_are_few(const struct nets *nets); // fewer than half
// Makes one more if some are missing. -1: failed.
int nets_refill(struct nets *nets, int proc);
