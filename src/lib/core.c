// A client is a loop that turns only while a call waits, and a few connections that are kept for
// the next request. What ends a wait early, the clock or cove_cancel(), cancels its task: the call
// unwinds, and a stream that was being read can be read on later.
#include "lib/core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "gen/version.h"
#include "lib/trip.h"
#include "os/fd.h"

#define DATA_DEFAULT "/var/lib/cove"
#define LINE_ROOM 1024

struct wait {
	struct cove *cove;
	core_fn *fn;
	void *arg;
	struct err *err;
};

static void work(void *arg)
{
	struct wait *wait = arg;

	wait->err = wait->fn(wait->arg);
	wait->cove->task = NULL;
	loop_stop(wait->cove->loop);
}

static void on_poke(void *arg)
{
	struct cove *cove = arg;

	if (cove->task && atomic_load(&cove->cancelled))
		task_cancel(cove->task);
}

static void on_late(struct timer *timer)
{
	struct cove *cove = link_of(timer, struct cove, timer);

	if (!cove->task)
		return;
	cove->late = true;
	task_cancel(cove->task);
}

fallible core_wait(struct cove *cove, int64_t timeout_ms, core_fn *fn, void *arg)
{
	struct wait wait = {.cove = cove, .fn = fn, .arg = arg};

	if (timeout_ms == CORE_DEFAULT)
		timeout_ms = cove->timeout_ms > 0 ? cove->timeout_ms : -1;
	if (atomic_exchange(&cove->cancelled, false))
		return err_new(CANCELLED, "cancelled", "the call was cancelled");
	cove->late = false;
	cove->task = task_start(cove->loop, "call", work, &wait);
	if (timeout_ms >= 0)
		loop_set_timer(cove->loop, &cove->timer, clock_ms() + timeout_ms);
	loop_run(cove->loop);
	loop_drop_timer(cove->loop, &cove->timer);
	if (!pthread_equal(pthread_self(), cove->opener))
		task_trim(); // that thread may end without closing anything
	if (!wait.err || err_kind(wait.err) != ERR_CANCELLED)
		return wait.err;
	if (!atomic_exchange(&cove->cancelled, false) && cove->late)
		return err_recast(wait.err, ERR_TIMEOUT, "timeout", "it took too long");
	return err_recast(wait.err, ERR_CANCELLED, "cancelled", "the call was cancelled");
}

bool core_is_lost(const struct cove *cove, const struct err *err)
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

bool core_rest(struct cove *cove, int64_t ms)
{
	auto_err err = core_wait(cove, -1, pause_for, &ms);

	return err != NULL;
}

void cove_cancel(struct cove *cove)
{
	atomic_store(&cove->cancelled, true);
	loop_poke(cove->loop);
}

static const struct {
	enum err_kind err;
	enum cove_kind kind;
} kinds[] = {
	{ERR_INVALID, COVE_INVALID},	     {ERR_UNAUTHENTICATED, COVE_UNAUTHENTICATED},
	{ERR_FORBIDDEN, COVE_FORBIDDEN},     {ERR_NOT_FOUND, COVE_NOT_FOUND},
	{ERR_BAD_METHOD, COVE_NOT_OFFERED},  {ERR_SLOW_CLIENT, COVE_TIMEOUT},
	{ERR_CONFLICT, COVE_CONFLICT},	     {ERR_GONE, COVE_GONE},
	{ERR_TOO_LARGE, COVE_TOO_LARGE},     {ERR_MISDIRECTED, COVE_INVALID},
	{ERR_EXHAUSTED, COVE_EXHAUSTED},     {ERR_HEAD_TOO_LARGE, COVE_TOO_LARGE},
	{ERR_CANCELLED, COVE_CANCELLED},     {ERR_INTERNAL, COVE_INTERNAL},
	{ERR_NOT_OFFERED, COVE_NOT_OFFERED}, {ERR_BAD_PEER, COVE_BROKEN},
	{ERR_UNAVAILABLE, COVE_UNAVAILABLE}, {ERR_TIMEOUT, COVE_TIMEOUT},
	{ERR_NO_SPACE, COVE_NO_SPACE},
};

static enum cove_kind kind_of(const struct err *err)
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

void core_begin(struct cove *cove)
{
	cove->code[0] = 0;
	cove->status = 0;
	cove->told_retry = false;
}

enum cove_kind core_end(struct cove *cove, struct err *err, struct cove_error *error)
{
	enum cove_kind kind;
	const char *hint;
	bool ours;

