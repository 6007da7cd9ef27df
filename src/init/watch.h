// A hand's watch over a directory.
#pragma once

#include "model/reach.h"

bool watch_serve(const struct reach_ask *ask, struct reach_say *say);
