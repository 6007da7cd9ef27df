// Where a box's files live, and the limit on them. One driver per host, chosen at start:
//	btrfs       a subvolume with a simple quota in one pool file (Linux 6.7 and later)
//	ext4-image  a file system image per box, loop-mounted
//	directory   a directory on the state file system: no limit can be enforced
// All mounts are in the warden's own mount namespace, beneath fds that it holds.
#pragma once

#include "base/err.h"
#include "protocol/order.h"
#include "warden/pool_size.h"

struct disk;
struct map;

// `data`: DATA, open. This mount namespace must be private. Picks the driver (`want` NULL: the best
// that works). Disks that an earlier warden left stay; its other files are removed. The pool is
// mounted at DATA/pool; UNAVAILABLE pool_lost if it cannot be mounted, because disks are in it.
// `pool`: minimum and maximum size of the pool; NULL: POOL_START, and no maximum.
fallible disk_open(int data, const char *want, const struct pool_bounds *pool, struct disk **out);
void disk_close(struct disk *disk); // unmounts and detaches; the files stay
const char *disk_word(const struct disk *disk);
bool disk_limits_bytes(const struct disk *disk);
bool disk_limits_inodes(const struct disk *disk);

// Makes the box's disk and returns a detached mount of it, nosuid,nodev, idmapped by `userns`. Its
// root holds r/u r/w (upper and work of /) and usr/u usr/w, all owned by the box's root, 0755.
// With `userns` -1 the ids stay as they are on the disk.
// INVALID bad_field if this host could never keep the limits. A limit on inodes selects the image
// driver. NO_SPACE host_disk_full below the watermark, disk_full if the pool cannot grow; INVALID
// no_disk_limit if a limit cannot be enforced. `lasting`: the disk outlives a stop and a reboot.
fallible disk_make(struct disk *disk, const char *box, const struct limits *limits, bool lasting,
		   int userns, int *out_tree);
// Starts the child that repairs the disk of an earlier build, if it was not unmounted cleanly:
// *out_pid is its pid, else 0. disk_is_repaired() judges its exit status.
fallible disk_repair(struct disk *disk, const char *box, int *out_pid);
bool disk_is_repaired(int status);
// Mounts the disk that an earlier build left. Its content is untrusted. NOT_FOUND no_disk.
fallible disk_again(struct disk *disk, const char *box, const struct limits *limits, int userns,
		    int *out_tree);
// A further mount of the disk of a volume, which may be mounted already; its ids are not mapped.
fallible disk_share(struct disk *disk, const char *volume, const struct limits *limits,
		    int *out_tree);
// Copies of disks: begin opens what is to be copied, the rest happens in a child
// (warden/disk_copy.h).
struct disk_copy;
// The disk of a box, whose processes are frozen or gone, into the directory `dir` of a snapshot.
// NOT_FOUND no_disk; NO_SPACE.
fallible disk_save_begin(struct disk *disk, const char *box, int dir, struct disk_copy *out);
// Starts the child that completes a saved disk, if one is needed: *out_pid, else untouched.
fallible disk_save_complete(int dir, int *out_pid);
fallible disk_unsave(struct disk *disk, int dir); // drops what lies outside `dir`
// Drops what lies outside of every snapshot's directory: `known` has the names of what is in use.
void disk_sweep_saved(struct disk *disk, const struct map *known);
// A copy of the snapshot in `dir`, of `bytes`, for a new box. INVALID bad_field: the limit does not
// fit. NOT_FOUND no_disk: the snapshot was made with another driver.
fallible disk_load_begin(struct disk *disk, int dir, const char *box, const struct limits *limits,
			 uint64_t bytes, struct disk_copy *out);
// A detached mount of it, read-only, idmapped by `userns`. NOT_OFFERED as above.
fallible disk_view(struct disk *disk, int dir, int userns, int *out_tree);
// The copy becomes the disk of the box, which is mounted like disk_make() does.
fallible disk_load_end(struct disk *disk, const char *box, const struct limits *limits, int userns,
		       int *out_tree);
void disk_load_undo(struct disk *disk, const char *box);
// Changes the limit in bytes of a disk, in two steps: begin checks and prepares it, by a child if
// out->run is not NULL; end puts it in force, or undo drops it. CONFLICT below_use, running;
// INVALID bad_field, no_disk_limit; NO_SPACE; NOT_FOUND no_disk.
fallible disk_limit_begin(struct disk *disk, const char *box, const struct limits *limits,
			  bool is_mounted, struct disk_copy *out);
fallible disk_limit_end(struct disk *disk, const char *box, const struct limits *limits,
			bool copied);
void disk_limit_undo(struct disk *disk, const char *box);
// A living box has the disk mounted, as an earlier warden made it with these limits.
void disk_adopt(struct disk *disk, const char *box, const struct limits *limits);
// Bytes in use; false: there is no disk, or the number is unknown. On btrfs: as of the last commit.
bool disk_used(struct disk *disk, const char *box, uint64_t *out);
// The inodes of the file system that a running box has to itself; untouched if its driver gives it
// no fixed number. `mounts`: a mount on the disk, or of an overlay on it; -1: the disk is mounted
// once more, which takes longer.
void disk_inodes(struct disk *disk, const char *box, int mounts, uint64_t *out_all,
		 uint64_t *out_free);
// True if the disk is mounted nowhere.
bool disk_is_unmounted(struct disk *disk, const char *box);
// Calls `each` for every box that has a disk.
fallible disk_each(struct disk *disk, void (*each)(void *arg, const char *box), void *arg);
fallible disk_each_volume(struct disk *disk, void (*each)(void *arg, const char *volume),
			  void *arg);
bool disk_exists(struct disk *disk, const char *name); // of a box or of a volume
// Called after the box's mounts are gone. The disk is renamed to the trash or destroyed at once;
// the bytes are freed in the background. Idempotent.
fallible disk_drop(struct disk *disk, const char *box);
// The same for a disk without a box: unmounts and detaches it from loop devices first.
fallible disk_remove_orphan(struct disk *disk, const char *box);
// Idle work: prepares images, grows the pool, gives boxes at their limit the little space that a
// truncate needs. Call it after start and when there is nothing to do. Returns the milliseconds to
// the next call, -1: not before the next box.
int disk_idle(struct disk *disk);
uint64_t disk_trash(const struct disk *disk);	    // entries not yet reaped
uint64_t disk_trash_bytes(const struct disk *disk); // see trash_bytes()
// A child ended (SIGCHLD): true if `pid` was the trash reaper, the sync process or the process that
// resizes the pool.
bool disk_reaped(struct disk *disk, int pid);
