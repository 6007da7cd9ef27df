// A hand's tar of a tree, into a pipe.
#pragma once

#include "model/reach.h"

bool tarout_serve(const struct reach_ask *ask, struct reach_say *say);
