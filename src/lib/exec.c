// A command whose output is an event stream. The stream belongs to this call, the command to the
// sandbox: if the caller cancels the call, the command is killed by its process id.
#include "base/mem.h"
#include "codec/text.h"
#include "lib/box.h"
#include "lib/event_reader.h"
#include "lib/fields.h"
#include "lib/http_call.h"
#include "lib/process.h"
#include "lib/sink.h"

#define BODY_MAX ((size_t)4 << 20)
#define RETRIES 20
#define TIME_OUT_MAX 64
#define RETRY_MS 250

struct exec {
	struct cove_box *box;
	const struct cove_exec_options *options;
	struct event_reader feed;
	struct buf bytes, held; // held: a message of the server, held back until the end is known
	char *process;		// its id, once known
	bool done;
	bool cut;		      // the server reported missing output
	uint64_t missed, missed_here; // by connections before this one; by this one
	struct cove_result result;
};

static fallible lib_exec_put_body(struct buf *to, const struct cove_command *command)
{
	struct json_out out = json_to(to);

	json_begin(&out, '{');
	TRY(fields_command(&out, command, NULL));
	json_put_text(&out, "encoding", "base64");
	json_end(&out, '}');
	return OK;
}

// "Command timed out after 500ms": the server's message, alone in its event.
static bool is_time_out(struct str text)
{
	static const char words[] = "Command timed out after ";
	struct str rest = str_starts(text, words) ? str_skip(text, sizeof(words) - 1) : STR("");
	size_t digits = strspn(rest.len ? rest.at : "", "0123456789");

	return digits && digits + 2 == rest.len && memcmp(rest.at + digits, "ms", 2) == 0;
}

// Passes on the bytes that were held back, unless they report the command's timeout.
static fallible put_held(struct exec *exec, const struct json *event)
{
	auto_buf held = exec->held;

	exec->held = BUF_INIT(TIME_OUT_MAX);
	if (!held.len || strcmp(fields_text(event, "ended"), "wall_limit") == 0)
		return OK;
	return sink_put(&exec->options->sink, true, buf_view(&held));
}

static fallible lib_exec_on_event(struct exec *exec, const struct json *event)
{
	const char *type = fields_text(event, "type");
	bool is_stderr = strcmp(type, "stderr") == 0;

	if (is_stderr || strcmp(type, "stdout") == 0) {
		buf_clear(&exec->bytes);
		TRY(fields_bytes(event, "data", &exec->bytes));
		TRY(put_held(exec, event));
		if (is_stderr && exec->options->bare && is_time_out(buf_view(&exec->bytes))) {
			buf_str(&exec->held, buf_view(&exec->bytes));
			return OK;
		}
		return sink_put(&exec->options->sink, is_stderr, buf_view(&exec->bytes));
	}
	if (strcmp(type, "start") == 0 && *fields_text(event, "processId")) {
		free(exec->process);
		exec->process = mem_str(fields_text(event, "processId"));
	}
	if (strcmp(type, "complete") == 0 || strcmp(type, "exit") == 0) {
		TRY(put_held(exec, event));
		fields_result(event, &exec->result);
		exec->result.stdout_truncated |= exec->cut && !exec->result.stderr_truncated;
		exec->result.missed_bytes += exec->missed;
		exec->done = true;
	}
	if (strcmp(type, "truncated") == 0) {
		exec->cut = true;
		exec->missed_here = (uint64_t)fields_number(event, "missedBytes", 0);
	}
	return strcmp(type, "error") == 0 ? event_reader_error(event) : OK;
}

