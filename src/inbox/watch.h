// Changes in a tree: as they happen, or asked for now and then.
#pragma once

#include "http/router.h"

route_fn inbox_watch, inbox_watch_check;
