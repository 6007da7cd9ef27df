// The files of the dashboard.
#pragma once

#include "base/str.h"

// The hash of its page, which names all other files by theirs; len 0: there is no dashboard.
struct str ui_build(void);
