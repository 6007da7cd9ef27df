// A REPL is a unit whose process reads one command after another from its dialogue socket and
// reports the end of each: the bash of a shell session, or an interpreter. Shared by both: the
// start of the process and its phases, the queue of runs, the state file, adoption. Their
// differences are a row of functions, struct repl_kind.
//
// A single run is active; the others wait in order of arrival; a run that no caller holds when its
// turn comes is skipped. Everything happens in callbacks of the process and of timers, so that a
// run goes to its end even if its client has gone.
#pragma once

#include "base/buf.h"
#include "box/bash.h"
#include "box/unit.h"
#include "codec/pack.h"

enum repl_phase {
	REPL_DOWN,	 // no process
	REPL_STARTING,	 // a task starts it
	REPL_GREETING,	 // it has not answered yet
	REPL_TAKING,	 // the same of a prewarmed one, which is replaced if it fails
	REPL_READY,	 // idle, or a run is active
	REPL_RESTARTING, // it is being killed; queued runs are for the next process
};

enum repl_event {
	REPL_START,
	REPL_STARTED,
	REPL_FAILED,
	REPL_TAKEN,
	REPL_ADOPTED,
	REPL_ANSWERED,
	REPL_RESTART,
	REPL_RESTART_CANCELLED,
	REPL_LOST,
};

enum repl_run_phase {
	RUN_QUEUED,
	RUN_ACTIVE,
	RUN_STOPPING, // a task ends it
	RUN_REPORTED, // the same, and the process has reported its end
	RUN_ENDED,
	RUN_SKIPPED, // ended before its turn
};

// Parameters of its processes.
struct repl_spec {
	const char *const *env; // NULL-ended
	const char *cwd;
	uint64_t timeout_ms, output_cap;
	uint32_t cpu_milli;
};

struct repl {
	struct unit unit; // unit.tape: output between runs
	enum repl_phase phase;
	char **env; // NULL-ended; of new processes
	char *start_cwd, *cwd;
	uint64_t timeout_ms, output_cap;
	uint32_t cpu_milli;
	struct bash *shell;   // its process; NULL: none
	struct repl_run *run; // active
	struct link queue;
	uint32_t waiting;
	struct err *failure;	    // of the last start
	bool file_stale, file_busy; // the state file is to be written; a task writes it
	struct deferred free_later;
};

// The first member of a run.
struct repl_run {
	struct repl *repl; // held
	struct link link;  // repl->queue, or a list of ended runs
	int refs;	   // holders, the queue or the REPL
	uint32_t holders;
	enum repl_run_phase phase;
	bool must_run;	  // also without a holder, and whether or not there is a process
	bool is_sent;	  // its process has it, or will read it even if this daemon dies
	struct buf words; // to be sent
	struct tape *tape;
	uint64_t timeout_ms;
	struct timer timer; // its time limit
	struct err *failure;
	struct condition condition;
};

// A state file, on the heap, its texts inside: the fields of struct repl_spec and those of a kind.
struct repl_file {
	uint32_t version;
	struct str id;
	struct repl_spec spec;
	uint32_t env_count;
	struct str changes; // of a session
	uint32_t own;
	struct str key; // of a context
	uint8_t language;
	bool is_default;
	const char **env;
	char *bytes;
};

struct repl_kind {
	const char *start_task, *file_task;			 // their names
	fallible (*spawn)(struct repl *repl, struct bash **out); // waits
	bool (*may_begin)(struct repl *repl, struct repl_run *run);
	void (*begin)(struct repl *repl, struct repl_run *run);
	void (*answered)(struct repl *repl); // to the greeting; NULL: nothing to do
	// The process reported the end of the active run, whose output is on the tape.
	void (*ended)(struct repl *repl, struct repl_run *run);
	// The process has ended. Takes over `shell`; `was`: the phase before.
	void (*lost)(struct repl *repl, struct bash *shell, enum repl_phase was);
	void (*spent)(struct repl *repl);	      // the CPU limit is used up; NULL: never
	void (*limit)(struct repl_run *run);	      // the time limit is over
	void (*free)(struct repl *repl);	      // its own fields; NULL: nothing to do
	fallible (*deleted)(const struct repl *repl); // the error of a caller that waits for it
	// The state file: after the id come fields of the kind, struct repl_spec without the
	// environment, more fields of the kind, the environment.
	const char *magic;
	uint32_t version; // and all before it
	size_t id_max;
	void (*pack)(const struct repl *repl, struct pack *out, bool is_tail);
	void (*unpack)(struct repl_file *file, struct unpack *in, bool is_tail);
	struct repl *(*restore)(struct box *box, const struct repl_file *file, uint32_t number);
};

void repl_init(struct repl *repl, const struct unit_kind *kind, struct box *box, struct str id);
void repl_configure(struct repl *repl, const struct repl_spec *spec, char **env); // takes `env`
void repl_free(struct unit *unit); // for struct unit_kind
char **repl_copy_env(const char *const *env);
enum unit_use repl_use(const struct unit *unit);
bool repl_is_alive(const struct repl *repl); // it is listed, and has a process or starts one
fallible repl_copy_err(const struct err *err);

bool repl_step(struct repl *repl, enum repl_event event); // false: no such transition
void repl_start(struct repl *repl); // starts a process in a task, unless there is one
// The process, started, taken or adopted.
void repl_attach(struct repl *repl, struct bash *shell, enum repl_event event);
// Waits until the process is up. `start`: called if there is none.
fallible repl_await_ready(struct repl *repl, void (*start)(struct repl *repl), int64_t deadline);
void repl_kill_wait(struct repl *repl); // kills the process with its cgroup

// A run that is not queued, held by the caller. `tape` is taken over.
void repl_run_init(struct repl_run *run, struct repl *repl, size_t words_max, struct tape *tape);
void repl_run_unref(struct repl_run *run);
void repl_run_drop(struct repl_run *run); // the reference of a holder
void repl_run_queue(struct repl_run *run);
void repl_run_settle(struct repl_run *run); // ends it and wakes its waiters
fallible repl_run_wait(struct repl_run *run, int64_t deadline);
void repl_run_limit(struct repl_run *run, int64_t ms); // sets the timer
void repl_pump(struct repl *repl);		       // begins the next run if none is active
// Ends all queued runs; `err` is copied, NULL: none.
void repl_fail_all(struct repl *repl, const struct err *err);

// The state file. A failing disk is logged: the unit then ends with the daemon.
void repl_file_write(struct repl *repl); // waits
void repl_file_touch(struct repl *repl); // in the background; the last state counts
void repl_file_erase(struct repl *repl); // waits; of an unlisted one
void repl_file_drop(struct repl *repl);	 // removes it in the background
// Restores a unit by its state file. *out NULL: there is no valid file; a later one of that id.
fallible repl_adopt_file(struct adoption *adoption, const struct unit_kind *kind, uint32_t number,
			 struct repl **out);
