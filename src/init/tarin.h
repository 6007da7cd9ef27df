// A hand's untar, out of a pipe: the archive is a stranger's.
#pragma once

#include "model/reach.h"

bool tarin_serve(const struct reach_ask *ask, struct reach_say *say);
