// A visit: a box kept in memory while something is done in it on somebody's behalf, and the outfit
// of whatever is started there.
#pragma once

#include "box/exec.h"
#include "box/files.h"
#include "box/pipe.h"
#include "box/procs.h"
#include "box/session.h"
#include "box/term.h"
#include "fleet/table.h"
#include "model/who.h"

struct visit {
	struct entry *entry; // held
	struct box *box;     // of the entry
	bool looks;	     // at what is remembered: that is no use of the box, once it is over
};

// A box that runs; one that is frozen or stopped is woken, which waits. NOT_FOUND no_sandbox;
// CONFLICT paused; UNAVAILABLE box_starting; GONE box_lost, box_deleted; EXHAUSTED when there is no
// room to start it. While a visit lasts the box is in use.
fallible visit_begin(struct fleet *fleet, const struct who *who, struct str key, struct visit *out);
// A box that has run, whatever became of it since: for what is remembered of it. After a start it
// waits until the box is taken up.
fallible visit_look(struct fleet *fleet, const struct who *who, struct str key, struct visit *out);
void visit_end(struct visit *visit); // harmless twice
#define auto_visit on_exit_call(visit_end) struct visit
// May one more command run? EXHAUSTED quota, daemon_files. Does not wait.
fallible visit_admit(const struct visit *visit);

// What a command is to be, as a door knows it.
struct use_spec {
	const char *command;	  // for bash -c; NULL: argv
	const char *const *argv;  // NULL-ended
	const struct pairs *env;  // on top of the box's own; may be NULL
	const char *cwd;	  // NULL: the box's own; a relative one begins there
	const char *user;	  // NULL: the box's own
	struct str stdin_bytes;	  // at == NULL: nothing to read
	uint64_t cpu_ms, wall_ms; // 0: the box's limit alone
};

// The same with all that the box adds: what every command gets, then the box's own variables, then
// the request's; the tighter of the request's limits and the box's.
struct outfit {
	struct exec_spec spec; // borrows from the use_spec and from below
	struct pairs pairs;
	char **env;
	char *cwd;
	const char *argv[2];
};
void outfit_make(const struct visit *visit, const struct use_spec *use, struct outfit *out);
void outfit_done(struct outfit *outfit);
#define auto_outfit on_exit_call(outfit_done) struct outfit

// The errors of a box that ends under its visitor, in the words of a door.
fallible visit_explain(struct err *err);
