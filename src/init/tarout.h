// A hand's tar of a tree, into a pipe.
#pragma once

#include "protocol/fileop.h"

bool tarout_serve(const struct fileop_request *ask, struct fileop_reply *reply);
