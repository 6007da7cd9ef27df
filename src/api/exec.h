// Commands: run to the end, or with their output as it comes.
#pragma once

#include "http/router.h"

route_fn api_exec_run, api_exec_stream;
