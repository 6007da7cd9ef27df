// Ports of a sandbox: which listen, which are exposed by name, and requests passed on to them.
#pragma once

#include "http/router.h"

route_fn inbox_ports_list, inbox_ports_expose, inbox_ports_exposed, inbox_ports_unexpose;
route_fn inbox_ports_watch; // until one is ready
route_fn inbox_ports_proxy;
