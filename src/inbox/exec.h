// Commands that are run to their end.
#pragma once

#include "http/router.h"

route_fn inbox_exec_run;
