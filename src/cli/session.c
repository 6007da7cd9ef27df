// The verb agent-session: create, list, show, interrupt, answer, remove, attach, logs. Runs are in
// session_run.c.
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/body.h"
#include "cli/boxes.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/screen.h"
#include "cli/verbs.h"

#define BODY_MAX (8 << 20)

// ------------------------------------------------------------------------------- making

static void put_text(struct json_out *out, const struct call *call, enum opt opt, const char *key)
{
	if (call_has(call, opt))
		json_put_text(out, key, call_value(call, opt));
}

static void put_aliases(struct json_out *out, const struct call *call)
{
	const char *alias;

	if (!call_has(call, OPT_ALIAS))
		return;
	json_key(out, "aliases");
	json_begin(out, '[');
	for (size_t at = 0; call_next(call, OPT_ALIAS, &at, &alias);)
		json_add_text(out, alias);
	json_end(out, ']');
}

fallible cli_session_put_env(struct json_out *out, const struct call *call)
{
	auto_body given = {0};

	TRY(body_env(call, &given));
	json_key(out, "env");
	json_begin(out, '{');
	for (size_t i = 0; i < given.env_count; i++) {
		struct str value = str_of(given.env[i]), name;
		auto_free char *key = NULL;

		str_cut(&value, '=', &name);
		key = mem_dup(name.at, name.len);
		json_put_str(out, key, value.at ? value : STR(""));
	}
	json_end(out, '}');
	return OK;
}

static fallible put_runner(struct json_out *out, const struct call *call)
{
	json_key(out, "runner");
	json_begin(out, '{');
	json_key(out, "argv");
	json_begin(out, '[');
	for (int i = 0; i < call->word_count; i++)
		json_add_text(out, call->words[i]);
	json_end(out, ']');
	TRY(cli_session_put_env(out, call));
	json_end(out, '}');
	return OK;
}

fallible cli_session_create(struct call *call)
{
	auto_buf body = BUF_INIT(BODY_MAX), text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_remote remote = {0};
	auto_json made = NULL;

	if (!call_has(call, OPT_USER))
		return err_hint(err_new(INVALID, "no_owner", "the session has no owner"),
				"cove agent-session create --user me -- /opt/agent/runner");
	json_begin(&out, '{');
	put_text(&out, call, OPT_ORG, "org");
	put_text(&out, call, OPT_USER, "user");
	put_text(&out, call, OPT_BOT, "bot");
	put_text(&out, call, OPT_ID, "session");
	if (call_has(call, OPT_ISOLATED))
		json_put_text(&out, "isolation", "session");
	put_aliases(&out, call);
	TRY(put_runner(&out, call));
	json_end(&out, '}');
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "body_too_large", "the runner's command is too long");
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", SESSIONS_PATH, &body, &text, &made));
	if (call_has(call, OPT_JSON))
		print_json(buf_view(&text));
	else
		print_line("%s", boxes_text(made, "id"));
	return OK;
}

// -------------------------------------------------------------------------------- shown

static void add_text(struct grid *grid, const struct json *object, const char *key)
{
	const char *text = boxes_text(object, key);

	grid_add(grid, *text ? text : "-");
}

static void add_owner(struct grid *grid, const struct json *session)
{
	const char *org = boxes_text(session, "org"), *bot = boxes_text(session, "bot");
	auto_free char *owner = mem_fmt("%s%s%s%s%s", org, *org ? "/" : "",
					boxes_text(session, "user"), *bot ? ":" : "", bot);

	grid_add(grid, owner);
}

static fallible cli_session_add_row(const struct json *session, void *arg)
{
	struct grid *grid = arg;
	const struct json *lease = json_get(session, "lease"), *runs = json_get(session, "runs");
	bool deleting = strcmp(boxes_text(session, "status"), "deleting") == 0;
	auto_free char *count = mem_fmt("%zu", runs ? json_count(runs) : 0);
	auto_buf age = BUF_INIT(32);
	uint64_t used = 0;

	TRY(json_u64(json_get(session, "used_at"), "used_at", 0, INT64_MAX, &used));
	print_age(clock_wall_ms() - (int64_t)used, &age);
	grid_add(grid, boxes_text(session, "id"));
	add_owner(grid, session);
	grid_add(grid, deleting ? "deleting" : boxes_text(lease, "state"));
	add_text(grid, session, "class");
	grid_add(grid, count);
	grid_add(grid, age.len ? age.at : "-");
	return OK;
}

