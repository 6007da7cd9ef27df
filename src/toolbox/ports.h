// Ports of a sandbox: which listen, which are exposed by name, and requests passed on to them.
#pragma once

#include "http/router.h"

route_fn toolbox_ports_list, toolbox_ports_expose, toolbox_ports_exposed, toolbox_ports_unexpose;
route_fn toolbox_ports_watch; // until one is ready
route_fn toolbox_ports_proxy;
