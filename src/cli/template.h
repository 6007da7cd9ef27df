// Templates of sandboxes: list, import, freeze, remove.
#pragma once

#include "cli/call.h"

#define TEMPLATES_PATH "/v1/templates"

fallible cli_template_ls(struct call *call);
fallible cli_template_import(struct call *call);
fallible cli_template_freeze(struct call *call);
fallible cli_template_rm(struct call *call);
