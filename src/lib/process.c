// A process is its id. Its output is read as events with positions; when the connection is lost the
// stream is requested again from the last position, so that no byte is missed or repeated.
#include "lib/process.h"

#include <signal.h>

#include "base/mem.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "lib/http_call.h"

#define BODY_MAX ((size_t)4 << 20)
#define INTERRUPT_MS 2000 // from INT to TERM
#define PATIENCE_MS (7ull * 24 * 3600 * 1000)

struct cove_process *cove_process_at(struct cove_box *box, const char *id)
{
	struct cove_process *process = mem_new_of(struct cove_process);
	auto_buf base = BUF_INIT(1 << 20);

	buf_fmt(&base, "%s/api/process/", box->base);
	text_percent(&base, str_of(id));
	process->box = box;
	process->cove = box->cove;
	process->id = mem_str(id);
	process->base = buf_take(&base);
	process->bytes = BUF_INIT(PRIVATE_BODY_MAX);
	return process;
}

const char *cove_process_id(const struct cove_process *process)
{
	return process->id;
}

void cove_process_free(struct cove_process *process)
{
	if (!process)
		return;
	event_reader_close(&process->feed);
	buf_done(&process->bytes);
	json_free(process->info);
	free(process->id);
	free(process->base);
	free(process);
}

static fallible lib_process_start(struct cove_box *box, const struct cove_process_options *options,
				  struct cove_process **out)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_json answer = NULL;
	struct json_out json = json_to(&body);
	struct cove_command command = options->command;
	struct err *err;

	command.input = NULL;
	json_begin(&json, '{');
	TRY(fields_command(&json, &command, NULL));
	if (options->id)
		json_put_text(&json, "processId", options->id);
	if (options->open_stdin)
		json_put_bool(&json, "openStdin", true);
	if (options->auto_cleanup)
		json_put_bool(&json, "autoCleanup", true);
	json_end(&json, '}');
	err = lib_box_post(box, "/api/process/start", &body, &answer);
	if (err)
		return fields_no_cwd(err, box->cove, options->command.cwd);
	if (!*fields_text(answer, "processId"))
		return err_new(BAD_PEER, "bad_reply", "the daemon started a process without an id");
	*out = cove_process_at(box, fields_text(answer, "processId"));
	return OK;
}

enum cove_kind cove_process_start(struct cove_box *box, const struct cove_process_options *options,
				  struct cove_process **out, struct cove_error *error)
{
	private_begin(box->cove);
	return private_end(box->cove, lib_process_start(box, options, out), error);
}

static struct cove_process_info lib_process_info_of(const struct json *process)
{
	const char *status = fields_text(process, "status");

	return (struct cove_process_info){
		.id = fields_text(process, "id"),
		.command = fields_text(process, "command"),
		.status = status,
		.start_time = fields_text(process, "startTime"),
		.end_time = fields_text(process, "endTime"),
		.pid = fields_number(process, "pid", 0),
		.ended = strcmp(status, "running") != 0 && strcmp(status, "starting") != 0,
		.exit_code = (int)fields_number(process, "exitCode", 0),
		.truncated = json_get(process, "totalBytes") != NULL,
		.kept_bytes = (uint64_t)fields_number(process, "keptBytes", 0),
		.output_bytes = (uint64_t)fields_number(process, "totalBytes", 0),
	};
}

static fallible lib_process_look(struct cove_process *process, struct cove_process_info *out)
{
	auto_json answer = NULL;

	TRY(http_call_json(process->cove, "GET", process->base, NULL, &answer));
	if (!json_get(answer, "process"))
		return err_new(BAD_PEER, "bad_reply",
			       "the daemon's answer does not describe the process");
	json_free(process->info);
	process->info = take_ptr(answer);
	*out = lib_process_info_of(json_get(process->info, "process"));
	return OK;
}

enum cove_kind cove_process_info(struct cove_process *process, struct cove_process_info *out,
				 struct cove_error *error)
{
	private_begin(process->cove);
	return private_end(process->cove, lib_process_look(process, out), error);
}

