// A client: where the server is, the key to it, a loop, and a few connections that are kept for the
// next request.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/secret.h"
#include "gen/version.h"
#include "lib/trip.h"
#include "os/fd.h"

#define DATA_DEFAULT "/var/lib/cove"
#define LINE_ROOM 1024

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
	TRY(core_init(cove));
	cove->timeout_ms = options->timeout_ms;
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
