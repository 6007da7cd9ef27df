#pragma once

#include "http/router.h"

// The whole of a sandbox by remote calls over one WebSocket: capnweb.
route_fn toolbox_rpc;
