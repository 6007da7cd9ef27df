// Runs commands in a box. A manager_exec keeps its box in memory and its output readable until it
// is dropped; the command itself runs on.
#pragma once

#include "manager/box_ref.h"

struct manager_exec;

// Waits until the command runs. NOT_FOUND no_sandbox; UNAVAILABLE box_starting; GONE box_lost; and
// the errors of exec_start(). The spec may be freed on return.
fallible manager_exec_start(struct manager *manager, const struct who *who, struct str key,
			    const struct manager_exec_spec *spec, struct manager_exec **out);
void manager_exec_drop(struct manager_exec *run);
static inline void auto_manager_exec_(struct manager_exec **run)
{
	if (*run)
		manager_exec_drop(*run);
}
#define auto_manager_exec on_exit_call(auto_manager_exec_) struct manager_exec *

int manager_exec_pid(const struct manager_exec *run);
uint64_t manager_exec_wall_ms(const struct manager_exec *run); // the limit in force; 0: none
struct tape *manager_exec_tape(const struct manager_exec *run);
struct entry *manager_exec_entry(const struct manager_exec *run); // of its box; borrowed
// Waits for the end of the command.
fallible manager_exec_wait(struct manager_exec *run, struct exec_result *out);
