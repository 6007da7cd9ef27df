// Further sections of the manual: exit statuses, environment, files, examples.
#pragma once

#include "cli/call.h"

extern const struct remark remarks[]; // ended by a row without a section
