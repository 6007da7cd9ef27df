// Contexts: interpreters of one box that keep their state from one cell to the next. Each is one
// process in a leaf of its own, driven by a program of ours (src/kernels). Cells of a context run
// one after another, in order of arrival; contexts run side by side.
//
// A context outlives the daemon as its box does, and so does what its last cells have written.
#pragma once

#include "box/exec.h"

#define CONTEXT_MAX 128		   // of one box, dead ones included
#define CONTEXT_ID 36		   // characters of a UUID
#define CONTEXT_WAITING_MAX 256	   // cells that wait for one context
#define CONTEXT_CODE_MAX (1 << 20) // bytes
#define CONTEXT_PAST_MAX 32	   // cells that have ended and can be read again, of one context
#define CONTEXT_GRACE_MS 2000	   // from the interrupt of a cell that is late to its kill

enum context_language { CONTEXT_PYTHON, CONTEXT_JAVASCRIPT, CONTEXT_TYPESCRIPT, CONTEXT_LANGUAGES };
const char *context_word(enum context_language language);
// As people spell it; false: it is none of them.
bool context_language(struct str word, enum context_language *out);

struct context;

// What an interpreter starts with. All of it is copied.
struct context_spec {
	enum context_language language;
	const char *const *env; // NULL-ended "NAME=value", complete
	const char *cwd;
	uint64_t output_cap; // bytes that are kept of one cell
	uint32_t cpu_milli;
	uint64_t timeout_ms; // of each cell that names none; 0: none
	bool is_default;     // it is for cells that name no context
};

// A new one; waits until its driver is up. The caller holds it. EXHAUSTED too_many_contexts;
// NOT_OFFERED no_interpreter, no_node, no_typescript; UNAVAILABLE interpreter_failed; and what
// exec_start() says.
fallible context_create(struct box *box, const struct context_spec *spec, struct context **out);
struct context *context_find(struct box *box, struct str id); // held; NULL: there is none
// The one for cells of that language that name none, if it lives. Held.
struct context *context_default(struct box *box, enum context_language language);
void context_unref(struct context *context); // the caller's share
static inline void auto_context_(struct context **context)
{
	if (*context)
		context_unref(*context);
}
#define auto_context on_exit_call(auto_context_) struct context *
// Oldest first; it must not wait.
void context_each(struct box *box, void (*each)(struct context *context, void *arg), void *arg);

struct context_view {
	const char *id, *cwd; // where it stood after its last cell
	enum context_language language;
	bool alive, busy;
	int pid;	// as the box counts; 0: it has ended
	uint64_t cells; // begun in this process
};
struct context_view context_view(const struct context *context);

// Ends it: its process is killed with everything in its leaf. Cells of it end as dead. Returns when
// it is gone.
void context_delete(struct context *context);
// A new process for it, whether the old one lives or not: the state is lost, and cells that wait
// are run. Waits until it is up; fails as context_create().
fallible context_restart(struct context *context);
// The cell at work is interrupted; false: there is none.
bool context_interrupt(struct context *context);

enum context_end {
	CONTEXT_DONE, // its driver told the end: status
	CONTEXT_DIED, // the process ended: exec
};

struct context_result {
	enum context_end end;
	int status;		 // 0, or 1 for an error
	struct exec_result exec; // of a process that has ended
	bool timed_out;		 // by its time limit
	bool deleted;		 // the context was deleted, or restarted, under it
	uint64_t timeout_ms;
	uint64_t count; // of the cell in its process, from 1 on
	// Its end came while no daemon was there to see it: what its driver wrote last says how.
	bool unseen;
};

struct context_run;

// Puts a cell in line. It runs to its end whoever waits for it, unless it is dropped before its
// turn. TOO_LARGE code_too_large, EXHAUSTED context_busy, INTERNAL context_died: its process has
// ended.
fallible context_run(struct context *context, struct str code, uint64_t timeout_ms,
		     struct context_run **out);
// Its number among all cells of its context, from 1 on; the next daemon may leave one out.
uint64_t context_run_number(const struct context_run *run);
// Waits until the cell was begun and its tape is on disk: the next daemon knows it by its number.
// Returns at once when it will never begin.
fallible context_run_await_record(struct context_run *run, int64_t deadline);
// False after that wait: the disk is full or fails, and the next daemon will not know the cell.
bool context_run_is_recorded(const struct context_run *run);
bool context_run_has_ended(const struct context_run *run);
// The cell of that number, at work, waiting, or one of the last that have ended, also before a
// restart and in a box that has stopped. The caller holds it; NULL: there is none.
struct context_run *context_cell(struct context *context, uint64_t number);
// Those that context_cell() finds, oldest first; it must not wait.
void context_each_cell(struct context *context, void (*each)(struct context_run *run, void *arg),
		       void *arg);
// Its output, in the form of protocol/cell.h; it has ended when the cell has. Held by the run.
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
