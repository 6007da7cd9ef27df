// The sandbox API as remote calls over one WebSocket, in the capnweb protocol.
#pragma once

#include "http/router.h"

route_fn cloudflare_rpc;
