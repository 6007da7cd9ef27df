// A command whose output is an event stream. The stream belongs to this call, the command to the
// sandbox: if the caller cancels the call, the command is killed by its process id. A stream that
// was cut is resumed as that of a process.
#include "base/mem.h"
#include "lib/fields.h"
#include "lib/process.h"
#include "lib/sink.h"

#define BODY_MAX ((size_t)4 << 20)
#define TIME_OUT_MAX 64

static fallible exec_open(struct cove_process *process, const struct cove_command *command)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_free char *path = lib_box_path(process->box, "/api/execute/stream");
	struct json_out out = json_to(&body);
	struct err *err;

	json_begin(&out, '{');
	TRY(fields_command(&out, command, NULL));
	json_put_text(&out, "encoding", "base64");
	json_end(&out, '}');
	if (!buf_ok(&body))
		return err_hint(err_new(TOO_LARGE, "stdin_too_large", "the input is too large"),
				"start a process with an open stdin and write to it");
	err = event_reader_open(&process->feed, process->cove, "POST", path, buf_view(&body), "");
	return err ? fields_no_cwd(err, process->cove, command->cwd) : OK;
}

// "Command timed out after 500ms": the server's message, alone in its event.
static bool is_time_out(struct str text)
{
	static const char words[] = "Command timed out after ";
	struct str rest = str_starts(text, words) ? str_skip(text, sizeof(words) - 1) : STR("");
	size_t digits = strspn(rest.len ? rest.at : "", "0123456789");

	return digits && digits + 2 == rest.len && memcmp(rest.at + digits, "ms", 2) == 0;
}

// Passes the output on. A message of the server about a timeout is held back until the end tells
// whether the command wrote it.
static fallible exec_follow(struct cove_process *process, const struct cove_exec_options *options)
{
	int64_t timeout_ms = process->cove->timeout_ms > 0 ? process->cove->timeout_ms : -1;
	auto_buf held = BUF_INIT(TIME_OUT_MAX);

	for (;;) {
		struct cove_piece piece = {0};
		struct str bytes;

		TRY(process_next(process, timeout_ms, &piece));
		bytes = (struct str){piece.bytes, piece.len};
		if (!piece.ended || strcmp(process->result.ended, "wall_limit") != 0)
			TRY(sink_put(&options->sink, true, buf_view(&held)));
		buf_clear(&held);
		if (piece.ended)
			return OK;
		if (piece.is_stderr && options->bare && is_time_out(bytes))
			buf_str(&held, bytes);
		else
			TRY(sink_put(&options->sink, piece.is_stderr, bytes));
	}
}

// Kills the command: the call was cancelled.
static fallible exec_kill(struct cove_process *process, struct err *why)
{
	auto_err err = OK;

	event_reader_close(&process->feed);
	err = process_interrupt(process->cove, process->base);
	private_begin(process->cove);
	return err ? err_recast(why, err_kind(why), "still_running",
				"the command could not be killed and may still run")
		   : why;
}

enum cove_kind cove_exec(struct cove_box *box, const struct cove_exec_options *options,
			 struct cove_result *out, struct cove_error *error)
{
	struct cove_process *process = process_new(box);
	struct err *err;

	private_begin(box->cove);
	process->is_exec = true;
	err = exec_open(process, &options->command);
	if (!err)
		err = exec_follow(process, options);
	if (err && (err_kind(err) == ERR_CANCELLED || err_kind(err) == ERR_TIMEOUT) &&
	    process->id && !options->detach)
		err = exec_kill(process, err);
	if (!err && out)
		*out = process->result;
	cove_process_free(process);
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
