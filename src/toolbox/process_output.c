// The output of processes: so far inside JSON, as events from any offset, as raw bytes of one
// stream or both; waits for the end of a process or for a line of its output. A reader never blocks
// the process beyond what the tape's limit does. Waits are event-driven, without polling, and end
// as soon as they can no longer succeed.
//
// A line is matched when it is complete. An incomplete line, such as a prompt, counts if it matches
// and no output follows for a moment.
#include <stdio.h>

#include "base/clock.h"
#include "codec/regex.h"
#include "gateway/cancel_on_delete.h"
#include "loop/offload.h"
#include "toolbox/cast.h"
#include "toolbox/process.h"
#include "toolbox/stream_json.h"

#define TAIL_MAX 96

static fallible copy_logs(struct stream_json *writer, const char *id, struct tape *tape)
{
	struct json_out out = process_answer(writer->out, id);

	TRY(stream_json_member(writer, tape, TAPE_STDOUT, STR("")));
	TRY(stream_json_member(writer, tape, TAPE_STDERR, STR("")));
	json_put_text(&out, "encoding", writer->base64 ? "base64" : "utf8");
	json_put_bool(&out, "stdoutTruncated", tape_truncated(tape, TAPE_STDOUT));
	json_put_bool(&out, "stderrTruncated", tape_truncated(tape, TAPE_STDERR));
	json_put_int(&out, "offset", (int64_t)writer->until);
	gateway_put_now(&out);
	json_end(&out, '}');
	return OK;
}

fallible toolbox_process_logs(struct process *process)
{
	enum exec_request_encoding encoding = EXEC_REQUEST_AUTO;
	auto_buf body = BUF_INIT(STREAM_JSON_OUT_MAX);
	struct stream_json writer = {.out = &body};
	struct http *x = process->x;

	TRY(process_encoding(x, &encoding));
	TRY(process_find(process));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(process->ref.entry,
									       x);

	writer.until = tape_kept(process->tape);
	writer.so_far = !tape_has_ended(process->tape);
	writer.base64 = exec_request_is_base64(encoding, tape_is_text(process->tape));
	writer.no_nul = encoding == EXEC_REQUEST_UTF8;
	http_be_patient(x);
	TRY(stream_json_begin(&writer, x, writer.until, 0));
	TRY(copy_logs(&writer, proc_look(process->proc).id, process->tape));
	return stream_json_end(&writer, x);
}

// ------------------------------------------------------------------------ events, bytes

static fallible bad_offset(const struct tape *tape)
{
	return err_hint(err_new(INVALID, "bad_offset", "the offset is past the end of the output"),
			"there are %llu bytes up to now", (unsigned long long)tape_reached(tape));
}

// ?offset=, or the Last-Event-ID that event stream clients send when they reconnect.
static fallible process_stream_read_from(struct http *x, const struct tape *tape,
					 struct follow_from *out)
{
	struct str text = http_query(x, "offset");

	if (!text.at)
		text = http_field(x, "Last-Event-ID");
	if (text.at && text.len && !follow_from_read(text, out))
		return err_hint(err_new(INVALID, "bad_offset", "this is not an offset"),
				"give the id of the last event, or a number of bytes");
	return out->offset > tape_reached(tape) ? bad_offset(tape) : OK;
}

static void add_info(struct follow *follow, const struct proc_view *view)
{
	struct json_out out = follow_event(follow, "process_info");

	json_put_text(&out, "command", view->command);
	json_put_text(&out, "status", proc_status_word(view->status));
	json_put_int(&out, "pid", view->pid);
	follow_event_end(&out);
}

static void add_exit(struct follow *follow, const struct proc_view *view)
{
	struct json_out out = follow_event(follow, "exit");
	char text[TAIL_MAX];

	snprintf(text, sizeof(text), "Process %s with exit code %d", proc_status_word(view->status),
		 view->exit_code);
	json_put_text(&out, "data", text);
	process_put_end(&out, view, follow);
	follow_event_end(&out);
}

static fallible process_stream_run(struct follow *follow, struct proc *proc)
{
	struct proc_view view = proc_look(proc);

	follow_prepare(follow);
	add_info(follow, &view);
	TRY(follow_tape(follow));
	if (!proc_is_over(proc)) {
		TRY(follow_flush(follow));
		TRY(proc_wait(proc, CLOCK_NEVER));
	}
	view = proc_look(proc);
	add_exit(follow, &view);
	return follow_end(follow);
}

