// What a way of keeping boxes' files must be able to do. disk.c knows these rows and no more.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "types/limits.h"
#include "warden/pool_size.h"
#include "warden/trash.h"

// What the drivers stand on; disk.c owns it and it outlives them.
struct disk_place {
	int data;  // DATA
	int boxes; // DATA/boxes: holds nothing but boxes' disks when a driver is opened
	struct trash *trash;
	struct pool_bounds pool;
};

// The reason of an open() that failed though disks are there: no other driver may stand in.
#define DISK_LOST "pool_lost"

struct disk_driver {
	const char *word;
	bool limits_bytes, limits_inodes;
	bool preallocates; // make() takes from what the driver has already, and says when that is
			   // short
	// NOT_OFFERED, or whatever else went wrong: this host cannot. *out is the driver's own.
	fallible (*open)(const struct disk_place *place, void **out);
	void (*close)(void *self);
	// A detached mount with the four directories in it, not yet mapped. Undone on failure.
	// `lasting`: it shall outlive a stop and a reboot.
	fallible (*make)(void *self, const char *box, const struct limits *limits, bool lasting,
			 int *out_tree);
	// The same of a disk that is there already. NOT_FOUND no_disk: this driver has none.
	fallible (*again)(void *self, const char *box, const struct limits *limits, int *out_tree);
	// Starts the child that repairs such a disk, if it needs that: *out_pid is its pid, else
	// untouched. Exit status 0 or 1 is success. NULL: no disk ever needs it.
	fallible (*repair)(void *self, const char *box, int *out_pid);
	// A box that lives has it mounted: an earlier life made it. Whatever is kept in mind of it.
	void (*adopt)(void *self, const char *box, const struct limits *limits);
	// Nobody has it mounted any more, so it can be taken again. NULL: that is always so.
	bool (*rests)(void *self, const char *box);
	// Bytes that the disk of a box takes; false: it has none here. NULL: that is not measured.
	bool (*used)(void *self, const char *box, uint64_t *out);
	fallible (*drop)(void *self, const char *box); // an unknown box is dropped already
	// Every box that has a disk here.
	fallible (*list)(void *self, void (*each)(void *arg, const char *box), void *arg);
	// A directory of the file system that all disks of this driver share. NULL: they share
	// none.
	int (*pool)(void *self);
	// Spare time. Returns in how many milliseconds it wants to be asked again; -1: not at all.
	int (*idle)(void *self);
	// A child ended: true when it was this driver's. NULL: it has none.
	bool (*reaped)(void *self, int pid);
};

extern const struct disk_driver disk_btrfs, disk_image, disk_dir;

// Calls `each` for every name in a directory that is a box's id followed by `suffix`.
fallible disk_list(int dir, const char *suffix, void (*each)(void *arg, const char *box),
		   void *arg);
fallible disk_none(const char *box); // NOT_FOUND no_disk
// r/u r/w usr/u usr/w beneath the directory `root`.
fallible disk_make_directories(int root);
// They are all there: a disk that was being made when the power went may lack some.
bool disk_is_whole(int tree);
