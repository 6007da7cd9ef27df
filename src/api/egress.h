// The ledger of what left a sandbox, as a page or as a stream that goes on with it.
#pragma once

#include "http/router.h"

route_fn api_egress;
