// The WebSocket transport: the routes of one sandbox, multiplexed over one socket.
#pragma once

#include "http/router.h"

route_fn cloudflare_ws;
