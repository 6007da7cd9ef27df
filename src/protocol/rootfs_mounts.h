// What the warden tells pid 1 by the control socket, before the daemon has its other end: first of
// the ground that it stands on, then of the rootfs mounts, which are what an order asks for.
// Between the two may lie any time. Sent as they are: both programs are of one build.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ROOTFS_MOUNTS_BOX 56  // room for an id and its NUL
#define ROOTFS_MOUNTS_HOST 80 // and for a host name

struct rootfs_mounts_base_rootfs {
	bool is_set_up;	 // there is nothing to do: for tests of pid 1 alone
	uint32_t base;	 // the host's id of the box's root
	uint64_t memory; // as the last box had it; if this one has another, some is made anew
};

struct rootfs_mounts {
	bool has_usr; // the template's /usr is apart
	bool is_volatile;
	uint64_t memory;
	uint64_t nofile; // files that a process may have open, at most
	uint64_t number; // of this build, for its witness
	char box[ROOTFS_MOUNTS_BOX];
	char host[ROOTFS_MOUNTS_HOST];
};
// fds beside the rootfs mounts: mounts, idmapped and attached nowhere.
enum { ROOTFS_MOUNTS_ROOT, ROOTFS_MOUNTS_DISK, ROOTFS_MOUNTS_USR, ROOTFS_MOUNTS_FDS_MAX };
static inline int rootfs_mounts_fds(const struct rootfs_mounts *mounts)
{
	return mounts->has_usr ? ROOTFS_MOUNTS_FDS_MAX : ROOTFS_MOUNTS_USR;
}

// What pid 1 of a box that is not volatile tells by TALK_FD_WITNESS, beside a copy of its mounts:
// the overlay of its root, and that of /usr if it is apart.
struct rootfs_mounts_witness {
	uint64_t number;
	char box[ROOTFS_MOUNTS_BOX];
};
