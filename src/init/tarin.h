// UNTAR of a file worker, from a pipe. The archive is untrusted.
#pragma once

#include "protocol/fileop.h"

bool tarin_serve(const struct fileop_request *ask, struct fileop_reply *reply);
