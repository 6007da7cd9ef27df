// A file worker: a child of pid 1 that works on the files and ports of the box with the ids of one
// of its users, on requests of the daemon (protocol/fileop.h). A worker that is stuck or killed
// does not affect pid 1.
#pragma once

#include "init/drop_privileges.h"
#include "init/user.h"
#include "protocol/talk.h"

// *out: our end of its socket. On failure *step and errno say why.
bool file_worker_start(const struct drop_privileges *setup, struct str user, int *out,
		       enum talk_step *step);
// The loop of a worker: one request after another, until its socket closes. It is a process of its
// own: it may use the heap, and exit at any time.
void file_worker_serve(int sock) __attribute__((noreturn));
