// Runs of an agent session. A run is followed by its log: output to stdout, questions and errors to
// stderr; its end is our exit status: 0 completed, 1 failed, 130 interrupted. Leaving does not end
// the run.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/boxes.h"
#include "cli/event_stream.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/stdio.h"
#include "cli/verbs.h"

#define BODY_MAX (8 << 20)
#define INPUT_MAX (1 << 20)
#define PIECE 65536

struct watch {
	struct event_stream feed;
	char *path; // of the run
	bool raw;   // print the raw lines
	bool quiet; // print only the end
	int exit;
};

static void watch_path(struct event_stream *feed, struct buf *out)
{
	const struct watch *watch = (struct watch *)feed;

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
	FILE *to = strcmp(boxes_text(event, "stream"), "stderr") == 0 ? stderr : stdout;
	struct str text;

	if (!data || json_type(data) != JSON_STRING) {
		show_value(data);
		return;
	}
	text = json_chars(data);
	fwrite(text.at, 1, text.len, to);
}

static void show_question(const struct watch *watch, const struct json *event)
{
	const struct json *question = json_get(event, "question");

	print_note("it asks (%s): %s", boxes_text(question, "id"), boxes_text(question, "text"));
	print_note("hint: cove agent-session answer %s ANSWER", watch->feed.call->words[0]);
}

static void show_end(struct watch *watch, const struct json *event)
{
	const char *state = boxes_text(event, "state"), *message = boxes_text(event, "message");
	const struct json *result = json_get(event, "result");

	watch->exit = strcmp(state, "completed") == 0 ? 0 : strcmp(state, "failed") == 0 ? 1 : 130;
	watch->feed.over = true;
	if (watch->raw || watch->quiet)
		return;
	if (!watch->exit && result && json_type(result) == JSON_OBJECT)
		show_value(json_get(result, "output"));
	if (watch->exit)
		print_note("the run %s: %s%s%s", state, boxes_text(event, "code"),
			   *message ? ": " : "", message);
}

static void cli_session_run_take(struct event_stream *feed, const struct sse_event *event)
{
	struct watch *watch = (struct watch *)feed;
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

static fallible cli_session_run_follow(struct watch *watch)
{
	struct err *err = event_stream_follow(&watch->feed);

	if (!err)
		watch->feed.call->exit = watch->exit;
	return err;
}

static char *run_path(const char *session, const char *run)
{
	auto_free char *rest = mem_fmt("/runs/%s", run);

	return remote_path(SESSIONS_PATH "/", session, rest);
}

// ------------------------------------------------------------------------------- giving

// Valid JSON is sent as it is, anything else as a string; "-" is stdin.
static fallible cli_session_run_read_input(const char *word, struct buf *out)
{
	size_t n = 1;

	if (strcmp(word, "-") != 0) {
		buf_text(out, word);
		return OK;
	}
	while (n > 0) {
		char *room = buf_space(out, PIECE);

		if (!room)
			return err_new(TOO_LARGE, "input_too_large", "the input exceeds 1 MiB");
		TRY(stdio_read(STDIN_FILENO, room, PIECE, &n), "read standard input");
		buf_grew(out, n);
	}
	return OK;
}

static fallible cli_session_run_put_input(struct json_out *out, const struct call *call)
{
	auto_buf input = BUF_INIT(INPUT_MAX);
	auto_json value = NULL;
	auto_err err = OK;

	if (call->word_count < 2)
		return OK;
	TRY(cli_session_run_read_input(call->words[1], &input));
	err = json_read(buf_view(&input), &value);
	json_key(out, "input");
	if (err)
		json_add_str(out, buf_view(&input));
	else
		json_add_raw(out, buf_view(&input));
	return OK;
}

static fallible put_timeout(struct json_out *out, const struct call *call)
{
	const char *text = call_value(call, OPT_TIMEOUT);
	uint64_t ms = 0;

	if (!text)
		return OK;
	if (str_to_u64(str_of(text), 1, UINT32_MAX, &ms)) // bare numbers are seconds, as elsewhere
		ms *= 1000;
	else if (!str_to_ms(str_of(text), &ms) || !ms)
		return err_hint(err_new(INVALID, "bad_value", "--timeout '%s' is no TIME", text),
				"for example --timeout 10m");
	json_put_int(out, "timeout", (int64_t)ms);
	return OK;
}

fallible cli_session_run(struct call *call)
{
	auto_free char *path = remote_path(SESSIONS_PATH "/", call->words[0], "/runs");
	auto_buf body = BUF_INIT(BODY_MAX), text = BUF_INIT(REMOTE_REPLY_MAX);
	struct watch watch = {
		.feed = {.call = call, .path = watch_path, .take = cli_session_run_take},
		.quiet = call_has(call, OPT_JSON),
	};
	struct json_out out = json_to(&body);
	auto_free char *run = NULL;
	auto_remote remote = {0};
	auto_json made = NULL;

	json_begin(&out, '{');
	TRY(cli_session_run_put_input(&out, call));
	TRY(put_timeout(&out, call));
	TRY(cli_session_put_env(&out, call));
	json_end(&out, '}');
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "input_too_large", "the input exceeds 1 MiB");
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", path, &body, &text, &made));
	if (call_has(call, OPT_DETACH)) {
		if (call_has(call, OPT_JSON))
			print_json(buf_view(&text));
		else
			print_line("%s", boxes_text(made, "id"));
		return OK;
	}
	run = run_path(call->words[0], boxes_text(made, "id"));
	watch.path = run;
	TRY(cli_session_run_follow(&watch));
	if (call_has(call, OPT_JSON)) {
		buf_clear(&text);
		TRY(remote_ask(&remote, "GET", run, NULL, &text, NULL));
		print_json(buf_view(&text));
	}
	return OK;
}

