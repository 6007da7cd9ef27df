// Loop devices: a file that stands for a disk. Ours clear themselves when the last user closes
// them, so a crash leaves none behind.
#pragma once

#include "base/err.h"

#define LOOPDEV_PATH 32

// Binds `file` (open for writing) to a free device. *out_fd keeps it alive until something is
// mounted from it. NOT_OFFERED no_loop when the host has no loop devices.
fallible loopdev_attach(int file, int *out_fd, char out_path[LOOPDEV_PATH]);
// The device that `file` is bound to already; *out_fd is -1 when there is none.
fallible loopdev_find(int file, int *out_fd, char out_path[LOOPDEV_PATH]);
// How many devices are bound to the file `name` in `dir`; NULL: to any file in it.
unsigned loopdev_count(int dir, const char *name);
// Calls `each` with the name of every file in `dir` that a device is bound to, once a device.
void loopdev_each(int dir, void (*each)(void *arg, const char *name), void *arg);
// Syncs the file system on every device that is bound to a file in `dir`, wherever it is mounted.
// 0, or the first error number.
int loopdev_sync_all(int dir);
// After the file grew: the device is as large as the file.
fallible loopdev_grow(int fd);
// Gone at once, or as soon as whoever still uses it lets go.
void loopdev_detach(int fd);
