// Routes for keys and tenants.
#pragma once

#include "http/router.h"

route_fn api_keys_make, api_keys_list, api_keys_revoke;
route_fn api_tenants_list, api_tenants_get, api_tenants_set, api_tenants_drop;
