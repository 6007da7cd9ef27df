// execute/stream: a command whose output is an event stream. The command is a process with a record
// and a tape, so a client that lost its connection resumes at process/{id}/stream.
#pragma once

#include "http/router.h"

route_fn toolbox_exec_stream;
