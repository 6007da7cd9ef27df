// Calls on a pipe whose other end is in a box.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "box/stall.h"

bool pipe_fd_is(int fd, mode_t type); // S_IFIFO, S_IFSOCK: of an fd that a box sent
// Reads without waiting for bytes, whatever the pipe's flags are: -1 with errno EAGAIN. `at`: the
// owner of the pipe (box/stall.h).
ssize_t pipe_take(const struct stall_at *at, int fd, void *room, size_t size);
// Opens what all calls share, at the start of the process, so that the number of fds does not grow
// later.
void pipe_prepare(void);
// Copies the pipe's content, which stays in it.
ssize_t pipe_peek(const struct stall_at *at, int pipe, void *room, size_t size);
ssize_t pipe_give(const struct stall_at *at, int fd, const void *bytes, size_t len);
size_t pipe_held(const struct stall_at *at, int pipe); // bytes in it
void pipe_close(const struct stall_at *at, int *fd);
