#include "cli/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/secret.h"
#include "os/fd.h"
#include "wire/text.h"
#include "wire/url.h"

#define LINE_MAX_BYTES 1024

const char *remote_data(const struct call *call)
{
	const char *data = call_value(call, OPT_DATA);

	if (!data)
		data = getenv("COVE_DATA");
	return data && *data ? data : REMOTE_DATA_DEFAULT;
}

fallible remote_line(const char *dir, const char *name, char **out)
{
	char room[LINE_MAX_BYTES];
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

static fallible find_url(const struct call *call, char **out)
{
	const char *url = call_value(call, OPT_URL);
	struct err *err;

	if (!url)
		url = getenv("COVE_URL");
	if (url && *url) {
		*out = mem_str(url);
		return OK;
	}
	err = remote_line(remote_data(call), REMOTE_URL_FILE, out);
	if (err && err_kind(err) == ERR_NOT_FOUND)
		return err_hint(err_recast(err, ERR_UNAVAILABLE, "no_daemon",
					   "no cove daemon is running here"),
				"start one with 'cove serve', or name one in COVE_URL");
	return err;
}

// NULL in *out: go without one, and let the server say that it wants one.
static fallible find_token(const struct call *call, const char *url_text, char **out)
{
	const char *token = getenv("COVE_TOKEN");
	struct url url;
	struct err *err;

	if (token && *token) {
		*out = mem_str(token);
		return OK;
	}
	if (!url_absolute(str_of(url_text), &url))
		return err_hint(
			err_new(INVALID, "bad_url", "'%s' is no address of a daemon", url_text),
			"it looks like http://127.0.0.1:8484");
	if (!is_local(url.host))
		return OK;
	err = remote_line(remote_data(call), REMOTE_KEY_FILE, out);
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

fallible remote_open_at(struct remote *remote, struct loop *loop, const char *url,
			const char *token)
{
	*remote = (struct remote){.loop = loop};
	remote->url = mem_str(url);
	remote->token = token ? mem_str(token) : NULL;
	return http_client_open(loop, str_of(remote->url), str_of(remote->token), &remote->client);
}

fallible remote_open(struct remote *remote, const struct call *call)
{
	auto_free char *url = NULL;
	auto_free char *token = NULL;
	struct err *err;

	*remote = (struct remote){0};
	TRY(find_url(call, &url));
	TRY(find_token(call, url, &token));
	err = remote_open_at(remote, call->loop, url, token);
	if (token)
		secret_wipe(token, strlen(token));
	return err;
}

void remote_close(struct remote *remote)
{
	http_client_free(remote->client);
	if (remote->token)
		secret_wipe(remote->token, strlen(remote->token));
	free(remote->token);
	free(remote->url);
	*remote = (struct remote){0};
}

static enum err_kind kind_of(int status)
{
#define X(kind, word, http, exit, retry)                                                           \
	if (status == http)                                                                        \
		return ERR_##kind;
	ERR_KINDS(X)
#undef X
	return status >= 500 ? ERR_BAD_PEER : ERR_INVALID;
}

// A member as text that ends with a NUL; the default when it is absent or no string.
static char *member(const struct json *object, const char *key, const char *otherwise)
{
	struct json *value = object ? json_get(object, key) : NULL;
	struct str text = str_of(otherwise);

	if (value && json_type(value) == JSON_STRING) {
		err_free(json_str(value, key, &text)); // a string it is
	}
	return text.at ? mem_dup(text.at, text.len) : NULL;
}

static fallible refusal(struct remote *remote, int status, const struct json *reply)
{
	auto_free char *message = member(reply, "message", NULL);
	auto_free char *hint = member(reply, "hint", NULL);
	auto_free char *code = member(reply, "code", "");
	auto_free char *reason = member(reply, "reason", "refused");

	// Our own failures are told with all that is known; this one is not ours.
	if (strcmp(reason, "internal") == 0)
		snprintf(reason, sizeof("internal"), "failed");
	snprintf(remote->code, sizeof(remote->code), "%s", code);
	if (!message)
		message = mem_fmt("the daemon answered with status %d and no explanation", status);
	if (!hint && status == 401)
		hint = mem_str("put the daemon's key into COVE_TOKEN");
	return err_from(kind_of(status), reason, message, hint);
}

fallible remote_accept(struct remote *remote, int status)
{
	auto_buf text = BUF_INIT(1 << 20);
	auto_json reply = NULL;

	if (status >= 200 && status < 300)
		return OK;
	TRY(http_client_body(remote->client, &text), "read a refusal");
	auto_err malformed = json_read(buf_view(&text), &reply);

	if (malformed || json_type(reply) != JSON_OBJECT)
		return refusal(remote, status, NULL);
	return refusal(remote, status, reply);
}

fallible remote_ask(struct remote *remote, const char *method, const char *path,
		    const struct buf *body, struct buf *text, struct json **out)
{
	auto_buf own = BUF_INIT(REMOTE_REPLY_MAX);
	struct str sent = body ? buf_view(body) : (struct str){0};
	struct buf *reply = text ? text : &own;
	int status = 0;

	if (body && !buf_ok(body))
		return err_new(TOO_LARGE, "request_too_large", "the request holds too much");
	TRY(http_client_ask(remote->client, method, path, sent, &status), "%s %s", method, path);
	TRY(remote_accept(remote, status));
	TRY(http_client_body(remote->client, reply), "read the reply");
	if (!buf_ok(reply))
		return err_new(TOO_LARGE, "reply_too_large", "the reply is too large to hold");
	if (!out)
		return OK;
	if (reply->len == 0) {
		*out = NULL;
		return OK;
	}
	return json_read(buf_view(reply), out);
}

char *remote_path(const char *collection, const char *word, const char *rest)
{
	auto_buf path = BUF_INIT(1 << 20);

	buf_text(&path, collection);
	text_percent(&path, str_of(word));
	buf_text(&path, rest);
	return buf_take(&path);
}
