// execute/stream: a command whose output comes as events. It is a process like any other, with a
// record and a tape of its own, so a client that lost its connection goes on at
// process/{id}/stream.
#pragma once

#include "http/router.h"

route_fn toolbox_exec_stream;
