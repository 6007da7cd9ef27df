// The state of a context, shared by the context files.
#pragma once

#include "box/bash.h"
#include "box/context.h"
#include "box/tape_files.h"
#include "protocol/cell.h"

#define CONTEXT_STATE_FILE 'k' // letters of file names in the box's folder
#define CONTEXT_TAPE 'c'

struct contexts {
	struct link all; // in order of creation
	uint32_t count;
	uint32_t state_files; // created so far
	struct tape_files tapes;
	struct warm *warm; // prewarmed processes (context_warm.c); NULL: none wanted yet
};

struct context {
	struct box *box;  // held
	struct link link; // contexts->all
	int refs;	  // the table, callers, runs, tasks
	bool listed;
	bool left;	     // its files must not be removed here
	uint32_t state_file; // its number (context_state.c); 0: the next daemon will not know the
			     // context
	bool starting;	     // a task starts the process
	bool restarting;     // queued cells are for the next process
	bool warmed;	     // its process was a spare and is being configured
	bool is_default;
	char id[CONTEXT_ID + 1];
	char key[CELL_KEY + 1];
	enum context_language language;
	char **env;
	char *start_cwd, *cwd;
	uint64_t timeout_ms, output_cap;
	uint32_t cpu_milli;
	struct bash *shell;	 // its process, driven as a shell; NULL: ended
	bool ready;		 // the driver has answered
	struct tape *aside;	 // output between cells
	uint64_t cells;		 // started in this process
	uint64_t number;	 // of the last cell
	struct context_run *run; // running
	bool resuming;		 // the previous daemon sent the running cell (context_adopt.c)
	struct link queue;
	uint32_t waiting;
	struct link past; // ended runs, by number
	uint32_t past_count;
	struct err *failure; // of the last start
	struct condition changed;
	struct deferred free_later;
};

struct context_run {
	struct context *context; // held
	struct link link;	 // context->queue, or context->past
	int refs;		 // holders, the context
	uint32_t holders;
	bool done, late;
	bool begun;    // the process was sent the cell, or is about to be
	bool doubtful; // no such cell existed, unless it has output
	uint64_t number;
	int64_t started_ms; // wall clock, of a recovered run
	struct buf code;
	struct tape *tape;
	uint64_t timeout_ms;
	struct timer timer;
	struct context_result result;
	struct err *failure;
	struct condition condition;
};

// In context_table.c.
void context_ref(struct context *context);
void context_unlist(struct context *context);
fallible contexts_make_room(
	struct contexts *table); // evicts if need be. EXHAUSTED too_many_contexts
// Adds a context without a process. `id`, `key`: NULL for new ones.
struct context *context_make(struct box *box, const struct context_spec *spec, const char *id,
			     const char *key);
struct contexts *contexts_of(struct box *box); // created on first use
char **context_copy_list(const char *const *list);
// Parameters of a context's process. Of the label only kind, file and id count.
struct context_launch {
	struct box *box;
	enum context_language language;
	const char *const *env;
	const char *cwd;
	uint32_t cpu_milli;
	struct tape *aside;
	const char *key;
	const struct exec_label *label; // NULL: the next daemon will not recognize it
};
// In context_process.c.
bool context_has_typescript(void);
fallible context_spawn(const struct context_launch *launch, struct bash **out);
// In context_warm.c: a spare becomes the context's process. False: none suits.
bool context_warm_take(struct context *context);
uint32_t context_warm_count(const struct box *box); // idle spares
void context_warm_end(struct box *box);		    // ends all spares
void context_warm_free(struct box *box);
// In context_table.c: a run that is not queued yet. Takes ownership of the tape.
struct context_run *context_run_new(struct context *context, uint64_t number, struct tape *tape);
void context_run_let_go(struct context_run *run);
void context_past_forget(struct context_run *run); // an ended run
void context_clear_past(struct context *context);
// In context_run.c.
void context_start(struct context *context); // starts its process in a task
void context_resume(struct context *context, struct context_run *run, int64_t left_ms);
void context_pump(struct context *context); // starts the next queued cell if none runs
void context_attach(struct context *context, struct bash *shell);
void context_fail_all(struct context *context,
		      const struct err *err); // all queued runs; `err` is copied
// Ends the running cell: the process has ended or is lost.
void context_end_run(struct context *context, const struct exec_result *result);
// In context_past.c: ended runs and their tapes.
struct tape *context_new_tape(struct context *context, uint64_t number, uint64_t timeout_ms);
// Lists an ended run and writes its end record. `exec`: of a process that ended with it.
void context_file(struct context_run *run, struct exec *exec);
// A run of the previous daemon, by its tape (taken over). *out_ended = false: it has no end record.
struct context_run *context_recover(struct context *context, struct tape *tape,
				    const struct tape_label *label, bool *out_ended);
void context_list_past(struct context_run *run); // takes the reference
// In context_state.c: the state file. Both wait.
void context_state_write(struct context *context);
void context_state_erase(struct context *context);
// Restores a context; *out NULL: not a state file of ours. An error: not readable, which says
// nothing of that.
fallible context_state_read(struct box *box, uint32_t number, struct context **out);
