// Network namespaces made ahead, in the zygote: a new one costs half a millisecond, more than all
// the other namespaces of a box together. None is ever used twice.
#pragma once

#define NETS_READY 32

struct nets {
	int home; // where the zygote itself lives
	int proc; // see mount_own_proc(), for the next few
	unsigned made;
	int ready[NETS_READY];
	int count;
};

// `proc` is the host's /proc. Without a home (-1) nothing is made ahead.
void nets_open(struct nets *nets, int proc);
// One with its loopback up, the caller's; -1 when none is ready.
int nets_take(struct nets *nets);
// Makes one more, when some are missing. -1: it could not.
int nets_refill(struct nets *nets, int proc);
