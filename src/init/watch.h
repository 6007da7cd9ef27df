// WATCH of a file worker: changes in a directory tree.
#pragma once

#include "protocol/fileop.h"

bool watch_serve(const struct fileop_request *ask, struct fileop_reply *reply);
