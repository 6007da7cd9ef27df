// Loop devices. Ours have autoclear: the kernel detaches them with the last close, so a crash
// leaves none.
#pragma once

#include "base/err.h"

#define LOOPDEV_PATH 32

// Binds `file` (open for writing) to a free device. *out_fd keeps it alive until it is mounted.
// NOT_OFFERED no_loop if the host has no loop devices.
fallible loopdev_attach(int file, int *out_fd, char out_path[LOOPDEV_PATH]);
// The device that `file` is bound to; *out_fd is -1 if none.
fallible loopdev_find(int file, int *out_fd, char out_path[LOOPDEV_PATH]);
// How many devices are bound to the file `name` in `dir`; NULL: to any file in it.
unsigned loopdev_count(int dir, const char *name);
// Calls `each` for every device that is bound to a file in `dir`, open for reading, with its name.
void loopdev_each(int dir, void (*each)(void *arg, int fd, const char *name), void *arg);
// Syncs the file system on every device that is bound to a file in `dir`, wherever it is mounted.
// 0, or the first error number.
int loopdev_sync_all(int dir);
// Resizes the device after its file grew.
fallible loopdev_grow(int fd);
// Detached at once, or with the last user.
void loopdev_detach(int fd);
