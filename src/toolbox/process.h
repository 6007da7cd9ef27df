// Processes: started in the background, listed, read, waited for, written to and killed.
#pragma once

#include "manager/spawn.h"
#include "toolbox/follow.h"

// Starts `request` as a process and answers with its id; also used by execute with background:true.
// Errors are answered.
fallible toolbox_process_begin(struct http *x, const struct json *json,
			       struct exec_request *request);

// The process of a request: references to its sandbox, its record and its tape.
struct process {
	struct http *x;
	struct box_ref ref;
	struct proc *proc; // NULL: not found yet
	struct tape *tape;
	// For an error: what was waited for, and how long; NULL: nothing.
	const char *condition;
	uint64_t timeout_ms;
};
// Runs `work` and answers its error in Cloudflare's format, with the process as context.
typedef fallible process_fn(struct process *process);
fallible process_serve(struct http *x, const char *operation, process_fn *work);
// Handlers of the route table in toolbox.c.
route_fn toolbox_process_start;
process_fn toolbox_process_list, toolbox_process_get, toolbox_process_logs, toolbox_process_delete,
	toolbox_process_kill_all, toolbox_process_clean, toolbox_process_signal,
	toolbox_process_stdin, toolbox_process_tape, toolbox_process_cast, toolbox_process_stream,
	toolbox_process_wait, toolbox_process_wait_log;
// Fills in the process that the path names. NOT_FOUND no_process.
fallible process_find(struct process *process);
void process_done(struct process *process);
#define auto_process on_exit_call(process_done) struct process

// {"success":true,"processId":"…"
struct json_out process_answer(struct buf *body, const char *id);
// Writes status, exit code and how the process ended, once it has. `follow`: the stream that ends
// with it; NULL: none.
void process_put_end(struct json_out *out, const struct proc_view *view,
		     const struct follow *follow);
// Answers with the id, and how the process ended.
fallible process_answer_end(const struct process *process);
// "TERM", "SIGTERM" or 15; SIGTERM when it is absent. INVALID bad_field.
fallible process_read_signal(const struct json *value, int *out);
// ?encoding=utf8|base64|auto
fallible process_encoding(struct http *x, enum exec_request_encoding *out);
// ?timeoutMs=; 0: none.
fallible process_timeout(struct http *x, uint64_t *out);
