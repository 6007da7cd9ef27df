// Waiting for a process: for its end, or for a line of its output. Both are served by what happens,
// not by looking again and again; both end at once when they can no longer come true.
//
// A line is looked at when it is whole. One that is not, a prompt for instance, counts if it
// matches and nothing follows for a moment.
#include <stdio.h>

#include "base/clock.h"
#include "codec/regex.h"
#include "loop/offload.h"
#include "toolbox/process.h"

#define RUN (16 * 1024)
#define LINE_MAX (16 * 1024) // longer ones are looked at in parts
#define LINE_KEEP 1024	     // what two parts have in common
#define PROMPT_MS 100
#define TIME_MAX (1ull << 42)

static fallible not_in_time(struct err *err, const char *what)
{
	if (err && err_kind(err) == ERR_TIMEOUT)
		return err_recast(err, ERR_TIMEOUT, "not_ready", "%s", what);
	return err;
}

static int64_t deadline_of(struct http *x, uint64_t timeout_ms)
{
	return timeout_ms ? loop_now(gateway_of(x)->loop) + (int64_t)timeout_ms : CLOCK_NEVER;
}

fallible toolbox_process_wait(struct http *x)
{
	struct process_failure failure = {.operation = "process.get", .condition = "exit"};
	auto_process process = {0};
	auto_buf body = BUF_INIT(1 << 20);
	struct err *err = process_timeout(x, &failure.timeout_ms);
	struct proc_view view;
	struct json_out out;

	if (!err)
		err = process_find(x, &process);
	if (err) {
		failure.condition = NULL;
		process_fail(x, &failure, err);
		return OK;
	}
	TRY(http_away(x, HTTP_PROBE_HEAD));
	err = proc_wait(process.proc, deadline_of(x, failure.timeout_ms));
	http_back(x);
	err = not_in_time(err, "the process is still running");
	view = proc_look(process.proc);
	failure.view = &view;
	if (err) {
		process_fail(x, &failure, err);
		return OK;
	}
	out = process_answer(&body, view.id);
	process_put_end(&out, &view, NULL);
	return gateway_answer(x, &out);
}

struct hunt {
	struct http *x;
	// what is looked for
	struct str text;     // len 0: the expression
	struct regex *regex; // NULL: the text
	bool wanted[TAPE_STREAMS];
	uint64_t timeout_ms;
	int64_t deadline;
	// where we are
	struct tape *tape;
	uint64_t offset;
	char *room;
	struct buf lines[TAPE_STREAMS]; // what is not yet a line
	// what was found
	bool found;
	enum tape_stream stream;
	struct str line;
};

static void hunt_done(struct hunt *hunt)
{
	regex_free(hunt->regex);
	for (int i = 0; i < TAPE_STREAMS; i++)
		buf_done(&hunt->lines[i]);
}

static bool fits(const struct hunt *hunt, struct str line)
{
	if (hunt->regex)
		return regex_test(hunt->regex, line);
	return memmem(line.at, line.len, hunt->text.at, hunt->text.len) != NULL;
}

struct search {
	const struct hunt *hunt;
	struct str text;
	bool all; // what is no whole line, too
	bool found;
	struct str line;
	size_t used;
};

static struct str bare(struct str line)
{
	if (line.len && line.at[line.len - 1] == '\r')
		line.len--;
	return line;
}

// On a worker thread for expressions.
static void search_run(void *arg)
{
	struct search *search = arg;
	struct str rest = search->text;

	while (rest.len && !search->found) {
		const char *end = memchr(rest.at, '\n', rest.len);
		struct str line = {rest.at, end ? (size_t)(end - rest.at) : rest.len};

		if (!end && !search->all)
			break;
		search->line = bare(line);
		search->found = fits(search->hunt, search->line);
		rest = str_skip(rest, line.len + (end != NULL));
	}
	search->used = search->text.len - rest.len;
}

// Expressions take time: one worker at most is busy with them, whoever asks.
static struct {
	bool busy;
	bool opened;
	struct condition free;
} desk;

static fallible search_in_turn(const struct hunt *hunt, struct search *search)
{
	struct err *err = OK;

	if (!hunt->regex) {
		search_run(search);
		return OK;
	}
	if (!desk.opened)
		condition_init(&desk.free);
	desk.opened = true;
	while (!err && desk.busy)
		err = condition_wait(&desk.free, hunt->deadline);
	if (err)
		return err;
	desk.busy = true;
	offload_run(search_run, search);
	desk.busy = false;
	condition_signal(&desk.free);
	return OK;
}

static fallible process_wait_look_at(struct hunt *hunt, enum tape_stream stream, bool all)
{
	struct buf *lines = &hunt->lines[stream];
	struct search search = {.hunt = hunt, .text = buf_view(lines), .all = all};

	if (hunt->found || !lines->len)
		return OK;
	TRY(search_in_turn(hunt, &search));
	hunt->found = search.found;
	if (search.found) {
		hunt->stream = stream;
		hunt->line = (struct str){
			arena_dup(hunt->x->arena, search.line.at, search.line.len),
			search.line.len};
	} else if (!all) {
		buf_drop_front(lines, search.used);
	}
	return OK;
}

static fallible process_wait_take_run(struct hunt *hunt, enum tape_stream stream, size_t len)
{
	struct buf *lines = &hunt->lines[stream];

	if (!hunt->wanted[stream])
		return OK;
	buf_add(lines, hunt->room, len);
	TRY(process_wait_look_at(hunt, stream, false));
	if (hunt->found || lines->len <= LINE_MAX)
		return OK;
	TRY(process_wait_look_at(hunt, stream, true));
	buf_drop_front(lines, lines->len - LINE_KEEP);
	return OK;
}

