// A hand: a child of pid 1 that works on the files of the box with the rights of one of its users,
// and on its ports, on the daemon's word (protocol/fileop.h). It may be stuck or killed; pid 1 is
// not.
#pragma once

#include "init/drop_privileges.h"
#include "init/user.h"
#include "protocol/talk.h"

// *out: our end of its socket. On failure *step and errno say why.
bool file_worker_start(const struct drop_privileges *birth, struct str user, int *out,
		       enum talk_step *step);
