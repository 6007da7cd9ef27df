// Processes: started to run on their own, listed, read, waited for, fed and ended.
#pragma once

#include "fleet/spawn.h"
#include "inbox/follow.h"

route_fn inbox_process_start, inbox_process_list, inbox_process_get, inbox_process_logs,
	inbox_process_delete, inbox_process_kill_all, inbox_process_clean, inbox_process_signal,
	inbox_process_stdin, inbox_process_tape, inbox_process_stream, inbox_process_wait,
	inbox_process_wait_log;

// Starts what `job` says as a process and answers with its id: execute with background:true too.
// Errors are answered.
fallible inbox_process_begin(struct http *x, const struct json *json, struct job *job);

// The process of a request: its sandbox kept in memory, its record and its tape held.
struct process {
	struct visit visit;
	struct proc *proc;
	struct tape *tape;
};
// NOT_FOUND no_process.
fallible process_find(struct http *x, struct process *out);
void process_done(struct process *process);
#define auto_process on_exit_call(process_done) struct process

// {"success":true,"processId":"…"
struct json_out process_answer(struct buf *body, const char *id);
// Status, exit code and how it ended, once it has.
// `follow`: the stream that it ends; NULL: none.
void process_put_end(struct json_out *out, const struct proc_view *view,
		     const struct follow *follow);
// Answers an error in Cloudflare's words: the process is its context. `condition`: what was waited
// for, and how long; NULL: nothing was.
struct process_failure {
	const char *operation;
	const struct proc_view *view; // NULL: the id of the path alone
	const char *condition;
	uint64_t timeout_ms;
};
void process_fail(struct http *x, const struct process_failure *failure, struct err *err);
// ?encoding=utf8|base64|auto
fallible process_encoding(struct http *x, enum job_encoding *out);
// ?timeoutMs=; 0: none.
fallible process_timeout(struct http *x, uint64_t *out);
