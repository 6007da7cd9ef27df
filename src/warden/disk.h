// Where a box's files live, and the limit on them. One driver a host, chosen at start:
//	btrfs       a subvolume with a simple quota in one pool file (kernel 6.7 and later)
//	ext4-image  a file system image per box, loop-mounted
//	directory   a directory on the state file system: no limit can be kept
// Everything happens in the warden's own mount namespace and beneath fds that it holds.
#pragma once

#include "base/err.h"
#include "protocol/order.h"
#include "warden/pool_size.h"

struct disk;

// `data`: DATA, open. This mount namespace must be private. Picks the driver (`want` NULL: the best
// that works). Boxes' disks of an earlier life stay, whatever else it left is buried. The pool is
// mounted at DATA/pool; one that cannot be mounted is UNAVAILABLE pool_lost, for disks are in it.
// `pool`: how large the pool is at least and at most; NULL: POOL_START, and whatever the host has.
fallible disk_open(int data, const char *want, const struct pool_bounds *pool, struct disk **out);
void disk_close(struct disk *disk); // unmounts and detaches; the files stay
const char *disk_word(const struct disk *disk);
bool disk_limits_bytes(const struct disk *disk);
bool disk_limits_inodes(const struct disk *disk);

// Makes the box's disk and returns a detached mount of it, nosuid,nodev, idmapped by `userns`. Its
// root holds r/u r/w (upper and work of /) and usr/u usr/w, all owned by the box's root, 0755.
// INVALID bad_field when the limits are more than this host could ever keep.
// A limit on inodes makes it an image, whatever the driver. NO_SPACE host_disk_full below the
// watermark, disk_full when the pool cannot grow; INVALID no_disk_limit when a limit cannot be
// kept.
// `lasting`: it shall outlive a stop and a reboot.
fallible disk_make(struct disk *disk, const char *box, const struct limits *limits, bool lasting,
		   int userns, int *out_tree);
// Starts the child that repairs the disk which an earlier build has left, if it was not put down in
// order: *out_pid is its pid, else 0. disk_is_repaired() judges its end.
fallible disk_repair(struct disk *disk, const char *box, int *out_pid);
bool disk_is_repaired(int status);
// The disk that an earlier build has left, whatever the box did to it. NOT_FOUND no_disk.
fallible disk_again(struct disk *disk, const char *box, const struct limits *limits, int userns,
		    int *out_tree);
// A box that lives has it mounted, as an earlier warden made it with these limits.
void disk_adopt(struct disk *disk, const char *box, const struct limits *limits);
// Bytes that it takes; false: there is none, or that is not known. On btrfs what was committed.
bool disk_used(struct disk *disk, const char *box, uint64_t *out);
// Nobody has it mounted any more.
bool disk_rests(struct disk *disk, const char *box);
// Calls `each` for every box that has a disk.
fallible disk_each(struct disk *disk, void (*each)(void *arg, const char *box), void *arg);
// After the box's mounts are gone: out of sight at once (renamed to trash, or destroyed); the bytes
// are reaped in the background. Idempotent.
fallible disk_drop(struct disk *disk, const char *box);
// The same of a disk that is no box's: what is mounted on it here, or bound to it, goes first.
fallible disk_adopt_orphans(struct disk *disk, const char *box);
// Spare time: prepares images, grows the pool, gives boxes at their limit the little room that a
// truncate needs. Call it after start and whenever there is nothing to do; returns in how many
// milliseconds to call it again, -1: not before the next box.
int disk_idle(struct disk *disk);
uint64_t disk_trash(const struct disk *disk); // entries not yet reaped
// A child ended (SIGCHLD): true when `pid` was ours: the reaper, the one that syncs or the
// one that grows and shrinks the pool.
bool disk_reaped(struct disk *disk, int pid);
