// The verb agent-session. A run is followed by its log: output to stdout, questions and errors to
// stderr; its end is our exit status: 0 completed, 1 failed, 130 interrupted. Leaving does not end
// the run.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/events.h"
#include "cli/image.h"
#include "cli/print.h"
#include "cli/screen.h"
#include "cli/stdio.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "types/volume.h"

#define BODY_MAX (8 << 20)
#define INPUT_MAX (1 << 20)
#define FILE_MAX (128 * 1024) // of a file for the workspace
#define FILE_PIECE 16384

// ------------------------------------------------------------------------------- making

// --env and --env-file as a member `env`.
static fallible session_put_env(struct json_out *out, const struct call *call)
{
	auto_body given = {0};

	TRY(body_env(call, &given));
	return fields_pairs(out, "env", given.command.env);
}

static fallible session_put_network(struct json_out *out, const struct call *call)
{
	auto_body given = {0};

	TRY(body_network(call, &given));
	fields_names(out, "secrets", given.box.secrets);
	if (!given.box.network && !given.box.allow)
		return OK;
	json_put_begin(out, "network", '{');
	if (given.box.network)
		json_put_text(out, "mode", given.box.network);
	fields_names(out, "allow", given.box.allow);
	json_end(out, '}');
	return OK;
}

static fallible session_read_file(const char *path, struct buf *out, struct stat *stat)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = 0;

	if (fd < 0 || fstat(fd, stat) || !S_ISREG(stat->st_mode))
		return err_hint(err_new(INVALID, "bad_value", "cannot read the file %s", path),
				"--file runner.py, or --file runner.py:bin/runner.py");
	do {
		char *room = buf_space(out, FILE_PIECE);

		got = room ? read(fd, room, FILE_PIECE) : -1;
		if (got < 0 || out->len + (size_t)got > FILE_MAX)
			return err_hint(err_new(TOO_LARGE, "file_too_large",
						"%s has more than %d KiB, or cannot be read", path,
						FILE_MAX / 1024),
					"put larger files into a template");
		buf_grew(out, (size_t)got);
	} while (got > 0);
	return OK;
}

// FILE[:PATH], with the mode of our file. A file whose name has a colon is taken as it is.
static fallible session_put_file(struct json_out *out, const char *word)
{
	const char *colon = access(word, F_OK) ? strrchr(word, ':') : NULL;
	auto_free char *from = colon ? mem_dup(word, (size_t)(colon - word)) : mem_str(word);
	const char *slash = strrchr(from, '/');
	auto_buf bytes = BUF_INIT(FILE_MAX + FILE_PIECE), text = BUF_INIT(BODY_MAX);
	struct stat stat = {0};
	char mode[8];

	TRY(session_read_file(from, &bytes, &stat));
	text_base64(&text, bytes.at, bytes.len);
	snprintf(mode, sizeof(mode), "%04o", (unsigned)stat.st_mode & 0777);
	json_begin(out, '{');
	json_put_text(out, "path", colon ? colon + 1 : slash ? slash + 1 : from);
	json_put_str(out, "contentBase64", text.len ? buf_view(&text) : STR(""));
	json_put_text(out, "mode", mode);
	json_end(out, '}');
	return OK;
}

static fallible session_put_files(struct json_out *out, const struct call *call)
{
	const char *word;

	if (!call_has(call, OPT_FILE))
		return OK;
	json_put_begin(out, "files", '[');
	for (size_t at = 0; call_next(call, OPT_FILE, &at, &word);)
		TRY(session_put_file(out, word));
	json_end(out, ']');
	return OK;
}

static fallible session_put_volumes(struct json_out *out, const struct call *call)
{
	const char *words[VOLUME_MOUNTS_MAX + 2] = {NULL}, *word;
	size_t count = 0;

	for (size_t at = 0; count <= VOLUME_MOUNTS_MAX && call_next(call, OPT_VOLUME, &at, &word);)
		words[count++] = word;
	return count ? fields_volumes(out, words) : OK;
}

