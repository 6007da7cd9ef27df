// A hand's untar, out of a pipe: the archive is a stranger's.
#pragma once

#include "protocol/fileop.h"

bool tarin_serve(const struct fileop_request *ask, struct fileop_reply *reply);
