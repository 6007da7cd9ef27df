// Commands: run to the end, or with their output as it comes.
#pragma once

#include "http/router.h"

route_fn inbox_exec_run, inbox_exec_stream;
