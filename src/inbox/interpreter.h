// The code interpreter: contexts, and cells whose output comes as events.
#pragma once

#include "http/router.h"

route_fn inbox_interpreter_health, inbox_interpreter_list, inbox_interpreter_create,
	inbox_interpreter_delete, inbox_interpreter_interrupt, inbox_interpreter_restart,
	inbox_interpreter_run, inbox_interpreter_cells, inbox_interpreter_cell;
