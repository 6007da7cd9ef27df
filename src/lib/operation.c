// Follows the events of an operation on one connection, to the event that has its state. A caller
// that is cancelled meanwhile cancels the operation.
#include "lib/operation.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "lib/http_call.h"

static fallible operation_outcome(struct cove *cove, const struct json *operation)
{
	const struct json *error = json_get(operation, "error");
	auto_buf text = BUF_INIT(64 * 1024);
	struct json_out out = json_to(&text);

	if (!error || json_type(error) != JSON_OBJECT)
		return OK;
	json_add_value(&out, error);
	return http_call_refusal(cove, (int)fields_number(error, "status", 500), buf_view(&text));
}

static fallible operation_follow_events(struct cove *cove, const char *path,
					operation_event_fn *each, void *arg, char **out_template)
{
	on_exit_call(event_reader_close) struct event_reader feed = {0};

	TRY(event_reader_open(&feed, cove, "GET", path, (struct str){0}, ""));
	for (;;) {
		auto_json event = NULL;

		TRY(event_reader_next(&feed, -1, &event));
		if (!event)
			return err_new(BAD_PEER, "cut_stream",
				       "the events of the operation have ended");
		if (json_get(event, "state")) {
			TRY(operation_outcome(cove, event));
			*out_template = mem_str(fields_text(event, "template"));
			return OK;
		}
		TRY(each(arg, event));
	}
}

static char *operation_path(const char *collection, const char *word, const char *rest)
{
	auto_buf path = BUF_INIT(4096);

	buf_text(&path, collection);
	text_percent(&path, str_of(word));
	buf_text(&path, rest);
	return buf_take(&path);
}

fallible operation_finish(struct cove *cove, const char *id, operation_event_fn *each, void *arg,
			  char **out_json)
{
	auto_free char *events = operation_path("/v1/operations/", id, "/events");
	auto_free char *operation = operation_path("/v1/operations/", id, "");
	auto_free char *name = NULL, *path = NULL;
	auto_buf text = BUF_INIT(PRIVATE_REPLY_MAX);
	struct err *err = operation_follow_events(cove, events, each, arg, &name);

	if (err && err_kind(err) == ERR_CANCELLED)
		err_free(http_call_text(cove, "DELETE", operation, NULL, NULL, NULL));
	TRY(err);
	path = operation_path("/v1/templates/", name, "");
	TRY(http_call_text(cove, "GET", path, NULL, NULL, &text));
	*out_json = buf_take(&text);
	return OK;
}
