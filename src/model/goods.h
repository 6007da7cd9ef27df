// What the warden tells pid 1 by the control socket, before the daemon has its other end: first of
// the ground that it stands on, then of the goods, which are what an order asks for. Between the
// two may lie any time. Sent as they are: both programs are of one build.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define GOODS_BOX 56  // room for an id and its NUL
#define GOODS_HOST 80 // and for a host name

struct goods_ground {
	bool furnished;	 // there is nothing to do: for tests of pid 1 alone
	uint32_t base;	 // the host's id of the box's root
	uint64_t memory; // as the last box had it; if this one has another, some is made anew
};

struct goods {
	bool has_usr; // the template's /usr is apart
	bool is_volatile;
	uint64_t memory;
	uint64_t nofile; // files that a process may have open, at most
	uint64_t number; // of this build, for its witness
	char box[GOODS_BOX];
	char host[GOODS_HOST];
};
// fds beside the goods: mounts, idmapped and attached nowhere.
enum { GOODS_ROOT, GOODS_DISK, GOODS_USR, GOODS_FDS_MAX };
static inline int goods_fds(const struct goods *goods)
{
	return goods->has_usr ? GOODS_FDS_MAX : GOODS_USR;
}

// What pid 1 of a box that is not volatile tells by TALK_FD_WITNESS, beside a copy of its mounts:
// the overlay of its root, and that of /usr if it is apart.
struct goods_witness {
	uint64_t number;
	char box[GOODS_BOX];
};
