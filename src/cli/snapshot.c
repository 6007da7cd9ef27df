// The verbs snapshot and fork: a template, or sandboxes, of the files of a sandbox. Of several
// forks each may fail by itself: the others are printed, and the status says so.
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "lib/fields.h"

#define BODY_MAX (1 << 16)

fallible snapshot_make(struct call *call)
{
	auto_free char *path = remote_path(BOXES_PATH, call->words[0], "/snapshot");
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	if (call->word_count > 1)
		json_put_text(&out, "name", call->words[1]);
	json_end(&out, '}');
	return remote_act(call, "POST", path, &body, "name");
}

static void snapshot_fork_show(struct call *call, const struct json *item)
{
	const struct json *failed = json_get(item, "error");
	const char *hint = failed ? fields_text(failed, "hint") : NULL;

	if (failed)
		collection_report(call, err_from(ERR_EXHAUSTED, fields_text(failed, "reason"),
						 fields_text(failed, "message"), hint));
	else if (!call_has(call, OPT_JSON) && !call_has(call, OPT_QUIET))
		print_line("%s", fields_text(json_get(item, "sandbox"), "id"));
}

fallible snapshot_fork(struct call *call)
{
	static const struct body_row rows[] = {
		{OPT_COUNT, BODY_COUNT, "count"},
		{OPT_NAME, BODY_TEXT, "name"},
		{.key = NULL},
	};
	auto_free char *path = remote_path(BOXES_PATH, call->words[0], "/fork");
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	auto_remote remote = {0};
	const struct json *items;
	auto_json reply = NULL;

	json_begin(&out, '{');
	TRY(body_put(&out, call, rows));
	json_end(&out, '}');
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", path, &body, &text, &reply));
	if (call_has(call, OPT_JSON))
		remote_print(call, &text, "");
	items = json_get(reply, "items");
	for (size_t i = 0; items && i < json_count(items); i++)
		snapshot_fork_show(call, json_at(items, i));
	return OK;
}