fallible cli_session_ls(struct call *call)
{
	static const char *const heads[] = {"ID", "OWNER", "RUNNER", "CLASS", "RUNS", "USED"};
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	return boxes_list(call, &remote,
			  &(struct boxes_table){SESSIONS_PATH, "", heads,
						sizeof(heads) / sizeof(*heads),
						cli_session_add_row});
}

fallible cli_session_inspect(struct call *call)
{
	return boxes_show(call, SESSIONS_PATH);
}

fallible cli_session_logs(struct call *call)
{
	auto_free char *path = remote_path(SESSIONS_PATH "/", call->words[0], "/logs");
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_remote remote = {0};
	auto_json logs = NULL;
	struct str log = {0};

	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "GET", path, NULL, &text, &logs));
	if (call_has(call, OPT_JSON)) {
		print_json(buf_view(&text));
		return OK;
	}
	TRY(json_str(json_get(logs, "log"), "log", &log));
	fwrite(log.at ? log.at : "", 1, log.len, stdout);
	return OK;
}

// -------------------------------------------------------------------------------- acting

static fallible cli_session_act(struct call *call, const char *verb, const struct buf *body)
{
	auto_free char *path = remote_path(SESSIONS_PATH "/", call->words[0], verb);
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", path, body, &text, NULL));
	if (call_has(call, OPT_JSON) && text.len)
		print_json(buf_view(&text));
	else if (!call_has(call, OPT_JSON) && !call_has(call, OPT_QUIET))
		print_line("%s", call->words[0]);
	return OK;
}

fallible cli_session_interrupt(struct call *call)
{
	return cli_session_act(call, "/interrupt", NULL);
}

// Valid JSON is sent as it is, anything else as a string.
fallible cli_session_answer(struct call *call)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	struct str answer = str_of(call->words[1]);
	auto_json value = NULL;
	auto_err err = json_read_any(answer, &value);

	json_begin(&out, '{');
	put_text(&out, call, OPT_QUESTION, "question");
	json_key(&out, "answer");
	if (err)
		json_add_text(&out, call->words[1]);
	else
		json_add_raw(&out, answer);
	json_end(&out, '}');
	return cli_session_act(call, "/answer", &body);
}

static fallible cli_session_remove_one(struct call *call, struct remote *remote,
				       const char *session)
{
	auto_free char *path = remote_path(SESSIONS_PATH "/", session, "");
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	struct err *err = remote_ask(remote, "DELETE", path, NULL, &text, NULL);

	if (err && err_kind(err) == ERR_NOT_FOUND && call_has(call, OPT_FORCE)) {
		err_free(err);
		return OK;
	}
	TRY(err);
	if (text.len && !call_has(call, OPT_QUIET)) // 202: the deletion continues by itself
		print_note("%s is being deleted; 'cove agent-session inspect %s' tells what it "
			   "waits for",
			   session, session);
	if (!call_has(call, OPT_QUIET))
		print_line("%s", session);
	return OK;
}

fallible cli_session_rm(struct call *call)
{
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	for (int i = 0; i < call->word_count; i++) {
		struct err *err = cli_session_remove_one(call, &remote, call->words[i]);

		if (err && err_kind(err) != ERR_NOT_FOUND)
			return err;
		if (err)
			boxes_tell(call, err);
	}
	return OK;
}

fallible cli_session_attach(struct call *call)
{
	auto_free char *path = remote_path(SESSIONS_PATH "/", call->words[0], "");
	struct cove_terminal_options options = {.agent_session = call->words[0]};
	const char *const shell[] = {call->word_count > 1 ? call->words[1] : NULL, NULL};
	auto_remote remote = {0};
	auto_json session = NULL;
	auto_cove_box box = NULL;

	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "GET", path, NULL, NULL, &session));
	options.id = boxes_text(session, "directory");
	options.argv = shell;
	box = cove_box_at(remote.cove, boxes_text(session, "sandbox_id"));
	return screen_run(call, &remote, box, &options, true);
}
