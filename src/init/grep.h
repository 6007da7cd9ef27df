// GREP of a file worker: lines of text files that match.
#pragma once

#include "protocol/fileop.h"

bool grep_serve(const struct fileop_request *ask, struct fileop_reply *reply);
