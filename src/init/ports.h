// A hand at the ports of the box: who listens, and a connection to one.
#pragma once

#include "protocol/fileop.h"

bool ports_dial(const struct fileop_request *ask, struct fileop_reply *reply);
// A socket by which the warden knows the network of this box.
bool ports_socket(const struct fileop_request *ask, struct fileop_reply *reply);
bool ports_list(const struct fileop_request *ask, struct fileop_reply *reply);
