// The interface of a disk driver. disk.c knows nothing else of the drivers.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "types/limits.h"
#include "warden/pool_size.h"
#include "warden/trash.h"

// Directories that the drivers use. disk.c owns them, and they outlive the drivers.
struct disk_place {
	int data;  // DATA
	int boxes; // DATA/boxes: holds only boxes' disks when a driver is opened
	struct trash *trash;
	struct pool_bounds pool;
};

// The reason of an open() that failed though disks exist: no other driver may take its place.
#define DISK_LOST "pool_lost"

// A copy of a disk that a child makes: what to copy, as the driver has opened it. disk_copy_start()
// passes the descriptors on, and disk_copy_done() closes them.
#define DISK_COPY_FDS 2
struct disk_copy {
	fallible (*run)(struct disk_copy *copy); // in the child
	int fds[DISK_COPY_FDS];
	int count;
	char name[64];	    // of what is made
	uint64_t inherited; // bytes that the new disk shares with its origin
	uint64_t size;	    // that is wanted of it
	uint64_t bytes, files;
};

struct disk_driver {
	const char *word;
	bool limits_bytes, limits_inodes;
	bool preallocates; // make() uses space that the driver has, and fails if there is none
	// NOT_OFFERED, or any other error: this host cannot. *out is the driver's state.
	fallible (*open)(const struct disk_place *place, void **out);
	void (*close)(void *self);
	// A detached mount with the four directories in it, not yet idmapped. Undone on failure.
	// `lasting`: the disk outlives a stop and a reboot.
	fallible (*make)(void *self, const char *box, const struct limits *limits, bool lasting,
			 int *out_tree);
	// The same for a disk that exists already. NOT_FOUND no_disk: this driver has none.
	fallible (*again)(void *self, const char *box, const struct limits *limits, int *out_tree);
	// The same for a disk that may be mounted already. NULL: again() is that.
	fallible (*share)(void *self, const char *box, int *out_tree);
	// Starts the child that repairs such a disk, if needed: *out_pid is its pid, else
	// untouched. Exit status 0 or 1 is success. NULL: no disk ever needs it.
	fallible (*repair)(void *self, const char *box, int *out_pid);
	// A living box has the disk mounted: an earlier warden made it. Restores the driver's
	// record of it. NULL: the driver has none.
	void (*adopt)(void *self, const char *box, const struct limits *limits);
	// True if the disk is mounted nowhere and can be mounted again. NULL: always.
	bool (*is_unmounted)(void *self, const char *box);
	// Bytes in use by the disk of a box; false: no such disk here. NULL: not measured.
	bool (*used)(void *self, const char *box, uint64_t *out);
	fallible (*drop)(void *self, const char *box); // OK for an unknown box
	// Prepares a copy of a box's disk into the directory `dir` of a snapshot. Its processes are
	// frozen while it runs. NOT_FOUND no_disk.
	fallible (*save)(void *self, const char *box, int dir, struct disk_copy *out);
	// Starts a child that completes a saved disk, if needed, like repair(). NULL: none needs
	// it.
	fallible (*complete)(int dir, int *out_pid);
	// Prepares a copy of a saved disk, under a name that is no box's. NOT_FOUND no_disk: the
	// snapshot is of another driver.
	fallible (*load)(void *self, int dir, const char *box, const struct limits *limits,
			 uint64_t bytes, struct disk_copy *out);
	// Names the loaded disk, or removes it. OK if absent; *out_found.
	fallible (*place)(void *self, const char *box, bool *out_found);
	void (*unload)(void *self, const char *box);
	// A detached, read-only mount of a saved disk, not yet idmapped. NOT_FOUND no_disk.
	fallible (*view)(void *self, int dir, int *out_tree);
	// Drops what a snapshot has outside its directory. NULL: nothing.
	fallible (*unsave)(void *self, int dir);
	// Drops everything of snapshots that no directory of `known` refers to. NULL: there is
	// none.
	void (*sweep)(void *self, const struct map *known);
	// Prepares another limit in bytes. `is_mounted`: the box runs. out->run not NULL: a child
	// works before limit_end(), else `copied` is false there. NOT_FOUND no_disk; CONFLICT
	// below_use, running; INVALID bad_field. NULL: no limit is kept.
	fallible (*limit)(void *self, const char *box, const struct limits *limits, bool is_mounted,
			  struct disk_copy *out);
	fallible (*limit_end)(void *self, const char *box, const struct limits *limits,
			      bool copied);
	void (*limit_undo)(void *self, const char *box); // the child failed. NULL: nothing to undo
	// Every box and every volume that has a disk here.
	fallible (*list)(void *self, void (*each)(void *arg, const char *box), void *arg);
	// A directory of the file system that all disks of this driver share. NULL: they share
	// none.
	int (*pool)(void *self);
	// Idle work. Returns the milliseconds to the next call; -1: none needed. NULL: none.
	int (*idle)(void *self);
	// A child ended: true if it was this driver's. NULL: the driver has none.
	bool (*reaped)(void *self, int pid);
};

extern const struct disk_driver disk_btrfs, disk_image, disk_dir;

// Calls `each` for every name in a directory that is the id of a box or of a volume, followed by
// `suffix`.
fallible disk_list(int dir, const char *suffix, void (*each)(void *arg, const char *box),
		   void *arg);
fallible disk_none(const char *box);	// NOT_FOUND no_disk
fallible disk_below_use(uint64_t used); // CONFLICT below_use
#define DISK_SAVED_TREE "disk"		// of disk_dir, in the directory of a snapshot
#define DISK_SAVED_IMAGE "disk.img"	// of disk_image
#define DISK_SAVED_POOL "subvolume"	// of disk_btrfs: a file with its name
// r/u r/w usr/u usr/w beneath the directory `root`.
fallible disk_make_directories(int root);
// Renames what was loaded to the name of a box's disk. *out_found: it was there.
fallible disk_name(int dir, const char *from, const char *to, bool *out_found);
// Replaces the work directories of the overlays by empty ones: those of another box are of no use.
fallible disk_renew_work(int tree);
// True if all four exist: a disk that was being made at a power cut may lack some.
bool disk_is_whole(int tree);
