// A hand's watch over a directory.
#pragma once

#include "protocol/fileop.h"

bool watch_serve(const struct fileop_request *ask, struct fileop_reply *reply);