// The stream was cut. The command is a process with a record: resume its stream at the last
// position.
static fallible lib_exec_resume(struct exec *exec, struct err *lost)
{
	auto_buf path = BUF_INIT(1 << 20);
	char reached[sizeof(exec->feed.id)];
	struct err *err = OK;

	if (!exec->process || !*exec->feed.id || !private_is_lost(exec->box->cove, lost))
		return lost;
	memcpy(reached, exec->feed.id, sizeof(reached));
	exec->missed += exec->missed_here;
	exec->missed_here = 0;
	buf_fmt(&path, "%s/api/process/", exec->box->base);
	text_percent(&path, str_of(exec->process));
	buf_text(&path, "/stream?encoding=base64");
	for (int i = 0; i < RETRIES; i++) {
		err_free(err);
		event_reader_close(&exec->feed);
		err = event_reader_open(&exec->feed, exec->box->cove, "GET", path.at,
					(struct str){0}, reached);
		if (!err || !private_is_lost(exec->box->cove, err))
			break;
		private_begin(exec->box->cove);
		if (private_rest(exec->box->cove, RETRY_MS))
			break;
	}
	if (!err) {
		err_free(lost);
		return OK;
	}
	err_free(err);
	private_begin(exec->box->cove);
	return lost; // the first error says more
}

static fallible lib_exec_follow(struct exec *exec)
{
	while (!exec->done) {
		auto_json event = NULL;
		struct err *err = event_reader_next(&exec->feed, PRIVATE_DEFAULT, &event);

		if (!err && !event)
			err = err_new(
				BAD_PEER, "cut_stream",
				"the connection to the daemon was lost before the command ended");
		if (err)
			TRY(lib_exec_resume(exec, err));
		else
			TRY(lib_exec_on_event(exec, event));
	}
	return OK;
}

// Kills the command: the call was cancelled.
static fallible put_down(struct exec *exec, struct err *why)
{
	auto_buf path = BUF_INIT(1 << 20);
	auto_err err = OK;

	if (!exec->process || exec->options->detach)
		return why;
	event_reader_close(&exec->feed);
	buf_fmt(&path, "%s/api/process/", exec->box->base);
	text_percent(&path, str_of(exec->process));
	err = process_interrupt(exec->box->cove, path.at);
	private_begin(exec->box->cove);
	return err ? err_recast(why, err_kind(why), "still_running",
				"the command could not be killed and may still run")
		   : why;
}

static fallible lib_exec_run(struct exec *exec)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_free char *path = lib_box_path(exec->box, "/api/execute/stream");
	struct err *err;

	TRY(lib_exec_put_body(&body, &exec->options->command));
	if (!buf_ok(&body))
		return err_hint(err_new(TOO_LARGE, "stdin_too_large", "the input is too large"),
				"start a process with an open stdin and write to it");
	err = event_reader_open(&exec->feed, exec->box->cove, "POST", path, buf_view(&body), "");
	if (err)
		return fields_no_cwd(err, exec->box->cove, exec->options->command.cwd);
	err = lib_exec_follow(exec);
	if (err && (err_kind(err) == ERR_CANCELLED || err_kind(err) == ERR_TIMEOUT))
		err = put_down(exec, err);
	return err;
}

enum cove_kind cove_exec(struct cove_box *box, const struct cove_exec_options *options,
			 struct cove_result *out, struct cove_error *error)
{
	struct exec exec = {.box = box,
			    .options = options,
			    .bytes = BUF_INIT(PRIVATE_BODY_MAX),
			    .held = BUF_INIT(TIME_OUT_MAX)};
	struct err *err;

	private_begin(box->cove);
	err = lib_exec_run(&exec);
	if (!err && out)
		*out = exec.result;
	event_reader_close(&exec.feed);
	buf_done(&exec.bytes);
	buf_done(&exec.held);
	free(exec.process);
	return private_end(box->cove, err, error);
}

enum cove_kind cove_exec_output(struct cove_box *box, const struct cove_command *command,
				struct cove_output *out, struct cove_error *error)
{
	struct sink_both both = SINK_BOTH;
	struct cove_exec_options options = {.command = *command, .sink = sink_to_both(&both)};
	struct cove_result result;
	enum cove_kind kind = cove_exec(box, &options, &result, error);

	if (!kind)
		sink_output(&both, &result, out);
	sink_both_done(&both);
	return kind;
}

enum cove_kind cove_exec_line(struct cove_box *box, const char *line, struct cove_output *out,
			      struct cove_error *error)
{
	return cove_exec_output(box, &(struct cove_command){.line = line}, out, error);
}
