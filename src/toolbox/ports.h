// Ports of a sandbox: listening ones, exposed ones, and a reverse proxy to them.
#pragma once

#include "http/router.h"

route_fn toolbox_ports_list, toolbox_ports_expose, toolbox_ports_exposed, toolbox_ports_unexpose;
route_fn toolbox_ports_watch; // waits until a port is ready
route_fn toolbox_ports_proxy;
