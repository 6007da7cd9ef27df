// A visit: a box kept in memory while something is done in it on somebody's behalf, and the outfit
// of whatever is started there.
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
	struct entry *entry; // held
	struct box *box;     // of the entry
	bool looks;	     // at what is remembered: that is no use of the box, once it is over
};

// A box that runs; one that is frozen or stopped is woken, which waits. NOT_FOUND no_sandbox;
// CONFLICT paused; UNAVAILABLE box_starting; GONE box_lost, box_deleted; EXHAUSTED when there is no
// room to start it. While a visit lasts the box is in use.
fallible box_ref_begin(struct manager *manager, const struct who *who, struct str key,
		       struct box_ref *out);
// A box that has run, whatever became of it since: for what is remembered of it. After a start it
// waits until the box is taken up.
fallible box_ref_look(struct manager *manager, const struct who *who, struct str key,
		      struct box_ref *out);
void box_ref_end(struct box_ref *ref); // harmless twice
#define auto_box_ref on_exit_call(box_ref_end) struct box_ref
// May one more command run? EXHAUSTED quota, daemon_files. Does not wait.
fallible box_ref_admit(const struct box_ref *ref);

// What a command is to be, as a door knows it.
struct manager_exec_spec {
	const char *command;	   // for bash -c; NULL: argv
	const char *const *argv;   // NULL-ended
	const struct env_map *env; // on top of the box's own; may be NULL
	const char *cwd;	   // NULL: the box's own; a relative one begins there
	const char *user;	   // NULL: the box's own
	struct str stdin_bytes;	   // at == NULL: nothing to read
	uint64_t cpu_ms, wall_ms;  // 0: the box's limit alone
};

// The same with all that the box adds: what every command gets, then the box's own variables, then
// the request's; the tighter of the request's limits and the box's.
struct exec_env {
	struct exec_spec spec; // borrows from the manager_exec_spec and from below
	struct env_map env_map;
	char **env;
	char *cwd;
	const char *argv[2];
};
void exec_env_make(const struct box_ref *ref, const struct manager_exec_spec *run,
		   struct exec_env *out);
void exec_env_done(struct exec_env *exec_env);
#define auto_exec_env on_exit_call(exec_env_done) struct exec_env

// The errors of a box that ends under its visitor, in the words of a door.
fallible box_ref_explain(struct err *err);