fallible toolbox_process_stream(struct process *process)
{
	struct http *x = process->x;
	auto_follow follow = {.x = x, .out = BUF_INIT(2 * FOLLOW_OUT_MAX)};

	TRY(process_encoding(x, &follow.encoding));
	TRY(process_find(process));
	TRY(process_stream_read_from(x, process->tape, &follow.from));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(process->ref.entry,
									       x);

	http_be_patient(x);
	follow.tape = process->tape;
	follow.process = proc_look(process->proc).id;
	return process_stream_run(&follow, process->proc);
}

// The offset counts bytes of what is requested: of one stream, or of both in order of arrival.
static fallible read_raw(struct http *x, const struct tape *tape, struct follow_raw *raw)
{
	struct str word = http_query(x, "stream"), offset = http_query(x, "offset");
	uint64_t bytes = 0, before = 0;

	raw->all = !word.at || str_is(word, "both");
	if (!raw->all && !str_is(word, "stdout") && !str_is(word, "stderr"))
		return err_new(INVALID, "bad_field", "'stream' must be stdout, stderr or both");
	raw->stream = !raw->all && str_is(word, "stderr") ? TAPE_STDERR : TAPE_STDOUT;
	if (offset.at && !str_to_u64(offset, 0, INT64_MAX, &bytes))
		return err_new(INVALID, "bad_offset", "'offset' must be a number of bytes");
	TRY(gateway_flag(x, "follow", &raw->live));
	raw->until = tape_kept(tape);
	raw->offset = bytes;
	if (!raw->all) {
		if (bytes > tape_bytes(tape, raw->stream))
			return bad_offset(tape);
		raw->offset = tape_seek(tape, raw->stream, bytes, &before);
		raw->skip = bytes - before;
	}
	return raw->offset > (raw->live ? tape_reached(tape) : raw->until) ? bad_offset(tape) : OK;
}

fallible toolbox_process_tape(struct process *process)
{
	struct follow_raw raw = {0};
	struct http *x = process->x;
	struct tape *tape;
	struct err *err;

	TRY(process_find(process));
	tape = process->tape;
	TRY(read_raw(x, tape, &raw));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(process->ref.entry,
									       x);

	http_be_patient(x);
	http_set(x, "X-Tape-Bytes",
		 str_of(arena_fmt(x->arena, "%llu", (unsigned long long)raw.until)));
	http_set(x, "X-Tape-Ended", tape_has_ended(tape) ? STR("true") : STR("false"));
	if (tape_truncated(tape, TAPE_STDOUT) || tape_truncated(tape, TAPE_STDERR))
		http_set(x, "X-Tape-Truncated", STR("true"));
	TRY(http_begin(x, 200, "application/octet-stream"));
	if (raw.live)
		tape_attach(&raw.reader, tape, raw.offset);
	err = follow_raw(x, tape, &raw);
	tape_detach(&raw.reader);
	return err;
}

fallible toolbox_process_cast(struct process *process)
{
	struct cast_head head = {.width = 80, .height = 24};
	struct http *x = process->x;
	struct proc_view view;

	TRY(process_find(process));
	view = proc_look(process->proc);
	head.started_ms = view.started_ms;
	head.command = str_of(view.command);
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(process->ref.entry,
									       x);

	return toolbox_cast_send(x, process->tape, &head, false);
}

// ------------------------------------------------------------------------------- waits

#define RUN (16 * 1024)
#define LINE_MAX (16 * 1024) // longer lines are matched in parts
#define LINE_KEEP 1024	     // bytes that two parts share
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

fallible toolbox_process_wait(struct process *process)
{
	TRY(process_timeout(process->x, &process->timeout_ms));
	TRY(process_find(process));
	process->condition = "exit";
	TRY(not_in_time(http_while_away(process->x, HTTP_PROBE_HEAD,
					proc_wait(process->proc,
						  deadline_of(process->x, process->timeout_ms))),
			"the process is still running"));
	return process_answer_end(process);
}

