// Requests to a file worker about ports of the box.
#pragma once

#include "protocol/fileop.h"

bool ports_dial(const struct fileop_request *ask, struct fileop_reply *reply);
// A socket by which the warden identifies the network namespace of this box.
bool ports_socket(const struct fileop_request *ask, struct fileop_reply *reply);
bool ports_list(const struct fileop_request *ask, struct fileop_reply *reply);
