// A hand's broom: signals for what a command has started.
#pragma once

#include "model/reach.h"

bool sweep_serve(const struct reach_ask *ask, struct reach_say *say);
