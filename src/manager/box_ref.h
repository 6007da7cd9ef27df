// A box reference keeps a box in memory, and in use, during a request.
#pragma once

#include "box/exec.h"
#include "box/files.h"
#include "box/pipe.h"
#include "box/procs.h"
#include "box/session.h"
#include "box/term.h"
#include "manager/table.h"
#include "types/who.h"

struct box_ref {
	struct entry *entry; // referenced
	struct box *box;     // of the entry
	bool looks;	     // of box_ref_look(): does not count as use
};

// A reference to a running box; a frozen or stopped one is woken, which waits. NOT_FOUND
// no_sandbox; CONFLICT paused; UNAVAILABLE box_starting; GONE box_lost, box_deleted; EXHAUSTED when
// there is no room to start it. The box is in use until box_ref_end().
fallible box_ref_begin(struct manager *manager, const struct who *who, struct str key,
		       struct box_ref *out);
// A reference to a box that has run, in whatever state it is now, to read its stored state. After a
// start of the daemon this waits until the box is adopted.
fallible box_ref_look(struct manager *manager, const struct who *who, struct str key,
		      struct box_ref *out);
void box_ref_end(struct box_ref *ref); // harmless twice
#define auto_box_ref on_exit_call(box_ref_end) struct box_ref
// Admission of one more command. EXHAUSTED quota, daemon_files. Does not wait.
fallible box_ref_admit(const struct box_ref *ref);

// Translates errors of a box that ended during the request for the client.
fallible box_ref_explain(struct err *err);