// -------------------------------------------------------------------------------- shown

static fallible ask_session(struct call *call, struct remote *remote, struct json **out)
{
	auto_free char *path = remote_path(SESSIONS_PATH "/", call->words[0], "");

	return remote_ask(remote, "GET", path, NULL, NULL, out);
}

static fallible cli_session_run_add(struct grid *grid, const struct json *run)
{
	const char *code = boxes_text(json_get(run, "error"), "code");
	auto_buf age = BUF_INIT(32);
	uint64_t created = 0;

	TRY(json_u64(json_get(run, "created_at"), "created_at", 0, INT64_MAX, &created));
	print_age(clock_wall_ms() - (int64_t)created, &age);
	grid_add(grid, boxes_text(run, "id"));
	grid_add(grid, boxes_text(run, "state"));
	grid_add(grid, age.len ? age.at : "-");
	grid_add(grid, *code ? code : "-");
	return OK;
}

// One run of the list: a row, its id, or its text.
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
		TRY(cli_session_run_add(grid, run));
	return OK;
}

static fallible add_any(const struct json *run, void *grid)
{
	return cli_session_run_add(grid, run);
}

static fallible print_id(const struct json *run, void *arg)
{
	(void)arg;
	print_line("%s", boxes_text(run, "id"));
	return OK;
}

// All runs, including ended ones.
static fallible cli_session_run_list_all(struct call *call, struct remote *remote,
					 struct grid *grid)
{
	auto_free char *path = remote_path(SESSIONS_PATH "/", call->words[0], "/runs");

	if (call_has(call, OPT_JSON))
		return boxes_dump(remote, path, "");
	if (call_has(call, OPT_QUIET))
		return boxes_each(remote, path, "", print_id, NULL, NULL);
	TRY(boxes_each(remote, path, "", add_any, grid, NULL));
	grid_print(grid, stdout);
	return OK;
}

fallible cli_session_runs(struct call *call)
{
	static const char *const heads[] = {"ID", "STATE", "AGE", "ERROR"};
	auto_grid grid = {.columns = sizeof(heads) / sizeof(*heads)};
	auto_buf all = BUF_INIT(REMOTE_REPLY_MAX);
	auto_remote remote = {0};
	auto_json session = NULL;
	struct json *runs;

	TRY(remote_open(&remote, call));
	for (size_t i = 0; i < grid.columns; i++)
		grid_add(&grid, heads[i]);
	if (call_has(call, OPT_ALL) && call->word_count == 1)
		return cli_session_run_list_all(call, &remote, &grid);
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
	struct watch watch = {
		.feed = {.call = call, .path = watch_path, .take = cli_session_run_take},
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
	TRY(cli_session_run_follow(&watch));
	call->exit = 0;
	return OK;
}
