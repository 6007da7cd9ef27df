// Code by an interpreter: cells and their contexts. A cell's events are passed on as JSON;
// the end of the stream before the last event is the loss of the connection: the cell runs on.
#include "base/mem.h"
#include "codec/text.h"
#include "lib/box.h"
#include "lib/fields.h"
#include "lib/http_call.h"

#define BODY_MAX ((size_t)8 << 20)

static fallible code_follow(struct event_reader *reader, cove_item_fn *each, void *arg,
			    bool *out_failed)
{
	for (;;) {
		auto_buf text = BUF_INIT(PRIVATE_REPLY_MAX);
		struct json_out out = json_to(&text);
		auto_json event = NULL;
		const char *type;

		TRY(event_reader_next(reader, PRIVATE_DEFAULT, &event));
		if (!event)
			return err_new(BAD_PEER, "cut_stream",
				       "the connection to the daemon was lost before the cell "
				       "ended");
		type = fields_text(event, "type");
		json_add_value(&out, event);
		if (each && each(arg, text.at))
			return err_new(CANCELLED, "cancelled", "the callback ended the call");
		if (strcmp(type, "error") != 0 && strcmp(type, "execution_complete") != 0)
			continue;
		if (out_failed)
			*out_failed = *type == 'e' && type[1] == 'r';
		return OK;
	}
}

enum cove_kind cove_code_run(struct cove_box *box, const struct cove_code *code, cove_item_fn *each,
			     void *arg, bool *out_failed, struct cove_error *error)
{
	auto_free char *path = lib_box_path(box, "/api/execute/code");
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	struct event_reader reader = {0};
	struct err *err;

	private_begin(box->cove);
	json_begin(&out, '{');
	json_put_text(&out, "code", code->code);
	fields_put_text(&out, "language", code->language);
	fields_put_text(&out, "context_id", code->context);
	fields_put_number(&out, "timeout_ms", (double)code->timeout_ms);
	json_end(&out, '}');
	err = event_reader_open(&reader, box->cove, "POST", path, buf_view(&body), "");
	if (!err)
		err = code_follow(&reader, each, arg, out_failed);
	event_reader_close(&reader);
	return private_end(box->cove, err, error);
}

static fallible code_context(struct cove_box *box, const char *language, const char *cwd,
			     const char *const *env, char **out_id)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	auto_json answer = NULL;

	json_begin(&out, '{');
	fields_put_text(&out, "language", language);
	fields_put_text(&out, "cwd", cwd);
	TRY(fields_pairs(&out, "env_vars", env));
	json_end(&out, '}');
	TRY(lib_box_post(box, "/api/contexts", &body, &answer));
	*out_id = mem_str(fields_text(answer, "id"));
	return OK;
}

enum cove_kind cove_code_context(struct cove_box *box, const char *language, const char *cwd,
				 const char *const *env, char **out_id, struct cove_error *error)
{
	return private_call(box->cove, code_context(box, language, cwd, env, out_id), error);
}

static enum cove_kind code_act(struct cove_box *box, const char *method, const char *context,
			       const char *verb, struct cove_error *error)
{
	auto_buf path = BUF_INIT(1 << 20);

	buf_fmt(&path, "%s/api/contexts/", box->base);
	text_percent(&path, str_of(context));
	buf_text(&path, verb);
	return private_call(box->cove, http_call_text(box->cove, method, path.at, NULL, NULL, NULL),
			    error);
}

enum cove_kind cove_code_interrupt(struct cove_box *box, const char *context,
				   struct cove_error *error)
{
	return code_act(box, "POST", context, "/interrupt", error);
}

enum cove_kind cove_code_delete(struct cove_box *box, const char *context, struct cove_error *error)
{
	return code_act(box, "DELETE", context, "", error);
}
