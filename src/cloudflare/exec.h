#pragma once

#include "http/router.h"

// Runs a command and streams its output as events in base64.
route_fn bridge_exec;
