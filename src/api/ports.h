// Ports of a sandbox that others may look at: expose, list, take back, and links that end.
#pragma once

#include "http/router.h"

route_fn api_ports_expose, api_ports_list, api_ports_unexpose, api_ports_link;
route_fn api_ports_tcp; // a connection to a port, in a WebSocket