// Does a line without an end match as it is?
static fallible see_prompt(struct hunt *hunt)
{
	for (int i = 0; i < TAPE_STREAMS; i++)
		TRY(process_wait_look_at(hunt, (enum tape_stream)i, true));
	return OK;
}

// One run, or the end (*len 0), or a prompt (found).
static fallible next_run(struct hunt *hunt, enum tape_stream *stream, size_t *len)
{
	struct loop *loop = gateway_of(hunt->x)->loop;
	int64_t soon, deadline;
	struct err *err;
	bool prompt;

	if (!tape_is_ready(hunt->tape, hunt->offset))
		TRY(see_prompt(hunt));
	prompt = hunt->found;
	soon = loop_now(loop) + PROMPT_MS;
	deadline = prompt && soon < hunt->deadline ? soon : hunt->deadline;
	err = tape_read(hunt->tape, &hunt->offset, stream, hunt->room, RUN, len, deadline);
	hunt->found = prompt && ((err && err_kind(err) == ERR_TIMEOUT) || (!err && !*len));
	if (!hunt->found)
		return err;
	err_free(err);
	*len = 0;
	return OK;
}

static fallible seek_line(struct hunt *hunt)
{
	struct loop *loop = gateway_of(hunt->x)->loop;
	size_t len = 1;

	while (len && !hunt->found) {
		enum tape_stream stream = TAPE_STDOUT;

		TRY(next_run(hunt, &stream, &len));
		if (len)
			TRY(process_wait_take_run(hunt, stream, len));
		// A process that always has more to say never lets us wait.
		if (!hunt->found && len && loop_now(loop) >= hunt->deadline)
			return err_new(TIMEOUT, "timeout", "no such line has come");
	}
	return hunt->found ? OK : see_prompt(hunt);
}

static fallible read_hunt(struct hunt *hunt, const struct json *json)
{
	struct str regex = {0}, stream = STR("both");
	bool ignore_case = false;

	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(json_str(json_get(json, "pattern"), "pattern", &hunt->text));
	TRY(json_str(json_get(json, "regex"), "regex", &regex));
	TRY(json_bool(json_get(json, "ignoreCase"), "ignoreCase", &ignore_case));
	TRY(json_str(json_get(json, "stream"), "stream", &stream));
	TRY(json_u64(json_get(json, "timeoutMs"), "timeoutMs", 0, TIME_MAX, &hunt->timeout_ms));
	if (!hunt->text.len == !regex.len)
		return err_hint(err_new(INVALID, "bad_field",
					"one of 'pattern' and 'regex' is to be given"),
				"'pattern' is text, 'regex' a regular expression");
	if (regex.len)
		TRY(regex_compile(regex, ignore_case, &hunt->regex));
	hunt->wanted[TAPE_STDOUT] = str_is(stream, "both") || str_is(stream, "stdout");
	hunt->wanted[TAPE_STDERR] = str_is(stream, "both") || str_is(stream, "stderr");
	if (!hunt->wanted[TAPE_STDOUT] && !hunt->wanted[TAPE_STDERR])
		return err_new(INVALID, "bad_field", "'stream' must be stdout, stderr or both");
	return OK;
}

static fallible run_hunt(struct hunt *hunt, struct process *process)
{
	struct err *err;

	hunt->tape = process->tape;
	hunt->deadline = deadline_of(hunt->x, hunt->timeout_ms);
	hunt->room = arena_take(hunt->x->arena, RUN);
	for (int i = 0; i < TAPE_STREAMS; i++)
		hunt->lines[i] = BUF_INIT(LINE_MAX + RUN);
	TRY(http_away(hunt->x, HTTP_PROBE_HEAD));
	err = seek_line(hunt);
	if (!err && !hunt->found)
		err = proc_wait(process->proc, hunt->deadline); // its exit code is to be told
	http_back(hunt->x);
	TRY(not_in_time(err, "no such line has come"));
	if (!hunt->found)
		return err_new(INTERNAL, "exited_before_ready",
			       "the process ended before such a line came");
	return OK;
}

static fallible answer_line(struct http *x, const struct hunt *hunt, const char *id)
{
	auto_buf body = BUF_INIT(1 << 20);
	struct json_out out = process_answer(&body, id);

	json_put_str(&out, "line", hunt->line);
	json_put_text(&out, "stream", hunt->stream == TAPE_STDOUT ? "stdout" : "stderr");
	return gateway_answer(x, &out);
}

fallible toolbox_process_wait_log(struct http *x)
{
	struct process_failure failure = {.operation = "process.logs"};
	on_exit_call(hunt_done) struct hunt hunt = {.x = x};
	auto_process process = {0};
	auto_json json = NULL;
	struct proc_view view;
	struct err *err = gateway_json(x, &json, NULL);

	if (!err && !json)
		err = err_new(INVALID, "bad_field", "the body is empty");
	if (!err)
		err = read_hunt(&hunt, json);
	if (!err)
		err = process_find(x, &process);
	if (!err) {
		err = run_hunt(&hunt, &process);
		failure.condition = "log";
		failure.timeout_ms = hunt.timeout_ms;
		view = proc_look(process.proc);
		failure.view = &view;
	}
	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	if (err) {
		process_fail(x, &failure, err);
		return OK;
	}
	return answer_line(x, &hunt, view.id);
}
