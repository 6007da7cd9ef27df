// Shared internals of libcove. Every public function wraps a `fallible` one: a call runs it as a
// task on the client's own loop, and converts its error to the public form. No task lives on
// between two calls, so a client may move from thread to thread; callbacks run outside any task, on
// the caller's stack.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/err.h"
#include "codec/json.h"
#include "http/client.h"
#include "lib/cove.h"
#include "loop/task.h"

#define PRIVATE_IDLE_MAX 4
#define PRIVATE_REPLY_MAX ((size_t)512 << 20)
#define PRIVATE_BODY_MAX ((size_t)64 << 20)

struct cove {
	struct loop *loop;
	char *url, *token;
	bool by_context;    // URL and key are those of a context
	int64_t timeout_ms; // 0: none
	pthread_t opener;   // the thread that made it
	struct http_client *idle[PRIVATE_IDLE_MAX];
	size_t idle_count;

	atomic_bool cancelled; // by cove_cancel(), until a call has noticed
	struct task *task;     // of the call that waits now
	struct timer timer;
	bool late;

	// The last API error, for the public error.
	char code[48];
	int status;
	bool told_retry, retryable;
	struct json *refusal; // the whole body; NULL: none
};

fallible private_init(struct cove *cove); // makes its loop
// Runs fn(arg) in a task and waits for it. `timeout_ms`: PRIVATE_DEFAULT, -1 for none, 0 for a poll
// without waiting. TIMEOUT, CANCELLED.
#define PRIVATE_DEFAULT (-2)
typedef fallible private_fn(void *arg);
fallible private_wait(struct cove *cove, int64_t timeout_ms, private_fn *fn, void *arg);
// Whether the connection or the server is unavailable: a retry may succeed.
bool private_is_lost(const struct cove *cove, const struct err *err);
// Sleeps. True: it was interrupted.
bool private_rest(struct cove *cove, int64_t ms);
// The end of every public function: frees `err`, fills *error (if given).
enum cove_kind private_end(struct cove *cove, struct err *err, struct cove_error *error);
enum err_kind private_err_kind(enum cove_kind kind); // the error of a public kind
void private_begin(struct cove *cove);		     // clears the last API error
// A public function of one inner call.
#define private_call(cove, call, error) (private_begin(cove), private_end(cove, call, error))
