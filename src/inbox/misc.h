// What every client asks first, and what is not offered.
#pragma once

#include "http/router.h"

route_fn inbox_misc_greet, inbox_misc_ping, inbox_misc_version, inbox_misc_commands;
// 501, with a hint of what to do instead.
route_fn inbox_misc_no_desktop, inbox_misc_no_tunnels, inbox_misc_no_buckets;
