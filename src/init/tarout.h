// TAR of a file worker: packs a tree into a pipe.
#pragma once

#include "protocol/fileop.h"

bool tarout_serve(const struct fileop_request *ask, struct fileop_reply *reply);
