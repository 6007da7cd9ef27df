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
	struct box_ref ref;
	struct proc *proc;
	struct tape *tape;
};
// NOT_FOUND no_process.
fallible process_find(struct http *x, struct process *out);
void process_done(struct process *process);
#define auto_process on_exit_call(process_done) struct process

// {"success":true,"processId":"…"
struct json_out process_answer(struct buf *body, const char *id);
// Writes status, exit code and how the process ended, once it has. `follow`: the stream that ends
// with it; NULL: none.
void process_put_end(struct json_out *out, const struct proc_view *view,
		     const struct follow *follow);
// Answers an error in Cloudflare's format, with the process as context. `condition`: what was
// waited for, and how long; NULL: nothing.
struct process_failure {
	const char *operation;
	const struct proc_view *view; // NULL: only the id in the path is known
	const char *condition;
	uint64_t timeout_ms;
};
fallible process_fail_with(struct http *x, const struct process_failure *failure, struct err *err);
fallible process_fail(struct http *x, const char *operation, struct err *err);
// ?encoding=utf8|base64|auto
fallible process_encoding(struct http *x, enum exec_request_encoding *out);
// ?timeoutMs=; 0: none.
fallible process_timeout(struct http *x, uint64_t *out);
