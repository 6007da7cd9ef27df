// Terminals: WebSocket /ws/pty, and routes to list, read and end them.
#pragma once

#include "http/router.h"

route_fn toolbox_term_pty, toolbox_term_list, toolbox_term_log, toolbox_term_kill;
