// The processes of one box: what was started to run on its own, what became of it, and where its
// output is. Records outlive the commands, and the box's own end, as long as the box is in memory;
// of those that have ended the oldest go first when there are too many.
#pragma once

#include "box/prewarmed_shell.h"

#define PROCS_ENDED_MAX 1000		    // records
#define PROCS_ENDED_MS (24ll * 3600 * 1000) // their age
#define PROCS_ENDED_TEXT (4u << 20)	    // bytes of their commands
#define PROC_ID_MAX 128			    // bytes
#define PROC_COMMAND_MAX (64u * 1024)	    // what is remembered of a command
#define PROC_GRACE_MS 5000		    // from SIGTERM to SIGKILL

// clang-format off
#define PROC_STATUSES(X) \
	X(STARTING, "starting") X(RUNNING, "running") X(COMPLETED, "completed") \
	X(FAILED, "failed") X(KILLED, "killed") X(ERROR, "error")
// clang-format on
enum proc_status {
#define X(name, word) PROC_##name,
	PROC_STATUSES(X)
#undef X
		PROC_STATUS_COUNT
};
const char *proc_status_word(enum proc_status status);

struct proc;

// What is shown of it. The texts live as long as the record is held.
struct proc_view {
	const char *id, *command;
	const char *session; // NULL: none
	const char *error;   // why it could not start, or was lost; NULL: it was not
	enum proc_status status;
	int pid;			  // 0: it never had one
	int64_t started_ms, ended_ms;	  // wall clock; ended 0: not yet
	int exit_code;			  // once ended; -1: none
	uint64_t wall_ms;		  // the time limit that held; 0: none
	const struct exec_result *result; // NULL: it has none (yet)
};

struct proc_spec {
	struct str id;	    // len 0: one is made
	struct str session; // at == NULL: none
	struct str command; // as it is shown
	bool auto_cleanup;  // the record goes with the end
	bool keep_error;    // a command that cannot start leaves a record that says so
	const struct exec_spec *exec;
	struct prewarmed **prewarmed; // not NULL: it is taken, and does what `cue` says
	struct str cue;
};

// Returns once the command runs, or an error of exec_start(). The caller holds *out.
// INVALID bad_process_id; CONFLICT process_exists: one of that id runs (one that has ended is
// replaced). Waits.
fallible procs_start(struct box *box, const struct proc_spec *spec, struct proc **out);
// Held; NULL: there is none.
struct proc *procs_find(struct box *box, struct str id);
// All of them, in the order of their start. `each` must not wait.
void procs_each(struct box *box, void (*each)(struct proc *proc, void *arg), void *arg);
// Until the ends of those that have ended are on disk.
void procs_settle(struct box *box);
// Forgets those that have ended, for good; how many. Waits for the disk.
uint32_t procs_clean(struct box *box);
// Ends all that run, as proc_stop() does; how many it ended.
fallible procs_stop_all(struct box *box, uint32_t *out_count);
// The session is deleted: what runs in its name is killed at once and ends in status error.
void procs_end_session(struct box *box, struct str session);

void proc_ref(struct proc *proc);
void proc_unref(struct proc *proc);
static inline void auto_proc_(struct proc **proc)
{
	if (*proc)
		proc_unref(*proc);
}
#define auto_proc on_exit_call(auto_proc_) struct proc *

struct proc_view proc_look(const struct proc *proc);
struct tape *proc_tape(const struct proc *proc); // borrowed; whoever reads it holds it
bool proc_is_over(const struct proc *proc);

// Until it has ended, and its output is whole. TIMEOUT.
fallible proc_wait(struct proc *proc, int64_t deadline);
// SIGTERM to the whole tree, SIGKILL after the grace; returns when all of it is gone. Recorded as
// killed, with 143 or 137. NOT_FOUND process_ended.
fallible proc_stop(struct proc *proc);
// Any signal, to the whole tree. SIGKILL returns when all of it is gone. NOT_FOUND process_ended.
fallible proc_signal(struct proc *proc, int signal);
// As exec_await_input().
fallible proc_await_input(struct proc *proc, size_t len, int64_t deadline);
// To its stdin, all of it; waits while the pipe is full. CONFLICT stdin_closed, TIMEOUT.
fallible proc_write(struct proc *proc, struct str bytes, int64_t deadline);
fallible proc_close_stdin(struct proc *proc);

// Of one that was started with a dialogue: another descriptor of it, the caller's; also of one that
// has ended, for what it said last may not have been read. -1: it has none.
int proc_dialogue(struct proc *proc);
void proc_close_dialogue(struct proc *proc); // of one that has ended: nobody will ask
// 1 + the number of its leaf; 0: it has ended.
uint32_t proc_cgroup(const struct proc *proc);
// A leaf, told as above, in which something of a process that has ended may still live: nobody else
// has it since.
bool procs_cgroup_is_left(const struct box *box, uint32_t exec_cgroup);
// Such a leaf, if it has a mark, and nothing lives in it: its cgroup may go.
void procs_cgroup_spend(struct box *box, uint32_t exec_cgroup);
