// The state of an exec, for the files of this folder that adopt, relabel or become one.
#pragma once

#include "box/exec.h"
#include "box/pipes.h"
#include "box/private.h"

// exec.c has the table of transitions.
enum exec_state {
	EXEC_NEW,	 // nothing was sent
	EXEC_ASKED,	 // EXEC was sent: STARTED, RAN or FAILED answers it
	EXEC_ABANDONED,	 // the same, but its starter stopped waiting: it is killed once it runs
	EXEC_FAILED,	 // it did not start
	EXEC_RUNNING,	 // output is read, limits are enforced
	EXEC_TERMED,	 // told to end: it is killed when the timer is due
	EXEC_KILLED,	 // its cgroup is being killed: EXITED must come
	EXEC_ENDED,	 // EXITED has come; bytes that are in the pipes still go to the tape
	EXEC_DONE,	 // the result is final; its owner is called
	EXEC_DRAINING,	 // while a process holds a pipe, its bytes are read and dropped
	EXEC_UNFILED,	 // FORGET waits for exec_filed()
	EXEC_UNSENT,	 // FORGET waits for room in the socket
	EXEC_UNREPORTED, // FORGET was sent; EXITED has not come
	EXEC_FORGOTTEN,	 // neither pid 1 nor the box has it any more
	EXEC_STATES
};

// EXITED of pid 1.
enum exec_report {
	REPORT_DUE,
	REPORT_LATE, // the result is final without it
	REPORT_CAME,
	REPORT_OVER, // it came, and pid 1 has forgotten the exec
};

struct exec {
	struct box *box;
	struct link link; // box->execs, from EXEC_DRAINING on box->draining
	int refs;
	uint32_t conn;
	struct box_cgroup *exec_cgroup;
	enum exec_state state;
	enum exec_report report;
	bool held;		    // by its starter
	bool kept;		    // no FORGET before its end is on record
	bool taped;		    // its output goes to a given tape, also beside a dialogue
	bool pipeless;		    // it runs, but this process had no fds for its pipes
	bool stopping;		    // exec_stop() takes care of processes that are left
	struct box_cgroup *remains; // their cgroup, then
	struct {		    // messages that a full socket did not take
		bool label, shut;
		int signal; // 0: none
		bool alone; // the signal is for the first process only
	} owes;
	void (*on_end)(void *arg);
	void *on_end_arg;
	char *label; // of a shell or a relabelled exec: the last label sent
	size_t label_len;
	uint32_t sender; // pid whose messages on the dialogue count; 0: not known
	struct talk failure;
	int pid;
	struct tape *tape;
	struct pipes pipes;
	uint32_t flags;	  // talk_exec_flags, as sent
	int stdio[3];	  // fds of a pty or a dialogue until they are taken; else -1
	struct str input; // borrowed until STARTED
	uint64_t cpu_ms, wall_ms;
	struct timer timer;
	enum ending cause;	      // the first that acted; ENDING_EXITED: none
	uint64_t meter_us, oom_kills; // at its start
	int64_t begun_us;
	int status;
	struct exec_result result;
	struct condition condition;
	// Called instead of a kill when its CPU time is used up; the arg is on_end's.
	void (*on_cpu)(void *arg);
	struct deferred free_later;
};

static inline bool exec_runs(const struct exec *exec)
{
	return exec->state >= EXEC_RUNNING && exec->state <= EXEC_KILLED;
}

// References: the holder, the box until it is forgotten, a spill that is under way.
void exec_ref(struct exec *exec);
void exec_let_go(struct exec *exec); // drops a reference
// In exec_send.c: sends what a full socket did not take.
void exec_send_owed(struct exec *exec);
// Encodes the label: purpose, limits and start of the exec, by which the next daemon recognizes it
// (exec_adopt()). Empty if pid 1 takes none. Borrowed until the next call.
struct str exec_make_label(struct exec *exec, const struct exec_spec *spec);
bool exec_label_changes(enum exec_label_kind kind); // that of a shell: it is kept
void exec_keep_label(struct exec *exec, struct str label);
// Makes an exec of a command that pid 1 holds, by HELD and its decoded label. Takes ownership of
// the fds. NULL cgroup: it has ended. BAD_PEER: an fd is not what it should be.
fallible exec_adopt(struct box *box, const struct talk *talk, const struct exec_label *label,
		    struct box_cgroup *exec_cgroup, struct tape *tape, const int *fds,
		    struct exec **out);
// Replaces the label and sends it to pid 1. exec_await_label() waits until the socket took it.
void exec_relabel(struct exec *exec, const struct exec_spec *spec);
fallible exec_await_label(struct exec *exec, int64_t deadline);
// The end is on record: pid 1 may forget the exec.
void exec_filed(struct exec *exec);
// Sets a flag of a shell's label (protocol/exec_label.h), before the state that it announces.
void exec_label_flag(struct exec *exec, uint32_t flag, bool on);
void exec_label_sender(struct exec *exec, uint32_t sender);
// The pty spool of a terminal, once; -1: none.
void exec_take_spool(struct exec *exec, int ends[2]);
// The process was told to end: kills it if it still runs after that time.
void exec_kill_after(struct exec *exec, int64_t ms);
// Sets the cause killed_by_api; the caller ends what is left in the cgroup.
void exec_stop_by_api(struct exec *exec);
// As exec_kill(), and waits until the cgroup is empty. For shielded tasks.
void exec_kill_wait(struct exec *exec);
