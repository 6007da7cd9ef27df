// Commands that are run to completion.
#pragma once

#include "http/router.h"

route_fn toolbox_exec_run;
