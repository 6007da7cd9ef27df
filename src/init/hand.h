// A hand: a child of pid 1 that works on the files of the box with the rights of one of its users,
// and on its ports, on the daemon's word (model/reach.h). It may be stuck or killed; pid 1 is not.
#pragma once

#include "init/birth.h"
#include "init/user.h"
#include "model/talk.h"

// *out: our end of its socket. On failure *step and errno say why.
bool hand_start(const struct birth *birth, struct str user, int *out, enum talk_step *step);