fallible cli_session_create(struct call *call)
{
	static const struct body_row rows[] = {
		{OPT_ORG, BODY_TEXT, "org"},
		{OPT_USER, BODY_TEXT, "user"},
		{OPT_BOT, BODY_TEXT, "bot"},
		{OPT_ID, BODY_TEXT, "session"},
		{OPT_ALIAS, BODY_LIST, "aliases"},
		{OPT_TEMPLATE, BODY_TEXT, "template"},
		{OPT_PROFILE, BODY_TEXT, "profile"},
		{OPT_IMAGE, BODY_TEXT, "image"},
		{.key = NULL},
	};
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	if (!call_has(call, OPT_USER))
		return err_hint(err_new(INVALID, "no_owner", "the session has no owner"),
				"cove agent-session create --user me --file runner.py -- python3 "
				"runner.py");
	json_begin(&out, '{');
	TRY(body_put(&out, call, rows));
	if (call_has(call, OPT_ISOLATED))
		json_put_text(&out, "isolation", "session");
	TRY(session_put_network(&out, call));
	TRY(session_put_volumes(&out, call));
	TRY(session_put_files(&out, call));
	json_key(&out, "runner");
	json_begin(&out, '{');
	fields_list(&out, "argv", (const char *const *)call->words);
	TRY(session_put_env(&out, call));
	json_end(&out, '}');
	json_end(&out, '}');
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "body_too_large", "the runner's command is too long");
	TRY(image_prepare(call));
	return remote_act(call, "POST", SESSIONS_PATH, &body, "id");
}

// -------------------------------------------------------------------------------- shown

static void put_owner(const struct json *session, const char *key, struct buf *out)
{
	const char *org = fields_text(session, "org"), *bot = fields_text(session, "bot");

	buf_fmt(out, "%s%s%s%s%s", org, *org ? "/" : "", fields_text(session, key), *bot ? ":" : "",
		bot);
}

static void put_state(const struct json *session, const char *key, struct buf *out)
{
	bool deleting = strcmp(fields_text(session, "status"), "deleting") == 0;

	buf_text(out, deleting ? "deleting" : fields_text(json_get(session, key), "state"));
}

static void put_count(const struct json *session, const char *key, struct buf *out)
{
	const struct json *array = json_get(session, key);

	buf_fmt(out, "%zu", array ? json_count(array) : 0);
}

fallible cli_session_ls(struct call *call)
{
	static const struct column columns[] = {
		{"ID", "id", NULL},
		{"OWNER", "user", put_owner},
		{"RUNNER", "lease", put_state},
		{"CLASS", "class", NULL},
		{"RUNS", "runs", put_count},
		{"USED", "used_at", column_age},
		{.head = NULL},
	};

	return collection_ls(call, &(struct collection){SESSIONS_PATH, "", "id", columns});
}

fallible cli_session_inspect(struct call *call)
{
	return collection_show(call, SESSIONS_PATH, NULL);
}

static fallible ask_session(struct call *call, struct remote *remote, struct json **out)
{
	auto_free char *path = remote_path(SESSIONS_PATH, call->words[0], "");

	return remote_ask(remote, "GET", path, NULL, NULL, out);
}

fallible cli_session_logs(struct call *call)
{
	auto_free char *path = remote_path(SESSIONS_PATH, call->words[0], "/logs");
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

fallible cli_session_interrupt(struct call *call)
{
	auto_free char *path = remote_path(SESSIONS_PATH, call->words[0], "/interrupt");

	return remote_act(call, "POST", path, NULL, NULL);
}

// Valid JSON is sent as it is, anything else as a string.
static void put_json_or_text(struct json_out *out, const char *key, struct str text)
{
	auto_json value = NULL;
	auto_err err = json_read_any(text, &value);

	json_key(out, key);
	if (err)
		json_add_str(out, text);
	else
		json_add_raw(out, text);
}

fallible cli_session_answer(struct call *call)
{
	static const struct body_row rows[] = {
		{OPT_QUESTION, BODY_TEXT, "question"},
		{.key = NULL},
	};
	auto_free char *path = remote_path(SESSIONS_PATH, call->words[0], "/answer");
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	TRY(body_put(&out, call, rows));
	put_json_or_text(&out, "answer", str_of(call->words[1]));
	json_end(&out, '}');
	return remote_act(call, "POST", path, &body, NULL);
}

fallible cli_session_rm(struct call *call)
{
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	for (int i = 0; i < call->word_count; i++) {
		const char *session = call->words[i];
		auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);

		TRY(collection_remove(call, &remote, SESSIONS_PATH, session, true, &text));
		if (text.len && !call_has(call, OPT_QUIET)) // 202: the deletion continues by itself
			print_note("%s is being deleted; 'cove agent-session inspect %s' tells "
				   "what it waits for",
				   session, session);
	}
	return OK;
}

