// The client of all verbs: libcove, with its errors converted to ours. Field names and hints of the
// API are replaced by the options of the verb.
#include "cli/remote.h"

#include <stdlib.h>

#include "base/mem.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "codec/text.h"
#include "lib/fields.h"

#define TEXT_MAX 65536 // of a message or a hint

const char *remote_data(const struct call *call)
{
	const char *data = call_value(call, OPT_DATA);

	if (!data)
		data = getenv("COVE_DATA");
	return data && *data ? data : REMOTE_DATA_DEFAULT;
}

// The daemon's API hint in terms of the command line.
static const char *advice(const struct cove_error *error)
{
	static const struct {
		const char *reason;
		const char *said; // part of the daemon's hint; NULL: any
		const char *hint;
	} rows[] = {
		{"no_sandbox", NULL, "'cove ps' lists the sandboxes"},
		{"no_process", NULL, "'cove ps BOX' lists the processes of a sandbox"},
		{"no_terminal", NULL, "'cove shell BOX' opens one"},
		{"no_template", NULL, "'cove template ls' lists the templates"},
		{"no_key", "/v1/keys", "'cove key ls' lists the keys"},
		{"no_tenant", "/v1/tenants",
		 "'cove tenant ls' lists the tenants, 'cove tenant set NAME' makes one"},
		{"name_taken", NULL, "choose another name, or 'cove rm NAME' removes that one"},
		{"no_execution", NULL, "'cove executions ls' lists the executions"},
		{"no_command", "/v1/executions",
		 "name a command: cove submit -- COMMAND, or a --type that has one"},
		{"at_capacity", NULL, "without --queue=false the execution waits for its turn"},
		{"not_ended", NULL, "'cove executions cancel EXECUTION' ends it"},
		{"paused", NULL, "'cove resume BOX' lets it run again"},
		{"files_lost", NULL,
		 "'cove start BOX' starts it on a fresh disk from its template"},
		{"box_lost", "/start", "'cove start BOX' starts it on its files"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (strcmp(error->reason, rows[i].reason) == 0 &&
		    (!rows[i].said || strstr(error->hint, rows[i].said)))
			return rows[i].hint;
	return error->hint;
}

// The option of a field, if this verb has it; NULL: none. *out_unit as in the table.
static const char *option_of(const struct call *call, struct str field, const char **out_unit)
{
	for (const struct option_field *f = cli_fields; f->field; f++) {
		if (!str_is(field, f->field))
			continue;
		for (const struct option *o = call->grammar->options; o->name; o++) {
			if (o->opt != f->opt || !call_takes(call->verb, o))
				continue;
			*out_unit = f->unit;
			return o->name;
		}
	}
	return NULL;
}

// 'limits.memoryMB' becomes --memory: the user has written an option, not a request.
static void put_in_options(const struct call *call, const char *text, struct buf *out)
{
	const char *unit = NULL;

	for (const char *at = text, *end; *at; at = end) {
		size_t len = *at == '\'' ? strcspn(at + 1, "'") : 0;
		const char *option = NULL;

		end = at + 1;
		if (len && at[len + 1] == '\'')
			option = option_of(call, (struct str){at + 1, len}, &unit);
		if (option) {
			buf_fmt(out, "--%s", option);
			end = at + len + 2;
		} else {
			buf_char(out, *at);
		}
	}
	if (unit && strpbrk(text, "0123456789"))
		buf_fmt(out, " %s", unit);
}

fallible remote_did(struct remote *remote, enum cove_kind kind)
{
	const struct cove_error *error = &remote->error;
	// The message is for the user, whatever side the error is on.
	const char *reason = strcmp(error->reason, "internal") == 0 ? "failed" : error->reason;

	const char *hint = advice(error);
	auto_buf message = BUF_INIT(TEXT_MAX), advised = BUF_INIT(TEXT_MAX);

	if (!kind)
		return OK;
	if (kind != COVE_INVALID || !remote->call || !remote->call->verb)
		return err_from(private_err_kind(kind), reason, error->message, hint);
	put_in_options(remote->call, error->message, &message);
	put_in_options(remote->call, hint ? hint : "", &advised);
	return err_from(private_err_kind(kind), reason, message.at ? message.at : "",
			advised.len ? advised.at : NULL);
}

static fallible open_with(struct remote *remote, const struct cove_options *options)
{
	*remote = (struct remote){0};
	return remote_did(remote, cove_open(options, &remote->cove, &remote->error));
}

fallible remote_open(struct remote *remote, const struct call *call)
{
	struct err *err = open_with(remote,
				    &(struct cove_options){.url = call_value(call, OPT_URL),
							   .data = call_value(call, OPT_DATA)});

	remote->call = call;
	return err;
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

void remote_print(const struct call *call, const struct buf *reply, const char *line)
{
	if (call_has(call, OPT_JSON) && reply->len)
		print_json(buf_view(reply));
	else if (!call_has(call, OPT_JSON) && !call_has(call, OPT_QUIET))
		print_line("%s", line);
}

fallible remote_act(const struct call *call, const char *method, const char *path,
		    const struct buf *body, const char *key)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_remote remote = {0};
	auto_json reply = NULL;

	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, method, path, body, &text, key ? &reply : NULL));
	remote_print(call, &text, key ? fields_text(reply, key) : call->words[0]);
	return OK;
}

char *remote_path(const char *collection, const char *word, const char *rest)
{
	auto_buf path = BUF_INIT(1 << 20);

	buf_fmt(&path, "%s/", collection);
	text_percent(&path, str_of(word));
	buf_text(&path, rest);
	return buf_take(&path);
}