struct log_wait {
	struct http *x;
	// what is searched for
	struct str text;     // len 0: the regex
	struct regex *regex; // NULL: the text
	bool wanted[TAPE_STREAMS];
	uint64_t timeout_ms;
	int64_t deadline;
	// position
	struct tape *tape;
	uint64_t offset;
	char *room;
	struct buf lines[TAPE_STREAMS]; // incomplete lines
	// result
	bool found;
	enum tape_stream stream;
	struct str line;
};

static void log_wait_done(struct log_wait *log_wait)
{
	regex_free(log_wait->regex);
	for (int i = 0; i < TAPE_STREAMS; i++)
		buf_done(&log_wait->lines[i]);
}

static bool process_wait_fits(const struct log_wait *log_wait, struct str line)
{
	if (log_wait->regex)
		return regex_test(log_wait->regex, line);
	return memmem(line.at, line.len, log_wait->text.at, log_wait->text.len) != NULL;
}

struct search {
	const struct log_wait *log_wait;
	struct str text;
	bool all; // incomplete lines too
	bool found;
	struct str line;
	size_t used;
};

// Runs in a worker thread for regular expressions.
static void search_run(void *arg)
{
	struct search *search = arg;
	struct str rest = search->text;

	while (rest.len && !search->found) {
		const char *end = memchr(rest.at, '\n', rest.len);
		struct str line = {rest.at, end ? (size_t)(end - rest.at) : rest.len};

		if (!end && !search->all)
			break;
		search->line = line;
		search->line.len -= str_ends(line, "\r");
		search->found = process_wait_fits(search->log_wait, search->line);
		rest = str_skip(rest, line.len + (end != NULL));
	}
	search->used = search->text.len - rest.len;
}

// Regular expressions can be slow: at most one worker thread runs them, for all clients together.
static struct {
	bool busy;
	bool opened;
	struct condition free;
} desk;

static fallible search_in_turn(const struct log_wait *log_wait, struct search *search)
{
	struct err *err = OK;

	if (!log_wait->regex) {
		search_run(search);
		return OK;
	}
	if (!desk.opened)
		condition_init(&desk.free);
	desk.opened = true;
	while (!err && desk.busy)
		err = condition_wait(&desk.free, log_wait->deadline);
	if (err)
		return err;
	desk.busy = true;
	offload_run(search_run, search);
	desk.busy = false;
	condition_signal(&desk.free);
	return OK;
}

static fallible process_wait_look_at(struct log_wait *log_wait, enum tape_stream stream, bool all)
{
	struct buf *lines = &log_wait->lines[stream];
	struct search search = {.log_wait = log_wait, .text = buf_view(lines), .all = all};

	if (log_wait->found || !lines->len)
		return OK;
	TRY(search_in_turn(log_wait, &search));
	log_wait->found = search.found;
	if (search.found) {
		log_wait->stream = stream;
		log_wait->line = (struct str){
			arena_dup(log_wait->x->arena, search.line.at, search.line.len),
			search.line.len};
	} else if (!all) {
		buf_drop_front(lines, search.used);
	}
	return OK;
}

static fallible process_wait_take_run(struct log_wait *log_wait, enum tape_stream stream,
				      size_t len)
{
	struct buf *lines = &log_wait->lines[stream];

	if (!log_wait->wanted[stream])
		return OK;
	buf_add(lines, log_wait->room, len);
	TRY(process_wait_look_at(log_wait, stream, false));
	if (log_wait->found || lines->len <= LINE_MAX)
		return OK;
	TRY(process_wait_look_at(log_wait, stream, true));
	buf_drop_front(lines, lines->len - LINE_KEEP);
	return OK;
}

// Whether an incomplete line matches as it is.
static fallible see_prompt(struct log_wait *log_wait)
{
	for (int i = 0; i < TAPE_STREAMS; i++)
		TRY(process_wait_look_at(log_wait, (enum tape_stream)i, true));
	return OK;
}

// Reads one run, or the end (*len 0), or finds a prompt (found).
static fallible next_run(struct log_wait *log_wait, enum tape_stream *stream, size_t *len)
{
	struct loop *loop = gateway_of(log_wait->x)->loop;
	int64_t soon, deadline;
	struct err *err;
	bool prompt;

	if (!tape_is_ready(log_wait->tape, log_wait->offset))
		TRY(see_prompt(log_wait));
	prompt = log_wait->found;
	soon = loop_now(loop) + PROMPT_MS;
	deadline = prompt && soon < log_wait->deadline ? soon : log_wait->deadline;
	err = tape_read(log_wait->tape, &log_wait->offset, stream, log_wait->room, RUN, len,
			deadline);
	log_wait->found = prompt && ((err && err_kind(err) == ERR_TIMEOUT) || (!err && !*len));
	if (!log_wait->found)
		return err;
	err_free(err);
	*len = 0;
	return OK;
}

