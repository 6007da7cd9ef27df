// Sessions: create, list, inspect, delete; and the environment that they share.
#pragma once

#include "http/router.h"

route_fn toolbox_session_create, toolbox_session_list, toolbox_session_get, toolbox_session_delete,
	toolbox_session_output, toolbox_session_env;
