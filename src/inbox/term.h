// Terminals: WebSocket /ws/pty, and what cove adds to list, read and end them.
#pragma once

#include "http/router.h"

route_fn inbox_term_pty, inbox_term_list, inbox_term_log, inbox_term_kill;
