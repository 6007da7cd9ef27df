// The daemon's side of file workers: children of pid 1 that work on files and ports of a box
// (protocol/fileop.h). Each serves one request at a time; a box keeps a few idle ones for a while.
// Their messages are hostile.
#pragma once

#include "base/auto.h"
#include "box/box.h"
#include "protocol/fileop.h"

#define BOX_WORKERS_MAX 32
#define BOX_WORKERS_BOUND 28   // of those, for long work: the next waits
#define BOX_WORKERS_ENDLESS 16 // and for endless work: the next is refused

enum file_worker_use { FILE_WORKER_SHORT, FILE_WORKER_LONG, FILE_WORKER_ENDLESS };

struct box_file_worker;

// Takes a worker with the rights of `user`. Waits for a free one, or for pid 1. EXHAUSTED
// too_many_requests; INVALID no_user; UNAVAILABLE box_lost; TIMEOUT.
fallible box_file_worker_take(struct box *box, const char *user, enum file_worker_use use,
			      int64_t deadline, struct box_file_worker **out);
// Sends one request. INTERNAL file_worker_lost; TOO_LARGE request_too_large.
fallible box_file_worker_ask(struct box_file_worker *worker, const struct fileop_request *ask);
// Waits for the first answer. INTERNAL file_worker_lost: it died without one.
fallible box_file_worker_await(struct box_file_worker *worker, int64_t deadline);
// After file_worker_lost: it had not read the request.
bool box_file_worker_unheard(const struct box_file_worker *worker);
// Sends a byte during a request: a watch then reports what it holds back.
void box_file_worker_nudge(struct box_file_worker *worker);
// The next answer. Its texts are borrowed until the next wait of this task; *fd is the caller's, or
// -1. After an error other than TIMEOUT the worker is unusable.
fallible box_file_worker_next(struct box_file_worker *worker, int64_t deadline,
			      struct fileop_reply *out, int *fd);
const char *box_file_worker_box(const struct box_file_worker *worker); // the id of its box
// Its last answer was read: makes it idle.
void box_file_worker_give(struct box_file_worker *worker);
// Ends a worker that is busy or broke the protocol, by closing its socket.
void box_file_worker_drop(struct box_file_worker *worker);
static inline void auto_worker_(struct box_file_worker **worker)
{
	if (*worker)
		box_file_worker_drop(*worker);
}
#define auto_worker on_exit_call(auto_worker_) struct box_file_worker *