static fallible lib_process_list(struct cove_box *box, cove_process_fn *each, void *arg)
{
	auto_free char *path = lib_box_path(box, "/api/process/list");
	auto_json answer = NULL;
	struct json *all;

	TRY(http_call_json(box->cove, "GET", path, NULL, &answer));
	all = json_get(answer, "processes");
	for (size_t i = 0; all && i < json_count(all); i++) {
		struct cove_process_info info = lib_process_info_of(json_at(all, i));

		if (each(arg, &info))
			return err_new(CANCELLED, "cancelled", "the callback ended the listing");
	}
	return OK;
}

enum cove_kind cove_process_list(struct cove_box *box, cove_process_fn *each, void *arg,
				 struct cove_error *error)
{
	private_begin(box->cove);
	return private_end(box->cove, lib_process_list(box, each, arg), error);
}

enum cove_kind cove_process_kill(struct cove_process *process, struct cove_error *error)
{
	private_begin(process->cove);
	return private_end(process->cove,
			   http_call_text(process->cove, "DELETE", process->base, NULL, NULL, NULL),
			   error);
}

enum cove_kind cove_process_signal(struct cove_process *process, int signal,
				   struct cove_error *error)
{
	auto_free char *path = mem_fmt("%s/signal", process->base);
	auto_buf body = BUF_INIT(256);

	private_begin(process->cove);
	buf_fmt(&body, "{\"signal\":%d}", signal);
	return private_end(process->cove,
			   http_call_text(process->cove, "POST", path, NULL, &body, NULL), error);
}

fallible process_interrupt(struct cove *cove, const char *base)
{
	auto_free char *signal = mem_fmt("%s/signal", base);
	auto_free char *wait = mem_fmt("%s/wait?timeoutMs=%d", base, INTERRUPT_MS);
	auto_buf body = BUF_INIT(64);
	auto_json ended = NULL;
	auto_err err = OK;

	atomic_store(&cove->cancelled, false); // the cause of the cancellation is known
	private_begin(cove);
	buf_fmt(&body, "{\"signal\":%d}", SIGINT);
	err = http_call_text(cove, "POST", signal, NULL, &body, NULL);
	private_begin(cove);
	if (!err)
		err = http_call_json(cove, "GET", wait, NULL, &ended);
	if (!err && ended)
		return OK;
	private_begin(cove);
	return http_call_text(cove, "DELETE", base, NULL, NULL, NULL);
}

enum cove_kind cove_process_interrupt(struct cove_process *process, struct cove_error *error)
{
	private_begin(process->cove);
	return private_end(process->cove, process_interrupt(process->cove, process->base), error);
}

static fallible kill_all(struct cove_box *box, uint64_t *out_count)
{
	auto_free char *path = lib_box_path(box, "/api/process/kill-all");
	auto_json answer = NULL;

	TRY(http_call_json(box->cove, "DELETE", path, NULL, &answer));
	if (out_count)
		*out_count = (uint64_t)fields_number(answer, "cleanedCount", 0);
	return OK;
}

enum cove_kind cove_process_kill_all(struct cove_box *box, uint64_t *out_count,
				     struct cove_error *error)
{
	private_begin(box->cove);
	return private_end(box->cove, kill_all(box, out_count), error);
}

// Sends one body of any length: it waits as long as the process does not read.
static fallible give_input(struct cove_process *process, struct str bytes, bool close)
{
	auto_free char *path = mem_fmt("%s/stdin?timeoutMs=%llu%s", process->base,
				       (unsigned long long)PATIENCE_MS, close ? "&close=true" : "");
	struct cove_request request = {.cove = process->cove,
				       .method = "POST",
				       .path = path,
				       .type = "application/octet-stream"};
	auto_buf reply = BUF_INIT(1 << 20);
	struct err *err = request_begin(&request);

	if (!err && bytes.len)
		err = request_write(&request, bytes.at, bytes.len);
	if (!err)
		err = request_finish(&request);
	if (!err)
		err = request_body(&request, &reply);
	request_done(&request);
	return err;
}

enum cove_kind cove_process_write(struct cove_process *process, const void *bytes, size_t len,
				  struct cove_error *error)
{
	private_begin(process->cove);
	return private_end(process->cove, give_input(process, (struct str){bytes, len}, false),
			   error);
}

enum cove_kind cove_process_close_stdin(struct cove_process *process, struct cove_error *error)
{
	private_begin(process->cove);
	return private_end(process->cove, give_input(process, STR(""), true), error);
}
