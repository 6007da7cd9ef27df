// The records of one box's processes, shared by the procs files.
#pragma once

#include "base/map.h"
#include "box/exec_private.h"
#include "box/procs.h"
#include "box/tape_files.h"

#define PROC_LABEL_COMMAND 3000 // bytes of a command line that fit in its exec label

struct procs {
	struct box *box;
	struct map *by_id;
	struct link all;   // by start
	struct link ended; // by end
	uint32_t ended_count;
	size_t ended_text;
	struct tape_files tapes;
};

struct proc {
	struct procs *procs; // NULL: unlisted
	struct link link, ended_link;
	int refs;
	char *id, *command, *session, *error;
	size_t command_len;
	enum proc_status status;
	int pid, exit_code;
	int64_t started_ms, ended_ms; // wall clock
	int64_t ended_at;	      // loop time
	uint64_t wall_ms;
	bool auto_cleanup, has_result;
	bool stopping, forced, orphaned; // orphaned: its session was deleted
	struct exec_result result;
	struct exec *exec; // while it runs
	int last_words;	   // 1 + fd of its dialogue, after its end; 0: none
	struct tape *tape;
	struct timer label;
	struct loop *loop;
	struct condition changed;
};

struct procs *procs_of(struct box *box); // created on first use
fallible proc_check_id(struct str id);
void proc_unlist(struct proc *proc);
void proc_on_end(void *arg); // for exec_on_end()
void proc_on_label(struct timer *timer);
