// Contexts: interpreters of one box that keep their state between cells. Each is one process in a
// cgroup of its own, driven by a program of ours (src/kernels). Cells of a context run one after
// another, in order of arrival; contexts run in parallel.
//
// A context outlives the daemon, and so does the output of its last cells.
#pragma once

#include "box/exec.h"

#define CONTEXT_MAX 128		   // of one box, ended ones included
#define CONTEXT_ID 36		   // characters: a UUID
#define CONTEXT_WAITING_MAX 256	   // queued cells of one context
#define CONTEXT_CODE_MAX (1 << 20) // bytes
#define CONTEXT_PAST_MAX 32	   // ended cells that can be read again, of one context
#define CONTEXT_GRACE_MS 2000	   // from the interrupt of a late cell to its kill

enum context_language { CONTEXT_PYTHON, CONTEXT_JAVASCRIPT, CONTEXT_TYPESCRIPT, CONTEXT_LANGUAGES };
const char *context_word(enum context_language language);
// Accepts aliases; false: unknown.
bool context_language(struct str word, enum context_language *out);

struct context;

// Parameters of an interpreter. Everything is copied.
struct context_spec {
	enum context_language language;
	const char *const *env; // NULL-ended "NAME=value", complete
	const char *cwd;
	uint64_t output_cap; // bytes kept of one cell
	uint32_t cpu_milli;
	uint64_t timeout_ms; // of cells that name none; 0: none
	bool is_default;     // for cells that name no context
};

// Creates a context and waits until its driver is up. The caller holds it. EXHAUSTED
// too_many_contexts; NOT_OFFERED no_interpreter, no_node, no_typescript; UNAVAILABLE
// interpreter_failed; errors of exec_start().
fallible context_create(struct box *box, const struct context_spec *spec, struct context **out);
struct context *context_find(struct box *box, struct str id); // held; NULL: there is none
// The context for cells of that language that name none, if it lives. Held.
struct context *context_default(struct box *box, enum context_language language);
void context_unref(struct context *context); // the caller's reference
static inline void auto_context_(struct context **context)
{
	if (*context)
		context_unref(*context);
}
#define auto_context on_exit_call(auto_context_) struct context *
// Oldest first; `each` must not wait.
void context_each(struct box *box, void (*each)(struct context *context, void *arg), void *arg);

struct context_view {
	const char *id, *cwd; // cwd: after its last cell
	enum context_language language;
	bool alive, busy;
	int pid;	// in the box's pid namespace; 0: ended
	uint64_t cells; // started in this process
};
struct context_view context_view(const struct context *context);

// Kills its process with everything in its cgroup; its cells end as dead. Returns when it is gone.
void context_delete(struct context *context);
// Starts a new process, whether the old one lives or not: interpreter state is lost, queued cells
// run. Waits until it is up; fails as context_create().
fallible context_restart(struct context *context);
// Interrupts the running cell; false: none runs.
bool context_interrupt(struct context *context);

enum context_end {
	CONTEXT_DONE, // the driver reported the end: status
	CONTEXT_DIED, // the process ended: exec
};

struct context_result {
	enum context_end end;
	int status;		 // 0, or 1 for an error
	struct exec_result exec; // of an ended process
	bool timed_out;		 // the time limit fired
	bool deleted;		 // the context was deleted or restarted meanwhile
	uint64_t timeout_ms;
	uint64_t count; // number of the cell in its process, from 1
	// No daemon saw its end: the last event of its driver says how it ended.
	bool unseen;
};

struct context_run;

// Queues a cell. It runs to its end even if no caller waits, unless it is dropped before its turn.
// TOO_LARGE code_too_large, EXHAUSTED context_busy, INTERNAL context_died: the process has ended.
fallible context_run(struct context *context, struct str code, uint64_t timeout_ms,
		     struct context_run **out);
// Its number among all cells of its context, from 1; a restart of the daemon may skip one.
uint64_t context_run_number(const struct context_run *run);
// Waits until the cell was sent and its tape is on disk: then the next daemon knows it by its
// number, and it runs to its end without this one. Returns at once if it will never start.
fallible context_run_await_record(struct context_run *run, int64_t deadline);
// False after that wait: the disk is full or fails, and the next daemon will not know the cell.
bool context_run_is_recorded(const struct context_run *run);
bool context_run_has_ended(const struct context_run *run);
// The cell of that number: running, queued, or one of the last ended ones, also from before a
// restart and in a stopped box. The caller holds it; NULL: none.
struct context_run *context_cell(struct context *context, uint64_t number);
// The cells that context_cell() finds, oldest first; `each` must not wait.
void context_each_cell(struct context *context, void (*each)(struct context_run *run, void *arg),
		       void *arg);
// Its output, in the form of protocol/cell.h; ended when the cell has. Held by the run.
const char *context_run_key(const struct context_run *run);
struct tape *context_run_tape(struct context_run *run);
fallible context_run_wait(struct context_run *run, int64_t deadline, struct context_result *out);
void context_run_drop(struct context_run *run);
static inline void auto_context_run_(struct context_run **run)
{
	if (*run)
		context_run_drop(*run);
}
#define auto_context_run on_exit_call(auto_context_run_) struct context_run *
