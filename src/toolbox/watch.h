// Changes in a tree: as events, or whether there were any since the last request.
#pragma once

#include "http/router.h"

route_fn toolbox_watch, toolbox_watch_check;
