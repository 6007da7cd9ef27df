// Liveness, version and commands of a sandbox; and routes that are not offered.
#pragma once

#include "http/router.h"

route_fn toolbox_misc_greet, toolbox_misc_ping, toolbox_misc_version, toolbox_misc_commands;
// 501, with a hint about the alternative.
route_fn toolbox_misc_no_desktop, toolbox_misc_no_tunnels, toolbox_misc_no_buckets;
