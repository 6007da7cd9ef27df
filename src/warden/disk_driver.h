// The interface of a disk driver. disk.c knows nothing else of the drivers.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
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
	// Every box that has a disk here.
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

// Calls `each` for every name in a directory that is a box's id followed by `suffix`.
fallible disk_list(int dir, const char *suffix, void (*each)(void *arg, const char *box),
		   void *arg);
fallible disk_none(const char *box); // NOT_FOUND no_disk
// r/u r/w usr/u usr/w beneath the directory `root`.
fallible disk_make_directories(int root);
// True if all four exist: a disk that was being made at a power cut may lack some.
bool disk_is_whole(int tree);