static fallible seek_line(struct log_wait *log_wait)
{
	struct loop *loop = gateway_of(log_wait->x)->loop;
	size_t len = 1;

	while (len && !log_wait->found) {
		enum tape_stream stream = TAPE_STDOUT;

		TRY(next_run(log_wait, &stream, &len));
		if (len)
			TRY(process_wait_take_run(log_wait, stream, len));
		// A process that writes without pause never makes us wait, so check the deadline
		// here.
		if (!log_wait->found && len && loop_now(loop) >= log_wait->deadline)
			return err_new(TIMEOUT, "timeout", "no matching line was written in time");
	}
	return log_wait->found ? OK : see_prompt(log_wait);
}

static fallible read_log_wait(struct log_wait *log_wait, const struct json *json)
{
	struct str regex = {0}, stream = STR("both");
	bool ignore_case = false;

	TRY(json_str(json_get(json, "pattern"), "pattern", &log_wait->text));
	TRY(json_str(json_get(json, "regex"), "regex", &regex));
	TRY(json_bool(json_get(json, "ignoreCase"), "ignoreCase", &ignore_case));
	TRY(json_str(json_get(json, "stream"), "stream", &stream));
	TRY(json_u64(json_get(json, "timeoutMs"), "timeoutMs", 0, TIME_MAX, &log_wait->timeout_ms));
	if (!log_wait->text.len == !regex.len)
		return err_hint(
			err_new(INVALID, "bad_field", "either 'pattern' or 'regex' must be given"),
			"'pattern' is text, 'regex' a regular expression");
	if (regex.len)
		TRY(regex_compile(regex, ignore_case, &log_wait->regex));
	log_wait->wanted[TAPE_STDOUT] = str_is(stream, "both") || str_is(stream, "stdout");
	log_wait->wanted[TAPE_STDERR] = str_is(stream, "both") || str_is(stream, "stderr");
	if (!log_wait->wanted[TAPE_STDOUT] && !log_wait->wanted[TAPE_STDERR])
		return err_new(INVALID, "bad_field", "'stream' must be stdout, stderr or both");
	return OK;
}

static fallible run_log_wait(struct log_wait *log_wait, struct process *process)
{
	struct err *err;

	log_wait->tape = process->tape;
	log_wait->deadline = deadline_of(log_wait->x, log_wait->timeout_ms);
	log_wait->room = arena_take(log_wait->x->arena, RUN);
	for (int i = 0; i < TAPE_STREAMS; i++)
		log_wait->lines[i] = BUF_INIT(LINE_MAX + RUN);
	TRY(http_away(log_wait->x, HTTP_PROBE_HEAD));
	err = seek_line(log_wait);
	if (!err && !log_wait->found)
		err = proc_wait(process->proc,
				log_wait->deadline); // the answer contains its exit code
	http_back(log_wait->x);
	TRY(not_in_time(err, "no matching line was written in time"));
	if (!log_wait->found)
		return err_new(INTERNAL, "exited_before_ready",
			       "the process ended before it wrote a matching line");
	return OK;
}

fallible toolbox_process_wait_log(struct process *process)
{
	struct http *x = process->x;
	on_exit_call(log_wait_done) struct log_wait log_wait = {.x = x};
	auto_buf body = BUF_INIT(1 << 20);
	auto_json json = NULL;
	struct json_out out;

	TRY(gateway_object(x, &json));
	TRY(read_log_wait(&log_wait, json));
	TRY(process_find(process));
	process->condition = "log";
	process->timeout_ms = log_wait.timeout_ms;
	TRY(run_log_wait(&log_wait, process));
	out = process_answer(&body, proc_look(process->proc).id);
	json_put_str(&out, "line", log_wait.line);
	json_put_text(&out, "stream", log_wait.stream == TAPE_STDOUT ? "stdout" : "stderr");
	return gateway_answer(x, &out);
}
