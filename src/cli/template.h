// Templates of sandboxes: list, import, freeze, remove.
#pragma once

#include "cli/call.h"

#define TEMPLATES_PATH "/v1/templates"
