// A client: the server's address, its key, a loop, and a few connections that are kept for the next
// request.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/secret.h"
#include "gen/version.h"
#include "lib/context.h"
#include "lib/http_call.h"
#include "os/fd.h"

#define DATA_DEFAULT "/var/lib/cove"
#define LINE_ROOM 1024

// Reads a line of a small file without its newline; the caller frees it.
static fallible lib_client_read_line(const char *dir, const char *name, char **out)
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
static const char *client_either(const char *given, const char *variable)
{
	const char *value = given && *given ? given : getenv(variable);

	return value && *value ? value : NULL;
}

static fallible find_local_url(const char *data, char **out)
{
	struct err *err = lib_client_read_line(data, "url", out);

	if (err && err_kind(err) == ERR_NOT_FOUND)
		return err_hint(err_recast(err, ERR_UNAVAILABLE, "no_daemon",
					   "no cove daemon is running here"),
				"start one with 'cove serve', or name one in COVE_URL");
	return err;
}

static fallible no_key(void)
{
	return err_hint(
		err_new(FORBIDDEN, "no_key", "the operator's key may be read by its owner only"),
		"use sudo, become a member of the group cove-users, or give a key: 'cove login' "
		"keeps one, COVE_TOKEN holds one");
}

// The key of the daemon on this host. A user who may not read it is identified by the Unix socket
// instead, if there is one: *url becomes its address. NULL in *token: try without a key, and let
// the server refuse.
static fallible find_local_key(const char *data, char **url, char **token)
{
	auto_free char *path = NULL, *seen = NULL;
	struct err *err = lib_client_read_line(data, "operator.key", token);

	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return OK;
	}
	if (!err || err_kind(err) != ERR_FORBIDDEN)
		return err;
	err_free(err);
	// Only for the daemon that the data directory names.
	auto_err unseen = lib_client_read_line(data, "url", &seen);
	auto_err absent = unseen ? NULL : lib_client_read_line(data, "socket", &path);

	if (unseen || absent || !seen || !path || !*url || strcmp(seen, *url) != 0 ||
	    access(path, W_OK))
		return no_key();
	free(*url);
	*url = mem_fmt(HTTP_CLIENT_UNIX "%s", path);
	return OK;
}

// The current context, or the one that COVE_CONTEXT names. *out_found false: none.
static fallible take_context(struct cove *cove, bool *out_found)
{
	const char *name = client_either(NULL, "COVE_CONTEXT");
	const struct context *context;
	auto_contexts contexts = {0};

	TRY(contexts_load(&contexts));
	if (!name)
		name = contexts.current;
	if (!name || !strcmp(name, CONTEXT_LOCAL))
		return OK;
	context = contexts_find(&contexts, name);
	if (!context)
		return err_hint(err_new(NOT_FOUND, "no_context", "there is no context '%s'", name),
				"'cove context ls' lists them, 'cove context use' takes another");
	cove->url = mem_str(context->url);
	cove->token = context->key ? mem_str(context->key) : NULL;
	cove->by_context = *out_found = true;
	return OK;
}

// Order: caller, environment, context, the daemon of this host. A context gives both URL and key or
// nothing: its key is sent to no other server, and no other key to its server.
static fallible find_server(struct cove *cove, const struct cove_options *options)
{
	const char *data = client_either(options->data, "COVE_DATA");
	const char *link = client_either(options->url, "COVE_URL"),
		   *token = client_either(options->token, "COVE_TOKEN");
	bool found = false;
	struct url url;

	if (!link && !token && !data)
		TRY(take_context(cove, &found));
	if (found)
		return OK;
	if (!data)
		data = DATA_DEFAULT;
	if (link)
		cove->url = mem_str(link);
	else
		TRY(find_local_url(data, &cove->url));
	if (token) {
		cove->token = mem_str(token);
		return OK;
	}
	if (str_starts(str_of(cove->url), HTTP_CLIENT_UNIX))
		return OK;
	if (!url_absolute(str_of(cove->url), &url))
		return err_hint(err_new(INVALID, "bad_url", "'%s' is not the address of a daemon",
					cove->url),
				"it looks like http://127.0.0.1:8484");
	return is_local(url.host) ? find_local_key(data, &cove->url, &cove->token) : OK;
}

static fallible open_client(struct cove *cove, const struct cove_options *options)
{
	struct http_client *http = NULL;

	TRY(find_server(cove, options));
	TRY(private_init(cove));
	cove->timeout_ms = options->timeout_ms;
	TRY(http_call_take(cove, &http)); // reports a bad URL now
	http_call_give(cove, http);
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
		return private_end(NULL, err, error);
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
	json_free(cove->refusal);
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
