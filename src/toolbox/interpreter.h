// The code interpreter: contexts, and cells whose output is an event stream.
#pragma once

#include "http/router.h"

route_fn toolbox_interpreter_health, toolbox_interpreter_list, toolbox_interpreter_create,
	toolbox_interpreter_delete, toolbox_interpreter_interrupt, toolbox_interpreter_restart,
	toolbox_interpreter_run, toolbox_interpreter_cells, toolbox_interpreter_cell;
