// A hand's mv.
#pragma once

#include "model/reach.h"

bool move_serve(const struct reach_ask *ask, struct reach_say *say);
