// Templates: list, get, import, freeze, delete.
#pragma once

#include "http/router.h"

route_fn api_templates_list, api_templates_get, api_templates_make, api_templates_forget;
