// A hand's grep: lines of text files that match.
#pragma once

#include "model/reach.h"

bool grep_serve(const struct reach_ask *ask, struct reach_say *say);
