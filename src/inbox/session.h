// Sessions: made, listed, looked at, ended; and the environment that they share.
#pragma once

#include "http/router.h"

route_fn inbox_session_create, inbox_session_list, inbox_session_get, inbox_session_delete,
	inbox_session_output, inbox_session_env;
