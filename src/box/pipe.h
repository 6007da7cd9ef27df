// One call on a pipe whose other end is in a box.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "box/stall.h"

// One read or write of a pipe that never waits for bytes or room, whatever its flags are: -1 with
// errno EAGAIN. `at`: whose it is (box/stall.h).
ssize_t pipe_take(const struct stall_at *at, int fd, void *room, size_t size);
// What the process needs for all of them, made at its start, so that its descriptors do not grow
// later.
void pipe_prepare(void);
// What lies in a pipe, which stays there.
ssize_t pipe_peek(const struct stall_at *at, int pipe, void *room, size_t size);
ssize_t pipe_give(const struct stall_at *at, int fd, const void *bytes, size_t len);
size_t pipe_held(const struct stall_at *at, int pipe); // bytes that lie in it
void pipe_close(const struct stall_at *at, int *fd);
