// MOVE of a file worker.
#pragma once

#include "protocol/fileop.h"

bool move_serve(const struct fileop_request *ask, struct fileop_reply *reply);
