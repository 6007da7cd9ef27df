// The egress ledger of a sandbox, as a page or as a live stream.
#pragma once

#include "http/router.h"

route_fn api_egress;