fallible cli_session_attach(struct call *call)
{
	struct cove_terminal_options options = {.agent_session = call->words[0]};
	const char *const shell[] = {call->word_count > 1 ? call->words[1] : NULL, NULL};
	auto_remote remote = {0};
	auto_json session = NULL;
	auto_cove_box box = NULL;

	TRY(remote_open(&remote, call));
	TRY(ask_session(call, &remote, &session));
	options.id = fields_text(session, "directory");
	options.argv = shell;
	box = cove_box_at(remote.cove, fields_text(session, "sandbox_id"));
	return screen_run(call, &remote, box, &options, true);
}

// ---------------------------------------------------------------------------------- runs

struct run_watch {
	struct event_stream feed;
	char *path; // of the run
	bool raw;   // print the raw lines
	bool quiet; // print only the end
	int exit;
};

static void watch_path(struct event_stream *feed, struct buf *out)
{
	const struct run_watch *watch = (struct run_watch *)feed;

	buf_fmt(out, "%s/events?offset=%llu", watch->path, (unsigned long long)feed->last);
}

static void show_value(const struct json *value)
{
	auto_buf text = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&text);

	if (!value || json_type(value) == JSON_NULL)
		return;
	if (json_type(value) == JSON_STRING) {
		print_line(STR_FMT, STR_ARG(json_chars(value)));
		return;
	}
	json_add_value(&out, value);
	print_json_line(buf_view(&text));
}

static void show_output(const struct json *event)
{
	const struct json *data = json_get(event, "data");
	FILE *to = strcmp(fields_text(event, "stream"), "stderr") == 0 ? stderr : stdout;
	struct str text;

	if (!data || json_type(data) != JSON_STRING) {
		show_value(data);
		return;
	}
	text = json_chars(data);
	fwrite(text.at, 1, text.len, to);
}

static void show_question(const struct run_watch *watch, const struct json *event)
{
	const struct json *question = json_get(event, "question");

	print_note("it asks (%s): %s", fields_text(question, "id"), fields_text(question, "text"));
	print_note("hint: cove agent-session answer %s ANSWER", watch->feed.call->words[0]);
}

static void show_end(struct run_watch *watch, const struct json *event)
{
	const char *state = fields_text(event, "state"), *message = fields_text(event, "message");
	const struct json *result = json_get(event, "result");

	watch->exit = strcmp(state, "completed") == 0 ? 0 : strcmp(state, "failed") == 0 ? 1 : 130;
	watch->feed.over = true;
	if (watch->raw || watch->quiet)
		return;
	if (!watch->exit && result && json_type(result) == JSON_OBJECT)
		show_value(json_get(result, "output"));
	if (watch->exit)
		print_note("the run %s: %s%s%s", state, fields_text(event, "code"),
			   *message ? ": " : "", message);
}

static void session_run_take(struct event_stream *feed, const struct sse_event *event)
{
	struct run_watch *watch = (struct run_watch *)feed;
	auto_json json = NULL;
	auto_err err = json_read_any(event->data, &json);

	if (err)
		return;
	if (watch->raw)
		print_json_line(event->data);
	else if (!watch->quiet && str_is(event->event, "output"))
		show_output(json);
	else if (!watch->quiet && str_is(event->event, "question"))
		show_question(watch, json);
	if (str_is(event->event, "end"))
		show_end(watch, json);
}

static fallible session_run_follow(struct run_watch *watch)
{
	struct err *err = event_stream_follow(&watch->feed);

	if (!err)
		watch->feed.call->exit = watch->exit;
	return err;
}

static char *run_path(const char *session, const char *run)
{
	auto_free char *rest = mem_fmt("/runs/%s", run);

	return remote_path(SESSIONS_PATH, session, rest);
}

// INPUT, or standard input for "-", as a member; nothing without a word.
static fallible put_input(struct json_out *out, const struct call *call)
{
	auto_buf input = BUF_INIT(INPUT_MAX);
	bool fits = true;

	if (call->word_count < 2)
		return OK;
	if (strcmp(call->words[1], "-") != 0)
		buf_text(&input, call->words[1]);
	else
		TRY(stdio_read_all(STDIN_FILENO, &input, &fits), "read standard input");
	if (!fits)
		return err_new(TOO_LARGE, "input_too_large", "the input exceeds 1 MiB");
	put_json_or_text(out, "input", buf_view(&input));
	return OK;
}

