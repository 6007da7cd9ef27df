// The state of a context, shared by the context files.
#pragma once

#include "box/context.h"
#include "box/repl.h"
#include "protocol/cell.h"

struct context {
	struct repl repl; // its tape has no name: output between cells ends with the daemon
	bool is_default;
	enum context_language language;
	char key[CELL_KEY + 1];
	uint64_t cells;	  // started in this process
	uint64_t number;  // of the last cell
	struct link past; // ended runs, by number
	uint32_t past_count;
};

struct context_run {
	struct repl_run run;
	bool resumed;  // the previous daemon sent it
	bool doubtful; // no such cell existed, unless it has output
	uint64_t number;
	int64_t started_ms; // wall clock, of a recovered run
	struct context_result result;
};

static inline struct context *context_of(const struct context_run *run)
{
	return (struct context *)run->run.repl;
}

// In context_cell.c.
struct tape *context_new_tape(struct context *context, uint64_t number, uint64_t timeout_ms);
// Held by the caller. `tape` is taken over.
struct context_run *context_run_new(struct context *context, uint64_t number, struct tape *tape);
// Ends a cell that was sent, or would have been. `exec`: of a process that ended with it.
void context_run_finish(struct context_run *run, struct exec *exec);
void context_file(struct context_run *run, struct exec *exec);
void context_list_past(struct context_run *run);
void context_past_forget(struct context_run *run); // an ended run
void cell_recover_end(struct context_result *result, const struct tape_ending *ending);

// In context_warm.c.
#define CONTEXT_TAPE 'c' // of a cell

struct tape_files *context_tapes(struct box *box); // of its cells; created on first use
bool context_has_typescript(void);

// Parameters of a context's process.
struct context_launch {
	struct box *box;
	enum context_language language;
	const char *const *env;
	const char *cwd;
	uint32_t cpu_milli;
	struct tape *aside;
	const char *key;
	uint32_t file;	// number of the state file
	const char *id; // NULL: the next daemon will not recognize the process
};
// Starts a process. Waits. NOT_OFFERED no_interpreter, no_node; errors of exec_start().
fallible context_spawn(const struct context_launch *launch, struct bash **out);
// Takes a spare and sends it the parameters. The caller sets its callbacks at once. NULL: none
// suits.
struct bash *context_warm_take(const struct context_launch *launch);
uint32_t context_warm_count(const struct box *box); // idle spares
void context_warm_end(struct box *box);		    // ends all spares
