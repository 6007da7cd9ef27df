// The loop runs only while a call waits. A timeout or cove_cancel() cancels the call's task: the
// call unwinds, and a stream that was being read can be continued later.
#include "lib/private.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"

struct wait {
	struct cove *cove;
	private_fn *fn;
	void *arg;
	struct err *err;
};

static void private_work(void *arg)
{
	struct wait *wait = arg;

	wait->err = wait->fn(wait->arg);
	wait->cove->task = NULL;
	loop_stop(wait->cove->loop);
}

static void private_on_poke(void *arg)
{
	struct cove *cove = arg;

	if (cove->task && atomic_load(&cove->cancelled))
		task_cancel(cove->task);
}

static void private_on_late(struct timer *timer)
{
	struct cove *cove = link_of(timer, struct cove, timer);

	if (!cove->task)
		return;
	cove->late = true;
	task_cancel(cove->task);
}

fallible private_wait(struct cove *cove, int64_t timeout_ms, private_fn *fn, void *arg)
{
	struct wait wait = {.cove = cove, .fn = fn, .arg = arg};

	if (timeout_ms == PRIVATE_DEFAULT)
		timeout_ms = cove->timeout_ms > 0 ? cove->timeout_ms : -1;
	if (atomic_exchange(&cove->cancelled, false))
		return err_new(CANCELLED, "cancelled", "the call was cancelled");
	cove->late = false;
	cove->task = task_start(cove->loop, "call", private_work, &wait);
	if (timeout_ms >= 0)
		loop_set_timer(cove->loop, &cove->timer, clock_ms() + timeout_ms);
	loop_run(cove->loop);
	loop_drop_timer(cove->loop, &cove->timer);
	if (!pthread_equal(pthread_self(), cove->opener))
		task_trim(); // that thread may end without closing the client
	if (!wait.err || err_kind(wait.err) != ERR_CANCELLED)
		return wait.err;
	if (!atomic_exchange(&cove->cancelled, false) && cove->late)
		return err_recast(wait.err, ERR_TIMEOUT, "timeout", "the call timed out");
	return err_recast(wait.err, ERR_CANCELLED, "cancelled", "the call was cancelled");
}

bool private_is_lost(const struct cove *cove, const struct err *err)
{
	static const char *const words[] = {"peer_gone", "cut_body",  "cut_stream",
					    "closed",	 "no_server", "terminal_lost"};

	if (cove->status)
		return cove->status == 503;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcmp(err_reason(err), words[i]) == 0)
			return true;
	return false;
}

static fallible pause_for(void *arg)
{
	return task_sleep_until(loop_now(task_loop()) + *(const int64_t *)arg);
}

bool private_rest(struct cove *cove, int64_t ms)
{
	auto_err err = private_wait(cove, -1, pause_for, &ms);

	return err != NULL;
}

void cove_cancel(struct cove *cove)
{
	atomic_store(&cove->cancelled, true);
	loop_poke(cove->loop);
}

// The first row of a public kind is the error that it becomes again.
static const struct {
	enum err_kind err;
	enum cove_kind kind;
} kinds[] = {
	{ERR_INVALID, COVE_INVALID},	      {ERR_UNAUTHENTICATED, COVE_UNAUTHENTICATED},
	{ERR_FORBIDDEN, COVE_FORBIDDEN},      {ERR_NOT_FOUND, COVE_NOT_FOUND},
	{ERR_CONFLICT, COVE_CONFLICT},	      {ERR_GONE, COVE_GONE},
	{ERR_TOO_LARGE, COVE_TOO_LARGE},      {ERR_EXHAUSTED, COVE_EXHAUSTED},
	{ERR_CANCELLED, COVE_CANCELLED},      {ERR_INTERNAL, COVE_INTERNAL},
	{ERR_NOT_OFFERED, COVE_NOT_OFFERED},  {ERR_BAD_PEER, COVE_BROKEN},
	{ERR_UNAVAILABLE, COVE_UNAVAILABLE},  {ERR_TIMEOUT, COVE_TIMEOUT},
	{ERR_NO_SPACE, COVE_NO_SPACE},	      {ERR_BAD_METHOD, COVE_NOT_OFFERED},
	{ERR_SLOW_CLIENT, COVE_TIMEOUT},      {ERR_MISDIRECTED, COVE_INVALID},
	{ERR_HEAD_TOO_LARGE, COVE_TOO_LARGE},
};

enum err_kind private_err_kind(enum cove_kind kind)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].kind == kind)
			return kinds[i].err;
	return ERR_INTERNAL;
}

static enum cove_kind private_kind_of(const struct err *err)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].err == err_kind(err))
			return kinds[i].kind;
	return COVE_INTERNAL;
}

const char *cove_kind_word(enum cove_kind kind)
{
	static const char *const words[] = {
		"ok",	    "invalid",	"unauthenticated", "forbidden",	  "not_found",
		"conflict", "gone",	"too_large",	   "exhausted",	  "cancelled",
		"timeout",  "no_space", "not_offered",	   "unavailable", "broken",
		"internal",
	};

	return (size_t)kind < sizeof(words) / sizeof(*words) ? words[kind] : "internal";
}

void private_begin(struct cove *cove)
{
	cove->code[0] = 0;
	cove->status = 0;
	cove->told_retry = false;
	json_free(take_ptr(cove->refusal));
}

enum cove_kind private_end(struct cove *cove, struct err *err, struct cove_error *error)
{
	enum cove_kind kind;
	const char *hint;
	bool ours;

	if (!err)
		return COVE_OK;
	kind = private_kind_of(err);
	if (error) {
		*error = (struct cove_error){.kind = kind, .retryable = err_may_retry(err)};
		// For errors of this library the message is the whole trail.
		ours = err_kind(err) == ERR_INTERNAL && strcmp(err_reason(err), "internal") == 0;
		hint = err_hint_of(err);
		snprintf(error->reason, sizeof(error->reason), "%s", err_reason(err));
		snprintf(error->message, sizeof(error->message), "%s",
			 ours ? err_trail(err) : err_message(err));
		snprintf(error->hint, sizeof(error->hint), "%s", hint ? hint : "");
		if (cove) {
			memcpy(error->code, cove->code, sizeof(error->code));
			error->status = cove->status;
			if (cove->told_retry)
				error->retryable = cove->retryable;
		}
	}
	err_free(err);
	return kind;
}

fallible private_init(struct cove *cove)
{
	TRY(loop_new(&cove->loop), "make a loop");
	cove->opener = pthread_self();
	cove->timer.due = private_on_late;
	loop_on_poke(cove->loop, private_on_poke, cove);
	return OK;
}