fallible cli_session_run(struct call *call)
{
	auto_free char *path = remote_path(SESSIONS_PATH, call->words[0], "/runs");
	auto_buf body = BUF_INIT(BODY_MAX), text = BUF_INIT(REMOTE_REPLY_MAX);
	struct run_watch watch = {
		.feed = {.call = call, .path = watch_path, .take = session_run_take},
		.quiet = call_has(call, OPT_JSON),
	};
	struct json_out out = json_to(&body);
	auto_free char *run = NULL;
	auto_remote remote = {0};
	auto_json made = NULL;
	int64_t timeout_ms = 0;

	json_begin(&out, '{');
	TRY(put_input(&out, call));
	TRY(body_ms(call, OPT_TIMEOUT, "10m", &timeout_ms));
	if (timeout_ms)
		json_put_int(&out, "timeout", timeout_ms);
	TRY(session_put_env(&out, call));
	json_end(&out, '}');
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "input_too_large", "the input exceeds 1 MiB");
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", path, &body, &text, &made));
	if (call_has(call, OPT_DETACH)) {
		remote_print(call, &text, fields_text(made, "id"));
		return OK;
	}
	run = run_path(call->words[0], fields_text(made, "id"));
	watch.path = run;
	TRY(session_run_follow(&watch));
	if (call_has(call, OPT_JSON)) {
		buf_clear(&text);
		TRY(remote_ask(&remote, "GET", run, NULL, &text, NULL));
		print_json(buf_view(&text));
	}
	return OK;
}

static void put_error(const struct json *run, const char *key, struct buf *out)
{
	buf_text(out, fields_text(json_get(run, key), "code"));
}

static const struct column run_columns[] = {
	{"ID", "id", NULL},
	{"STATE", "state", NULL},
	{"AGE", "created_at", column_age},
	{"ERROR", "error", put_error},
	{.head = NULL},
};

// A run of the list: a row, its id, or its text.
static fallible show_run(struct call *call, struct remote *remote, const char *id,
			 struct grid *grid, struct buf *all)
{
	auto_free char *path = run_path(call->words[0], id);
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_json run = NULL;

	TRY(remote_ask(remote, "GET", path, NULL, &text, &run));
	if (call_has(call, OPT_QUIET))
		print_line("%s", id);
	else if (call_has(call, OPT_JSON))
		buf_fmt(all, "%s%s", all->len > 1 ? "," : "", text.at);
	else
		collection_row(run_columns, run, grid);
	return OK;
}

fallible cli_session_runs(struct call *call)
{
	auto_free char *path = remote_path(SESSIONS_PATH, call->words[0], "/runs");
	auto_grid grid = {0};
	auto_buf all = BUF_INIT(REMOTE_REPLY_MAX);
	auto_remote remote = {0};
	auto_json session = NULL;
	struct json *runs;

	TRY(remote_open(&remote, call));
	if (call_has(call, OPT_ALL) && call->word_count == 1)
		return collection_list(call, &remote,
				       &(struct collection){path, "", "id", run_columns});
	collection_heads(run_columns, &grid);
	TRY(ask_session(call, &remote, &session));
	buf_char(&all, '[');
	runs = json_get(session, "runs");
	for (size_t i = 0; call->word_count == 1 && runs && i < json_count(runs); i++)
		TRY(show_run(call, &remote, json_chars(json_at(runs, i)).at, &grid, &all));
	for (int i = 1; i < call->word_count; i++)
		TRY(show_run(call, &remote, call->words[i], &grid, &all));
	buf_char(&all, ']');
	if (call_has(call, OPT_JSON))
		print_json(buf_view(&all));
	else if (!call_has(call, OPT_QUIET))
		grid_print(&grid, stdout);
	return OK;
}

// The newest run that has not ended.
static const char *last_run(const struct json *session)
{
	const struct json *runs = json_get(session, "runs");
	size_t count = runs ? json_count(runs) : 0;

	return count ? json_chars(json_at(runs, count - 1)).at : NULL;
}

fallible cli_session_events(struct call *call)
{
	struct run_watch watch = {
		.feed = {.call = call, .path = watch_path, .take = session_run_take},
		.raw = true,
	};
	const char *run = call->word_count > 1 ? call->words[1] : NULL;
	auto_free char *path = NULL;
	auto_remote remote = {0};
	auto_json session = NULL;

	if (!run) {
		TRY(remote_open(&remote, call));
		TRY(ask_session(call, &remote, &session));
		run = last_run(session);
	}
	if (!run)
		return err_hint(err_new(NOT_FOUND, "no_run", "no run of it is under way"),
				"name one that has ended: cove agent-session events %s RUN",
				call->words[0]);
	path = run_path(call->words[0], run);
	watch.path = path;
	TRY(session_run_follow(&watch));
	call->exit = 0;
	return OK;
}
