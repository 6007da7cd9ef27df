// The state of a context, for the files of this room that make and drive it.
#pragma once

#include "box/bash.h"
#include "box/context.h"
#include "box/tape_files.h"
#include "protocol/cell.h"

#define CONTEXT_STATE_FILE 'k' // letters of files in the box's folder
#define CONTEXT_TAPE 'c'

struct contexts {
	struct link all; // in order of their making
	uint32_t count;
	uint32_t cards; // made so far
	struct tape_files tapes;
	struct warm *warm; // processes that wait (context_warm.c); NULL: none was wanted
};

struct context {
	struct box *box;  // held
	struct link link; // contexts->all
	int refs;	  // the table, the callers, the runs, the tasks
	bool listed;
	bool left;	     // its files are somebody else's to remove
	uint32_t state_file; // its number (context_state.c); 0: another daemon will not know of it
	bool starting;	     // a task sees to it
	bool restarting;     // what waits is for the next process
	bool warmed;	     // its process had waited, and is being told who it is
	bool is_default;
	char id[CONTEXT_ID + 1];
	char key[CELL_KEY + 1];
	enum context_language language;
	char **env;
	char *start_cwd, *cwd;
	uint64_t timeout_ms, output_cap;
	uint32_t cpu_milli;
	struct bash *shell;	 // its process, told and heard as a shell is; NULL: it has ended
	bool ready;		 // the driver has answered
	struct tape *aside;	 // what is written between the cells
	uint64_t cells;		 // in this process
	uint64_t number;	 // of the last cell
	struct context_run *run; // at work
	bool resuming;		 // the run is of an earlier daemon's telling (context_adopt.c)
	struct link queue;
	uint32_t waiting;
	struct link past; // runs that have ended, by number
	uint32_t past_count;
	struct err *failure; // of the last start
	struct condition changed;
	struct deferred free_later;
};

struct context_run {
	struct context *context; // held
	struct link link;	 // context->queue, or context->past
	int refs;		 // the holders, the context
	uint32_t holders;
	bool done, late;
	bool begun;    // it was told
	bool doubtful; // there was no such cell, unless it has written something
	uint64_t number;
	int64_t started_ms; // wall clock, of one that is recalled
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
fallible contexts_make_room(struct contexts *table); // for one more. EXHAUSTED too_many_contexts
// One of the table, with nothing running. `id`, `key`: NULL for new ones.
struct context *context_make(struct box *box, const struct context_spec *spec, const char *id,
			     const char *key);
struct contexts *contexts_of(struct box *box); // made when there are none
char **context_copy_list(const char *const *list);
// The process of a context, its driver on the way. Of TAG only kind, file and id count.
struct context_birth {
	struct box *box;
	enum context_language language;
	const char *const *env;
	const char *cwd;
	uint32_t cpu_milli;
	struct tape *aside;
	const char *key;
	const struct exec_label *tag; // NULL: the next daemon will not know what it is
};
// In context_process.c.
bool context_has_typescript(void);
fallible context_bear(const struct context_birth *birth, struct bash **out);
// In context_warm.c: a process that waits becomes the context's. False: none does that suits.
bool context_warm_take(struct context *context);
uint32_t context_warm_count(const struct box *box); // how many wait
void context_warm_end(struct box *box);		    // all of them go
void context_warm_free(struct box *box);
// In context_table.c: one that is in no line yet. It takes the tape over.
struct context_run *context_run_new(struct context *context, uint64_t number, struct tape *tape);
void context_run_let_go(struct context_run *run);
void context_past_forget(struct context_run *run); // one of the past
void context_clear_past(struct context *context);
// In context_run.c.
void context_start(struct context *context); // its process; a task sees to it
void context_resume(struct context *context, struct context_run *run, int64_t left_ms);
void context_pump(struct context *context); // the next in line, if there is one and nothing runs
void context_attach(struct context *context, struct bash *shell);
void context_fail_all(struct context *context, const struct err *err); // all that wait; copied
// The process has ended, or is held to have.
void context_end_run(struct context *context, const struct exec_result *result);
// In context_past.c: runs that have ended, and their tapes.
struct tape *context_new_tape(struct context *context, uint64_t number, uint64_t timeout_ms);
// It has ended: its end goes to the disk, and it is listed. `exec`: of a process that ended with
// it.
void context_file(struct context_run *run, struct exec *exec);
// One of an earlier daemon, by its tape, which is taken over. *out_ended = false: its end is not on
// record.
struct context_run *context_recover(struct context *context, struct tape *tape,
				    const struct tape_label *label, bool *out_ended);
void context_list_past(struct context_run *run); // takes the share
// In context_state.c. What a process of the context is started with, on disk. Both wait.
void context_state_write(struct context *context);
void context_state_erase(struct context *context);
// One of the table again; *out NULL: it is no card of ours. An error says nothing of that.
fallible context_state_read(struct box *box, uint32_t number, struct context **out);
