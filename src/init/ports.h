// A hand at the ports of the box: who listens, and a connection to one.
#pragma once

#include "model/reach.h"

bool ports_dial(const struct reach_ask *ask, struct reach_say *say);
// A socket by which the warden knows the network of this box.
bool ports_socket(const struct reach_ask *ask, struct reach_say *say);
bool ports_list(const struct reach_ask *ask, struct reach_say *say);
