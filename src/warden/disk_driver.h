// What a way of keeping boxes' files must be able to do. disk.c knows these rows and no more.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/limits.h"
#include "warden/trash.h"

// What the drivers stand on; disk.c owns it and it outlives them.
struct disk_place {
	int data;  // DATA
	int boxes; // DATA/boxes: empty when a driver is opened
	struct trash *trash;
};

struct disk_driver {
	const char *word;
	bool limits_bytes, limits_inodes;
	// NOT_OFFERED, or whatever else went wrong: this host cannot. *out is the driver's own.
	fallible (*open)(const struct disk_place *place, void **out);
	void (*close)(void *self);
	// A detached mount with the four directories in it, not yet mapped. Undone on failure.
	fallible (*make)(void *self, const char *box, const struct limits *limits, int *out_tree);
	fallible (*drop)(void *self, const char *box); // an unknown box is dropped already
	// Spare time. Returns in how many milliseconds it wants to be asked again; -1: not at all.
	int (*idle)(void *self);
};

extern const struct disk_driver disk_btrfs, disk_image, disk_dir;

// r/u r/w usr/u usr/w beneath the directory `root`.
fallible disk_furnish(int root);
// What the host's file system has free beyond its watermark, the smaller of 2 GiB and 5 %; bytes.
fallible disk_room(int data, uint64_t *out);
