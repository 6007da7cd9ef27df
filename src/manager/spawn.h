// Processes of a box, started on somebody's behalf: records and tapes of their own (box/procs.h).
#pragma once

#include "manager/box_ref.h"

struct spawn {
	struct str id;	    // len 0: one is made
	struct str session; // as it was named, for the record; at == NULL: not
	struct str seat;    // the session whose state it starts with; at == NULL: none
	struct str shown;   // the command, as answers repeat it
	bool auto_cleanup, keep_error;
	bool open_stdin; // behind stdin_bytes: proc_write()
};

// Returns once it runs. What box_ref_begin(), procs_start() and admission say. The caller holds
// *out, and keeps the visit as long.
fallible spawn_process(const struct box_ref *ref, const struct manager_exec_spec *run,
		       const struct spawn *spec, struct proc **out);
