// The verbs pause, resume, stop, start, rotate-token and cleanup. Each takes several sandboxes; a
// failure of one does not stop the others.
#include <stdio.h>

#include "base/mem.h"
#include "cli/boxes.h"
#include "cli/print.h"
#include "cli/verbs.h"

static fallible lifecycle_take_one(struct call *call, struct remote *remote, const char *box)
{
	auto_free char *rest = mem_fmt("/%s", call->verb->name);
	auto_free char *path = remote_path(BOXES_PATH "/", box, rest);
	struct err *err = remote_ask(remote, "POST", path, NULL, NULL, NULL);

	if (err && err_kind(err) == ERR_UNAVAILABLE)
		return err;
	if (err) {
		print_error(err, call_has(call, OPT_JSON));
		if (!call->exit)
			call->exit = err_exit(err);
		err_free(err);
	} else if (!call_has(call, OPT_QUIET)) {
		print_line("%s", box);
	}
	return OK;
}

fallible lifecycle_take(struct call *call)
{
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	for (int i = 0; i < call->word_count; i++)
		TRY(lifecycle_take_one(call, &remote, call->words[i]));
	return OK;
}

fallible lifecycle_rotate(struct call *call)
{
	auto_buf body = BUF_INIT(64);
	auto_remote remote = {0};

	buf_text(&body, "{\"rotateToken\":true}");
	TRY(remote_open(&remote, call));
	for (int i = 0; i < call->word_count; i++) {
		auto_free char *path = remote_path(BOXES_PATH "/", call->words[i], "");
		auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
		auto_json box = NULL;
		struct str url = {0};

		TRY(remote_ask(&remote, "PATCH", path, &body, &text, &box));
		TRY(json_str(json_get(box, "baseUrl"), "baseUrl", &url));
		if (call_has(call, OPT_JSON))
			print_json(buf_view(&text));
		else if (!call_has(call, OPT_QUIET))
			print_line(STR_FMT, STR_ARG(url));
	}
	return OK;
}

static void lifecycle_show(const struct json *round, const char *key, const char *words)
{
	uint64_t number = 0;

	err_free(json_u64(json_get(round, key), key, 0, UINT64_MAX, &number));
	print_line("%llu %s", (unsigned long long)number, words);
}

fallible lifecycle_cleanup(struct call *call)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_remote remote = {0};
	auto_json round = NULL;

	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", "/v1/cleanup", NULL, &text, &round));
	if (call_has(call, OPT_JSON)) {
		print_json(buf_view(&text));
		return OK;
	}
	lifecycle_show(round, "scanned", "looked at");
	lifecycle_show(round, "orphansTerminated", "orphans ended");
	lifecycle_show(round, "stuckTerminated", "stuck ones ended");
	lifecycle_show(round, "oldDeleted", "old ones deleted");
	lifecycle_show(round, "failedAttempts", "could not be ended");
	lifecycle_show(round, "backlog", "left for the next round");
	return OK;
}
