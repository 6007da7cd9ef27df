// Background processes of one box: their records, ends and output. Records outlive the commands and
// the run of the box, while the box is in memory; of too many ended ones the oldest are dropped
// first.
#pragma once

#include "box/prewarmed_shell.h"

#define PROCS_ENDED_MAX 1000		    // records
#define PROCS_ENDED_MS (24ll * 3600 * 1000) // maximum age
#define PROCS_ENDED_TEXT (4u << 20)	    // bytes of their command lines
#define PROC_ID_MAX 128			    // bytes
#define PROC_COMMAND_MAX (64u * 1024)	    // bytes of a command line that are kept
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

// A view of a record. The texts live as long as the record is held.
struct proc_view {
	const char *id, *command;
	const char *session; // NULL: none
	const char *error;   // why it could not start or was lost; NULL: neither
	enum proc_status status;
	int pid;			  // 0: never had one
	int64_t started_ms, ended_ms;	  // wall clock; ended 0: not yet
	int exit_code;			  // once ended; -1: none
	uint64_t wall_ms;		  // its time limit; 0: none
	const struct exec_result *result; // NULL: none (yet)
};

struct proc_spec {
	struct str id;	    // len 0: generated
	struct str session; // at == NULL: none
	struct str command; // for display
	bool auto_cleanup;  // the record is dropped at the end
	bool keep_error;    // a command that cannot start leaves an error record
	const struct exec_spec *exec;
	struct prewarmed **prewarmed; // not NULL: taken, and runs `cue`
	struct str cue;
};

// Returns once the command runs, or an error of exec_start(). The caller holds *out. INVALID
// bad_process_id; CONFLICT process_exists: a process of that id runs (an ended one is replaced).
// Waits.
fallible procs_start(struct box *box, const struct proc_spec *spec, struct proc **out);
// Held; NULL: none.
struct proc *procs_find(struct box *box, struct str id);
// All records, in order of start. `each` must not wait.
void procs_each(struct box *box, void (*each)(struct proc *proc, void *arg), void *arg);
// Waits until all end records are on disk.
void procs_settle(struct box *box);
// Drops all ended records for good; returns how many. Waits for the disk.
uint32_t procs_clean(struct box *box);
// Stops all running ones as proc_stop(); how many.
fallible procs_stop_all(struct box *box, uint32_t *out_count);
// The session is deleted: kills its processes; they end in status error.
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
struct tape *proc_tape(const struct proc *proc); // borrowed; a reader takes a reference
bool proc_is_over(const struct proc *proc);

// Waits until it has ended and its output is complete. TIMEOUT.
fallible proc_wait(struct proc *proc, int64_t deadline);
// SIGTERM to the whole tree, SIGKILL after the grace; returns when all of it is gone. Recorded as
// killed, with 143 or 137. NOT_FOUND process_ended.
fallible proc_stop(struct proc *proc);
// Signals the whole tree. SIGKILL returns when all of it is gone. NOT_FOUND process_ended.
fallible proc_signal(struct proc *proc, int signal);
// As exec_await_input().
fallible proc_await_input(struct proc *proc, size_t len, int64_t deadline);
// Writes everything to its stdin; waits while the pipe is full. CONFLICT stdin_closed, TIMEOUT.
fallible proc_write(struct proc *proc, struct str bytes, int64_t deadline);
fallible proc_close_stdin(struct proc *proc);

// A duplicate of its dialogue socket, the caller's; also after its end, since its last messages may
// be unread. -1: none.
int proc_dialogue(struct proc *proc);
void proc_close_dialogue(struct proc *proc); // after its end: will not be read
// 1 + the number of its cgroup; 0: ended
uint32_t proc_cgroup(const struct proc *proc);
// True if the cgroup (numbered as above) may still have processes of an ended command and was not
// reused.
bool procs_cgroup_is_left(const struct box *box, uint32_t exec_cgroup);
// Removes such a cgroup if it is marked and empty.
void procs_cgroup_spend(struct box *box, uint32_t exec_cgroup);
