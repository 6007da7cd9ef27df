// Messages of the warden to pid 1 on the control socket, before the daemon has its other end: first
// the base configuration, then the rootfs mounts of an order, possibly much later. Sent as raw
// structs: both programs are of one build.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ROOTFS_MOUNTS_BOX 56  // an id and its NUL
#define ROOTFS_MOUNTS_HOST 80 // a host name
#define ROOTFS_MOUNTS_PATH 128

struct rootfs_mounts_base_rootfs {
	bool is_set_up;	 // nothing to do: for tests of pid 1 alone
	uint32_t base;	 // the host's uid of the box's root
	uint64_t memory; // of the last box; if this box differs, /proc/meminfo and the tmpfs are
			 // made again
};

struct rootfs_mounts {
	bool has_usr; // the template has a separate /usr
	bool is_volatile;
	uint64_t memory;
	uint64_t nofile;  // RLIMIT_NOFILE of a process, at most
	uint64_t number;  // of this build, for the witness
	uint32_t volumes; // messages that follow, see below
	char box[ROOTFS_MOUNTS_BOX];
	char host[ROOTFS_MOUNTS_HOST];
};
// fds of the rootfs mounts: detached, idmapped mounts.
enum { ROOTFS_MOUNTS_ROOT, ROOTFS_MOUNTS_DISK, ROOTFS_MOUNTS_USR, ROOTFS_MOUNTS_FDS_MAX };
static inline int rootfs_mounts_fds(const struct rootfs_mounts *mounts)
{
	return mounts->has_usr ? ROOTFS_MOUNTS_FDS_MAX : ROOTFS_MOUNTS_USR;
}

// A volume: a message of its own with one fd, the whole volume as a detached, idmapped mount.
struct rootfs_mounts_volume {
	char path[ROOTFS_MOUNTS_PATH];
	char subpath[ROOTFS_MOUNTS_PATH]; // of its root; "": all of it
};

// Message of pid 1 of a box that is not volatile on TALK_FD_WITNESS, with a copy of its mounts: the
// overlay of its root, and that of /usr if separate.
struct rootfs_mounts_witness {
	uint64_t number;
	char box[ROOTFS_MOUNTS_BOX];
};
