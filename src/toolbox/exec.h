// Commands that are run to their end.
#pragma once

#include "http/router.h"

route_fn toolbox_exec_run;
