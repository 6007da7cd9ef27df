// Exposed ports of a sandbox: expose, list, unexpose, and signed links with an expiry.
#pragma once

#include "http/router.h"

route_fn api_ports_expose, api_ports_list, api_ports_unexpose, api_ports_link;
route_fn api_ports_tcp; // a TCP connection to a port, inside a WebSocket
