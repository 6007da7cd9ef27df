// Runs of an agent session: input, state, result, and their logs.
#pragma once

#include "agent/private.h"

#define RUN_TRIES_MAX 3 // launches that may fail for one run, if a retry might help

// A new queued run, in memory only.
struct run *runs_new(struct agent_session *agent, const struct agent_run_spec *spec);
struct run *runs_find(const struct agent_session *agent,
		      struct str id); // that has not ended; NULL: none
// Sets how it ended, without a commit; runs_undo() reverts it.
struct run_before runs_mark(const struct run *run);
void runs_undo(struct run *run, const struct run_before *before);
void runs_set_end(struct run *run, const struct run_end *end);
void runs_set_taken(struct run *run); // the runner accepted it

void runs_write(struct json_out *out, const struct run *run, const struct who *who);
void runs_put_number(struct json_out *out, const char *key, int64_t value); // 0: null

// The log. Each call adds one line; `more` are members of the object, at == NULL: none. May wait
// for the disk, and for attached readers when the disk is full. A line that cannot be written is
// missing for later readers; the run goes on.
void runs_log(struct run *run, const char *type, struct str more);
fallible runs_log_line(struct run *run, const char *type,
		       struct str more); // the same, and returns the error
void runs_log_state(struct run *run);
void runs_log_step(struct run *run, const char *step);
void runs_log_end(struct run *run); // the last line
// After a restart: finds the last message of the runner that is in the log.
fallible runs_log_resume(struct run *run);
void runs_remove_logs(struct agent_session *agent);
