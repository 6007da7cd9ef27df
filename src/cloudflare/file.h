#pragma once

#include "http/router.h"

// Files and the whole workspace, as bytes.
route_fn bridge_file_read, bridge_file_write, bridge_file_persist, bridge_file_hydrate;
