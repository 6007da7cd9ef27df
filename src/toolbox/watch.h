// Changes in a tree: as they happen, or whether there were any since the last question.
#pragma once

#include "http/router.h"

route_fn toolbox_watch, toolbox_watch_check;
