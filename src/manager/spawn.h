// Starts background processes of a box, each with a record and a tape (box/procs.h).
#pragma once

#include "manager/exec.h"

struct spawn {
	struct str id;	     // len 0: a new one
	struct str session;  // as the request names it, for the record; at == NULL: none
	struct str state_of; // the session whose state it starts with; at == NULL: none
	struct str shown;    // the command, as answers repeat it
	bool auto_cleanup, keep_error;
	bool open_stdin; // after stdin_bytes: proc_write()
};

// Returns once the process runs. Errors of box_ref_begin(), procs_start() and admission. The caller
// holds *out, and keeps the box reference as long.
fallible spawn_process(const struct box_ref *ref, const struct manager_exec_spec *run,
		       const struct spawn *spec, struct proc **out);
