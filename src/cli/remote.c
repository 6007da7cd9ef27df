#include "cli/remote.h"

#include <stdlib.h>

#include "base/mem.h"
#include "cli/interrupt.h"
#include "wire/text.h"

const char *remote_data(const struct call *call)
{
	const char *data = call_value(call, OPT_DATA);

	if (!data)
		data = getenv("COVE_DATA");
	return data && *data ? data : REMOTE_DATA_DEFAULT;
}

static enum err_kind kind_of(enum cove_kind kind)
{
	static const enum err_kind kinds[] = {
		[COVE_OK] = ERR_INTERNAL,
		[COVE_INVALID] = ERR_INVALID,
		[COVE_UNAUTHENTICATED] = ERR_UNAUTHENTICATED,
		[COVE_FORBIDDEN] = ERR_FORBIDDEN,
		[COVE_NOT_FOUND] = ERR_NOT_FOUND,
		[COVE_CONFLICT] = ERR_CONFLICT,
		[COVE_GONE] = ERR_GONE,
		[COVE_TOO_LARGE] = ERR_TOO_LARGE,
		[COVE_EXHAUSTED] = ERR_EXHAUSTED,
		[COVE_CANCELLED] = ERR_CANCELLED,
		[COVE_TIMEOUT] = ERR_TIMEOUT,
		[COVE_NO_SPACE] = ERR_NO_SPACE,
		[COVE_NOT_OFFERED] = ERR_NOT_OFFERED,
		[COVE_UNAVAILABLE] = ERR_UNAVAILABLE,
		[COVE_BROKEN] = ERR_BAD_PEER,
		[COVE_INTERNAL] = ERR_INTERNAL,
	};

	return kind < sizeof(kinds) / sizeof(*kinds) ? kinds[kind] : ERR_INTERNAL;
}

// What the daemon advises in terms of its API, in ours.
static const char *advice(const struct cove_error *error)
{
	static const struct {
		const char *reason, *hint;
	} rows[] = {
		{"no_sandbox", "'cove ps' lists the sandboxes"},
		{"no_process", "'cove ps BOX' lists the processes of a sandbox"},
		{"no_terminal", "'cove shell BOX' opens one"},
		{"no_template", "'cove template ls' lists the templates"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (strcmp(error->reason, rows[i].reason) == 0)
			return rows[i].hint;
	return error->hint;
}

fallible remote_did(struct remote *remote, enum cove_kind kind)
{
	const struct cove_error *error = &remote->error;
	// What it says is for our reader, whoever is to blame.
	const char *reason = strcmp(error->reason, "internal") == 0 ? "failed" : error->reason;

	if (!kind)
		return OK;
	return err_from(kind_of(kind), reason, error->message, advice(error));
}

static fallible open_with(struct remote *remote, const struct cove_options *options)
{
	*remote = (struct remote){0};
	return remote_did(remote, cove_open(options, &remote->cove, &remote->error));
}

fallible remote_open(struct remote *remote, const struct call *call)
{
	return open_with(remote, &(struct cove_options){.url = call_value(call, OPT_URL),
							.data = remote_data(call)});
}

fallible remote_open_at(struct remote *remote, const char *url, const char *token)
{
	return open_with(remote, &(struct cove_options){.url = url, .token = token});
}

void remote_close(struct remote *remote)
{
	interrupt_disarm(remote->cove);
	cove_close(remote->cove);
	*remote = (struct remote){0};
}

fallible remote_ask(struct remote *remote, const char *method, const char *path,
		    const struct buf *body, struct buf *text, struct json **out)
{
	auto_free char *reply = NULL;
	size_t len = 0;

	if (body && !buf_ok(body))
		return err_new(TOO_LARGE, "request_too_large", "the request holds too much");
	TRY(remote_did(remote, cove_ask(remote->cove, method, path, body ? body->at : NULL,
					body ? body->len : 0, &reply, &len, &remote->error)));
	if (text)
		buf_add(text, reply, len);
	if (!out)
		return OK;
	if (len == 0) {
		*out = NULL;
		return OK;
	}
	return json_read_any((struct str){reply, len}, out);
}

char *remote_path(const char *collection, const char *word, const char *rest)
{
	auto_buf path = BUF_INIT(1 << 20);

	buf_text(&path, collection);
	text_percent(&path, str_of(word));
	buf_text(&path, rest);
	return buf_take(&path);
}