	if (!err)
		return COVE_OK;
	kind = kind_of(err);
	if (error) {
		*error = (struct cove_error){.kind = kind, .retryable = err_may_retry(err)};
		// The words of a failure of our own are in the trail; nobody is to be kept from it.
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

// A line of a small file without its newline, the caller's.
static fallible read_line(const char *dir, const char *name, char **out)
{
	char room[LINE_ROOM];
	auto_free char *path = mem_fmt("%s/%s", dir, name);
	ssize_t len = fd_get(AT_FDCWD, path, room, sizeof(room));

	if (len < 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_new(NOT_FOUND, "no_file", "there is no file '%s'", path);
	if (len < 0 && (errno == EACCES || errno == EPERM))
		return err_new(FORBIDDEN, "no_right", "you may not read '%s'", path);
	if (len < 0)
		return err_sys(errno, "read %s", path);
	*out = mem_dup(room, strcspn(room, "\r\n"));
	secret_wipe(room, sizeof(room));
	return OK;
}

static bool is_local(struct str host)
{
	return str_is(host, "localhost") || str_starts(host, "127.") || str_is(host, "::1");
}

// The first that is given: by the caller, by the environment.
static const char *either(const char *given, const char *variable)
{
	const char *value = given && *given ? given : getenv(variable);

	return value && *value ? value : NULL;
}

static fallible find_url(const struct cove_options *options, const char *data, char **out)
{
	const char *url = either(options->url, "COVE_URL");
	struct err *err;

	if (url) {
		*out = mem_str(url);
		return OK;
	}
	err = read_line(data, "url", out);
	if (err && err_kind(err) == ERR_NOT_FOUND)
		return err_hint(err_recast(err, ERR_UNAVAILABLE, "no_daemon",
					   "no cove daemon is running here"),
				"start one with 'cove serve', or name one in COVE_URL");
	return err;
}

// NULL in *out: go without one, and let the server say that it wants one.
static fallible find_token(const struct cove_options *options, const char *data, const char *text,
			   char **out)
{
	const char *token = either(options->token, "COVE_TOKEN");
	struct url url;
	struct err *err;

	if (token) {
		*out = mem_str(token);
		return OK;
	}
	if (!url_absolute(str_of(text), &url))
		return err_hint(err_new(INVALID, "bad_url", "'%s' is no address of a daemon", text),
				"it looks like http://127.0.0.1:8484");
	if (!is_local(url.host))
		return OK;
	err = read_line(data, "operator.key", out);
	if (err && err_kind(err) == ERR_FORBIDDEN)
		return err_hint(err_recast(err, ERR_FORBIDDEN, "no_key",
					   "the operator's key may be read by its owner only"),
				"use sudo, or put a key into COVE_TOKEN");
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return OK;
	}
	return err;
}

static fallible open_client(struct cove *cove, const struct cove_options *options)
{
	const char *data = either(options->data, "COVE_DATA");
	struct http_client *http = NULL;

	if (!data)
		data = DATA_DEFAULT;
	TRY(find_url(options, data, &cove->url));
	TRY(find_token(options, data, cove->url, &cove->token));
	TRY(loop_new(&cove->loop), "make a loop");
	cove->timeout_ms = options->timeout_ms;
	cove->opener = pthread_self();
	cove->timer.due = on_late;
	loop_on_poke(cove->loop, on_poke, cove);
	TRY(trip_take(cove, &http)); // a bad URL is told now
	trip_give(cove, http);
	return OK;
}

enum cove_kind cove_open(const struct cove_options *options, struct cove **out,
			 struct cove_error *error)
{
	static const struct cove_options none;
	struct cove *cove = mem_new_of(struct cove);
	struct err *err = open_client(cove, options ? options : &none);

	if (err) {
		cove_close(cove);
		return core_end(NULL, err, error);
	}
	*out = cove;
	return COVE_OK;
}

void cove_close(struct cove *cove)
{
	if (!cove)
		return;
	while (cove->idle_count > 0)
		http_client_free(cove->idle[--cove->idle_count]);
	loop_free(cove->loop);
	task_trim();
	if (cove->token)
		secret_wipe(cove->token, strlen(cove->token));
	free(cove->token);
	free(cove->url);
	free(cove);
}

const char *cove_url(const struct cove *cove)
{
	return cove->url;
}

const char *cove_token(const struct cove *cove)
{
	return cove->token;
}

void cove_set_timeout(struct cove *cove, int64_t timeout_ms)
{
	cove->timeout_ms = timeout_ms;
}

const char *cove_version(void)
{
	return COVE_VERSION;
}

void cove_free(void *what)
{
	free(what);
}
